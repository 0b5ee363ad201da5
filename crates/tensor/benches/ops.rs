//! Times every operation's benchmark cases on every device, beside a floor: the time that its bytes
//! take at the measured reading speed, or its operations at the measured peak, whichever is longer.
//!
//! `cargo bench -p tintype-tensor -- [part of a name] [--device cpu] [--threads 2] [--software]`

#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Image, PATIENCE, bytes_of, get, missing, tolerance};
use tintype_gpu::{DType, Device, DeviceKind, DeviceOptions, Selector, list};
use tintype_tensor::Tensor;
use tintype_tensor::ops::OPERATIONS;
use tintype_tensor::ops::case::{Case, Values};
use tintype_tensor::ops::reduce::stream_sum;

/// How long a case is repeated.
const BUDGET: Duration = Duration::from_millis(400);

/// Operations of a case too large for the CPU.
const LARGE: f64 = 5e10;

struct Options {
    wanted: String,
    device: String,
    threads: usize,
    software: bool,
}

fn options() -> Options {
    let mut given = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut options =
        Options { wanted: String::new(), device: String::new(), threads: 0, software: false };
    while let Some(arg) = given.next() {
        match arg.as_str() {
            "--device" => options.device = given.next().unwrap_or_default(),
            "--threads" => options.threads = given.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            "--software" => options.software = true,
            _ => options.wanted = arg,
        }
    }
    options
}

fn main() {
    let options = options();
    for info in &list().devices {
        let software = info.kind == DeviceKind::Software && !options.software;
        if software || !info.selector().contains(&options.device) {
            continue;
        }
        let selector: Selector = info.selector().parse().expect("a listed device has a selector");
        let threads = options.threads;
        let device = Device::open(&selector, DeviceOptions { threads, ..Default::default() });
        match device {
            Ok(device) => on(&device, &options),
            Err(error) => eprintln!("skipped: {}: {error}", info.selector()),
        }
    }
}

fn on(device: &Device, options: &Options) {
    let read = reading_speed(device);
    let peak = (device.info().limits.threads > 0).then(|| peak(device.info().limits.threads));
    let shown = peak.map_or("unknown".into(), |peak| format!("{:.0} GFLOP/s", peak / 1e9));
    println!("{device:?}: reads {:.1} GB/s, f32 peak {shown}", read / 1e9);
    let mut table = comfy_table::Table::new();
    table.set_header([
        "operation",
        "case",
        "floor",
        "ours",
        "of floor",
        "GB/s",
        "TFLOP/s",
        "check",
    ]);
    for operation in OPERATIONS {
        for case in (operation.benches)() {
            if !operation.name.contains(&options.wanted) && !case.name.contains(&options.wanted) {
                continue;
            }
            if missing(device, &case).is_some() || (peak.is_some() && case.flops > LARGE) {
                eprintln!("skipped: {} on {device:?}", case.name);
                continue;
            }
            let (time, check) = time(device, &case);
            let moved = case.bytes() / read;
            let floor = peak.map_or(moved, |peak| moved.max(case.flops / peak));
            table.add_row([
                operation.name.to_owned(),
                case.name.clone(),
                micros(floor),
                micros(time),
                format!("{:.0} %", 100.0 * floor / time),
                format!("{:.1}", case.bytes() / time / 1e9),
                if case.flops > 0.0 {
                    format!("{:.3}", case.flops / time / 1e12)
                } else {
                    String::new()
                },
                check,
            ]);
        }
    }
    println!("{table}");
}

fn micros(seconds: f64) -> String {
    format!("{:.1} µs", seconds * 1e6)
}

/// Best time of a run, from replays of one recorded pass.
fn best(
    device: &Device,
    record: impl Fn(&mut tintype_gpu::Session<'_>),
) -> (f64, tintype_gpu::Done) {
    // Several times in one pass where that is short, so that submitting does not count.
    let mut repeats = 1;
    loop {
        let mut session = device.session().expect("an open device records");
        for _ in 0..repeats {
            record(&mut session);
            session.barrier();
        }
        let mut pass = session.finish().expect("a recorded pass encodes");
        let (mut best, started) = (f64::INFINITY, Instant::now());
        let mut runs = 0;
        loop {
            let begun = Instant::now();
            let (again, done) = pass.run(PATIENCE).expect("the pass completes");
            let time = begun.elapsed().as_secs_f64();
            best = best.min(time);
            runs += 1;
            pass = again;
            if repeats == 1 && runs == 2 && best < 2e-3 {
                break;
            }
            if started.elapsed() > BUDGET && runs > 2 {
                return (best / f64::from(repeats), done);
            }
        }
        repeats = (4e-3 / best).ceil().clamp(2.0, 500.0) as u32;
    }
}

fn time(device: &Device, case: &Case) -> (f64, String) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut values = Vec::new();
    let mut inputs = Vec::new();
    for operand in &case.inputs {
        let mut image = Image::poisoned(operand);
        let data = image.randomize(operand, &mut random);
        inputs.push(image.tensor(device, operand, "input"));
        if case.sample.is_some() {
            values.push(Values { shape: operand.shape.clone(), data });
        }
    }
    let image = Image::poisoned(&case.output);
    let output = match case.in_place {
        Some(n) => inputs[n].clone(),
        None => image.tensor(device, &case.output, "output"),
    };
    let (time, done) = best(device, |session| {
        (case.record)(session, &inputs, &output).expect("a benchmark case records");
    });
    let Some(sample) = &case.sample else { return (time, String::new()) };
    let bytes = bytes_of(&done, output.buffer());
    let offsets = image.offsets(&case.output);
    let size = case.output.dtype.block_bytes() as usize;
    let (mut error, mut norm) = (0.0, 0.0);
    for _ in 0..256 {
        let at = random.usize(..offsets.len());
        let right = sample(&values, at);
        error += (get(case.output.dtype, &bytes[offsets[at] * size..][..size]) - right).powi(2);
        norm += right.powi(2);
    }
    let relative = (error / norm).sqrt();
    let right = relative <= tolerance(case.output.dtype);
    (time, format!("{} {relative:.1e}", if right { "right" } else { "WRONG" }))
}

/// Bytes a second of a streaming sum over memory far larger than caches.
fn reading_speed(device: &Device) -> f64 {
    let large = device.info().kind == DeviceKind::Discrete;
    let limit = device.info().limits.max_binding_bytes.min(if large { 4 << 30 } else { 256 << 20 });
    let n = ((limit / 4) as usize - 4096).next_multiple_of(4096);
    let a = Tensor::empty(device, DType::F32, &[n]).expect("memory for the probe");
    let mut fastest: f64 = 0.0;
    for parts in [1 << 10, 1 << 12, 1 << 14] {
        let out = Tensor::empty(device, DType::F32, &[parts]).expect("memory for the probe");
        let (time, _) = best(device, |session| {
            stream_sum(session, &a, &out).expect("a probe records");
        });
        fastest = fastest.max(n as f64 * 4.0 / time);
    }
    fastest
}

/// f32 operations a second of all threads, multiplying and adding in registers.
fn peak(threads: u32) -> f64 {
    const ROUNDS: usize = 2_000_000;
    // Eight vector registers, long enough a loop to become vector code.
    const LANES: usize = 128;
    let work = || {
        let mut all = [1.0f32; LANES];
        let (x, y) = (std::hint::black_box(0.999_9f32), std::hint::black_box(1e-4f32));
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let mut lanes = all;
                for _ in 0..ROUNDS {
                    for lane in &mut lanes {
                        *lane = lane.mul_add(x, y);
                    }
                }
                all = lanes;
            },
        );
        std::hint::black_box(all);
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let operations = ROUNDS * LANES * 2 * threads as usize;
    operations as f64 / begun.elapsed().as_secs_f64()
}
