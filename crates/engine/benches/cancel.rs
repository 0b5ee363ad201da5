//! From a cancel on another thread to the return of the call that it stops, by the phase it fell into.
//! Prints Markdown. `cargo xtask bench image` runs it.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tintype::ImageRequest;
use tintype::image::{CancelToken, ImageError, ImageModel, LoadOptions, Observer, Phase, Progress};
use tintype_gpu::{Backend, Device, DeviceOptions, Selector};

/// Cancels of each phase.
const CANCELS: usize = 200;

/// Tells the cancelling thread when a phase begins.
struct Mark<'a> {
    phase: Phase,
    begun: &'a Mutex<Option<Instant>>,
}

impl Observer for Mark<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.phase == self.phase && progress.done == 0 {
            self.begun.lock().unwrap().get_or_insert_with(Instant::now);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(0);
    println!(
        "From a cancel to the return of the call, {CANCELS} at random moments of each phase:\n"
    );
    println!("| device | phase | p50, ms | p99, ms | longest, ms |\n|---|---|---|---|---|");
    let options = || DeviceOptions { threads, ..DeviceOptions::default() };
    measure("CPU", Device::cpu(options()).unwrap());
    if let Ok(device) = Device::open(&Selector::Backend(Backend::Vulkan, None), options()) {
        let name = format!("Vulkan, {}", device.info().name);
        measure(&name, device);
    }
}

fn measure(name: &str, device: Device) {
    let options = LoadOptions { device: Some(device), ..LoadOptions::default() };
    let began = Instant::now();
    let model = ImageModel::built_in(&options).unwrap();
    let load = began.elapsed();
    let request = ImageRequest::new("a cat");
    let times = model.generate(&request, &CancelToken::new(), &mut |_| ()).unwrap().timings;
    let mut rng = fastrand::Rng::with_seed(1);
    let waits: Vec<Duration> = (0..CANCELS)
        .filter_map(|_| {
            let cancel = CancelToken::new();
            let options = LoadOptions { cancel: cancel.clone(), ..options.clone() };
            let work = || ImageModel::built_in(&options).map(drop);
            stopped(&cancel, None, load.mul_f64(rng.f64()), work)
        })
        .collect();
    row(name, Phase::Load, waits);
    let phases =
        [(Phase::Text, times.text), (Phase::Denoise, times.denoise), (Phase::Decode, times.decode)];
    for (phase, length) in phases {
        let waits = (0..CANCELS).filter_map(|_| {
            // A decode stands at the end of all steps; one is enough to come to it.
            let steps = if phase == Phase::Decode { 1 } else { 20 };
            let request = request.clone().steps(steps);
            let cancel = CancelToken::new();
            let begun = Mutex::new(None);
            let mut mark = Mark { phase, begun: &begun };
            let work = || model.generate_observed(&request, &cancel, &mut mark).map(drop);
            stopped(&cancel, Some(&begun), length.mul_f64(rng.f64()), work)
        });
        row(name, phase, waits.collect());
    }
}

/// How long the work went on after a cancel `after` its beginning; `None` if it had ended before.
fn stopped(
    cancel: &CancelToken,
    begun: Option<&Mutex<Option<Instant>>>,
    after: Duration,
    work: impl FnOnce() -> Result<(), ImageError>,
) -> Option<Duration> {
    let ended = Arc::new(AtomicUsize::new(0));
    let asked = Mutex::new(None);
    let result = std::thread::scope(|scope| {
        let (theirs, at) = (ended.clone(), &asked);
        scope.spawn(move || {
            let start = Instant::now();
            let begin = || begun.map_or(Some(start), |begun| *begun.lock().unwrap());
            while theirs.load(Ordering::Acquire) == 0 {
                if begin().is_some_and(|begin| begin.elapsed() >= after) {
                    *at.lock().unwrap() = Some(Instant::now());
                    return cancel.cancel();
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let result = work();
        let end = Instant::now();
        ended.store(1, Ordering::Release);
        result.err().map(|error| (error, end))
    });
    match result {
        Some((ImageError::Cancelled(_), end)) => {
            asked.lock().unwrap().map(|at| end.saturating_duration_since(at))
        }
        Some((error, _)) => panic!("{error}"),
        None => None,
    }
}

fn row(device: &str, phase: Phase, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let at = |share: f64| {
        let at = ((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1));
        waits.get(at).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e3)
    };
    let name = phase.name();
    println!("| {device} | {name} | {:.1} | {:.1} | {:.1} |", at(0.5), at(0.99), at(1.0));
}
