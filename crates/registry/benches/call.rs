//! What a call costs: entering and leaving, opening an object, polling the cancel flag.
//! `cargo bench -p tintype-registry`

use std::hint::black_box;
use std::time::Instant;

use tintype_registry::{CancelToken, Kind, Registry, RegistryError, Stage, Tracked};

struct Object;

impl Tracked for Object {}

/// The best of seven rounds, in nanoseconds for one.
fn time(name: &str, count: u32, mut work: impl FnMut()) {
    let round = |_| {
        let begun = Instant::now();
        (0..count).for_each(|_| work());
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    let best = (0..7).map(round).fold(f64::INFINITY, f64::min);
    println!("{name:32} {best:8.1} ns");
}

fn main() -> Result<(), RegistryError> {
    let registry = Registry::global();
    let token = CancelToken::new();
    let create = || {
        let object = registry.create(Stage::Context, &token, |_| Ok::<_, RegistryError>(Object));
        object.map_err(|_| RegistryError::Closed)
    };
    let handle = create()?;
    time("enter and leave", 200_000, || drop(black_box(registry.enter(Kind::Mark))));
    let outer = registry.enter(Kind::Mark)?;
    time("enter and leave, nested", 200_000, || drop(black_box(registry.enter(Kind::Mark))));
    drop(outer);
    time("open and close an object", 200_000, || {
        drop(black_box(registry.open::<Object>(handle, Kind::Generate)));
    });
    time("create and free an object", 100_000, || {
        _ = black_box(create().and_then(|handle| registry.free(handle)));
    });
    time("cancel", 200_000, || _ = black_box(registry.cancel(handle)));
    token.take();
    time("poll the cancel token", 10_000_000, || _ = black_box(black_box(&token).check()));
    Ok(())
}
