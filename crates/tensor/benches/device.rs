//! What a GPU does with this project's promises and kernels: a race that is real without its
//! barrier, the price of barriers, streaming and matrix rates against their floors, and a clean exit
//! with the device alive. Prints Markdown. `cargo xtask bench device` runs it on `TINTYPE_DEVICE`.

use std::time::{Duration, Instant};

use half::f16;
use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::{
    Buffer, DType, Device, DeviceOptions, Dispatch, Done, Error, Ordering, Pass, Session,
    SessionOptions, Split,
};
use tintype_tensor::Tensor;
use tintype_tensor::ops::matmul::matmul;
use tintype_tensor::ops::pointwise::{Binary, Unary, binary, unary};
use tintype_tensor::ops::reduce::stream_sum;

const PATIENCE: Duration = Duration::from_secs(120);
/// Streaming limit of an H200 as CUDA measures it, in bytes a second.
const H200_BYTES: f64 = 4.3e12;
const EXITS: usize = 50;
/// Streaming reads in one submission.
const STREAMS: usize = 20;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    if std::env::args().any(|argument| argument == "--exit-child") {
        return exit_child();
    }
    let device = Device::from_env(DeviceOptions::default())?;
    let info = device.info();
    println!("Device: {} ({}, {})\n", info.name, info.selector(), info.driver);
    race(&device)?;
    replay(&device)?;
    stream(&device)?;
    products(&device)?;
    exits()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..n).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

/// `out[i] = tmp[n - 1 - i] * c[i]`
const REVERSE_MUL: KernelSource = KernelSource {
    name: "reverse_mul",
    wgsl: "// out[i] = tmp[n - 1 - i] * c[i]\n\
        @group(0) @binding(0) var<storage, read> tmp: array<f32>;\n\
        @group(0) @binding(1) var<storage, read> c: array<f32>;\n\
        @group(0) @binding(2) var<storage, read_write> out: array<f32>;\n\
        @compute @workgroup_size(256)\n\
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n\
            let n = arrayLength(&out);\n\
            if id.x < n { out[id.x] = tmp[n - 1u - id.x] * c[id.x]; }\n\
        }\n",
    entry: "main",
    aliases: &[],
    cpu: reverse_mul,
};

fn reverse_mul(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let (tmp, c) = (unit.read::<f32>(0)?, unit.read::<f32>(1)?);
    let first = unit.index() as usize * 16384;
    for (at, out) in unit.write::<f32>(2)?.iter_mut().enumerate() {
        let i = first + at;
        *out = tmp[tmp.len() - 1 - i] * c[i];
    }
    Ok(())
}

/// tmp = a + b; out = reverse(tmp) * c, with and without the barrier between.
fn race(device: &Device) -> Outcome {
    const N: usize = 4 << 20;
    const RUNS: usize = 10;
    println!(
        "### An ordering fault is real: `tmp = a + b; out = reverse(tmp) · c` over {N} floats\n"
    );
    let host: Vec<Vec<f32>> = (1..4).map(|seed| random(N, seed)).collect();
    let inputs: Vec<Buffer> =
        host.iter().map(|data| device.buffer_from(&[N], data)).collect::<Result<_, _>>()?;
    let (tmp, out) = (device.buffer(DType::F32, &[N])?, device.buffer(DType::F32, &[N])?);
    let (tmp, out) = (tmp.named("tmp"), out.named("out"));
    let kernel = device.kernel(&REVERSE_MUL, &[])?;
    let record = |session: &mut Session<'_>, barrier: bool| -> Outcome {
        let [a, b] = [Tensor::of(&inputs[0])?, Tensor::of(&inputs[1])?];
        binary(session, Binary::Add, &a, &b, &Tensor::of(&tmp)?)?;
        if barrier {
            session.barrier();
        }
        let second = Dispatch::new(&kernel)
            .label("reverse_mul")
            .bind(tmp.read())
            .bind(inputs[2].read())
            .bind(out.write())
            .groups([N as u32 / 256, 1, 1])
            .cpu(N as u32 / 16384, [Split::Chunks(65536)]);
        session.dispatch(second)?;
        Ok(())
    };
    let wrong = |done: &Done| -> Outcome<usize> {
        let got: Vec<f32> = done.read(&out)?;
        let right = |i: usize| (host[0][N - 1 - i] + host[1][N - 1 - i]) * host[2][i];
        Ok((0..N).filter(|&i| got[i] != right(i)).count())
    };
    println!("| barrier | wrong elements in {RUNS} runs |\n|---|---|");
    for barrier in [false, true] {
        let mut counts = Vec::new();
        for _ in 0..RUNS {
            device.upload(&tmp.write(), &vec![0f32; N])?;
            let ordering = if barrier { Ordering::Checked } else { Ordering::Unchecked };
            let options = SessionOptions { ordering, ..Default::default() };
            let mut session = device.session_with(options)?;
            record(&mut session, barrier)?;
            let (_, done) = session.finish()?.run(PATIENCE)?;
            counts.push(wrong(&done)?);
        }
        println!("| {} | {counts:?} |", if barrier { "yes" } else { "no (unchecked)" });
    }
    let mut session = device.session()?;
    let refusal = record(&mut session, false).err().map(|error| error.to_string());
    println!(
        "\nThe checker, asked for the same without the barrier: {}\n",
        refusal.ok_or("it did not refuse")?
    );
    Ok(())
}

/// A pass of small dispatches, submitted again and again, and recorded again and again.
fn replay(device: &Device) -> Outcome {
    const COUNT: usize = 500;
    println!("### {COUNT} small dispatches (1 024 floats each), a submission and its wait\n");
    println!("| | µs a dispatch |\n|---|---|");
    let a = Tensor::of(&device.buffer_from(&[1024], &random(1024, 1))?)?;
    let outs: Vec<Tensor> =
        (0..COUNT).map(|_| Tensor::empty(device, DType::F32, &[1024])).collect::<Result<_, _>>()?;
    let record = |barriers: bool| -> Outcome<Pass> {
        let mut session = device.session()?;
        for out in &outs {
            unary(&mut session, Unary::Neg, [0.0; 2], &a, out)?;
            if barriers {
                session.barrier();
            }
        }
        Ok(session.finish()?)
    };
    for (name, barriers) in
        [("replayed, a barrier after each", true), ("replayed, no barriers", false)]
    {
        let mut pass = record(barriers)?;
        let mut times = Vec::new();
        for _ in 0..60 {
            let started = Instant::now();
            pass = pass.run(PATIENCE)?.0;
            times.push(started.elapsed());
        }
        println!("| {name} | {:.2} |", median(times).as_secs_f64() * 1e6 / COUNT as f64);
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        record(true)?.run(PATIENCE)?;
        times.push(started.elapsed());
    }
    println!(
        "| recorded anew, a barrier after each | {:.2} |\n",
        median(times).as_secs_f64() * 1e6 / COUNT as f64
    );
    Ok(())
}

/// What one dispatch of several in a pass takes, ordered by barriers.
struct Time {
    /// Between its timestamps; the median.
    device: Duration,
    /// Its share of the pass by the host's clock, submission and wait included; the median of three.
    clock: Duration,
}

/// Times dispatches; the first pass warms up.
fn timed(
    device: &Device,
    runs: usize,
    record: impl Fn(&mut Session<'_>) -> Outcome,
) -> Outcome<Time> {
    let timestamps = device.info().features.timestamps;
    let mut session = device.session_with(SessionOptions { timestamps, ..Default::default() })?;
    for _ in 0..runs {
        record(&mut session)?;
        session.barrier();
    }
    let (mut pass, mut done) = session.finish()?.run(PATIENCE)?;
    let mut clock = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        (pass, done) = pass.run(PATIENCE)?;
        clock.push(started.elapsed() / runs as u32);
    }
    let device = done.timings().iter().map(|timing| timing.end - timing.start).collect();
    Ok(Time { device: median(device), clock: median(clock) })
}

/// Reads a large buffer once.
fn stream(device: &Device) -> Outcome {
    let gpu = device.info().limits.threads == 0;
    let limit = device.info().limits.max_binding_bytes.min(device.memory().free / 4);
    let bytes = if gpu { limit.min(2 << 30) } else { 256 << 20 };
    let n = (bytes / 4 / 4096 * 4096) as usize;
    let data = random(n, 7);
    let sum: f64 = data.iter().map(|&x| f64::from(x)).sum();
    let magnitude: f64 = data.iter().map(|&x| f64::from(x.abs())).sum();
    let buffer = Tensor::of(&device.buffer_from(&[n], &data)?)?;
    drop(data);
    println!("### Streaming read of {} MiB of random floats\n", n / (256 << 10));
    println!(
        "By timestamps around a dispatch, and by the clock around {STREAMS} in one submission.\n"
    );
    println!("| partial sums | GB/s | by the clock | of 4 300 GB/s | error of the sum |");
    println!("|---|---|---|---|---|");
    for parts in [132 * 8, 132 * 16, 132 * 32, 132 * 64] {
        let partial = Tensor::empty(device, DType::F32, &[parts])?;
        let time = timed(device, STREAMS, |session| Ok(stream_sum(session, &buffer, &partial)?))?;
        let rate = |time: Duration| n as f64 * 4.0 / time.as_secs_f64();
        let (shown, clock) = (rate(time.device), rate(time.clock));
        let sums: Vec<f32> = device.idle(PATIENCE)?.read(partial.buffer())?;
        let error = (sums.iter().map(|&x| f64::from(x)).sum::<f64>() - sum).abs() / magnitude;
        println!(
            "| {parts} | {:.0} | {:.0} | {:.1} % | {error:.0e} |",
            shown / 1e9,
            clock / 1e9,
            clock / H200_BYTES * 100.0
        );
        if error > 1e-6 {
            return Err(format!("a sum of {parts} parts is off by {error:e} of Σ|x|").into());
        }
    }
    println!();
    Ok(())
}

/// Products; a sample of the results is checked in float64.
fn products(device: &Device) -> Outcome {
    println!("### Matrix products (2·m·n·k operations, device time)\n");
    println!("| types | weights | m × n × k | TFLOP/s | ms | relative error of a sample |");
    println!("|---|---|---|---|---|---|");
    let gpu = device.info().limits.threads == 0
        && device.info().kind != tintype_gpu::DeviceKind::Software;
    let (square, odd) =
        if gpu { ([4096; 3], [4001, 4100, 4040]) } else { ([512; 3], [401, 500, 440]) };
    for (from, to) in [(DType::F16, DType::F32), (DType::F16, DType::F16), (DType::F32, DType::F32)]
    {
        for (sizes, transposed) in [(square, true), (square, false), (odd, true)] {
            product(device, from, to, sizes, transposed)?;
        }
    }
    println!();
    Ok(())
}

/// One product, a row of the table.
fn product(
    device: &Device,
    from: DType,
    to: DType,
    [m, n, k]: [usize; 3],
    transposed: bool,
) -> Outcome {
    let (a, b) = (random(m * k, 5), random(n * k, 6));
    let upload = |data: &[f32], shape: [usize; 2]| -> Result<Buffer, Error> {
        match from {
            DType::F16 => {
                let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
                device.buffer_from(&shape, &halves)
            }
            _ => device.buffer_from(&shape, data),
        }
    };
    let lhs = Tensor::of(&upload(&a, [m, k])?)?;
    let rhs = match transposed {
        true => Tensor::of(&upload(&b, [n, k])?)?.transpose()?,
        false => Tensor::of(&upload(&b, [k, n])?)?,
    };
    let out = Tensor::empty(device, to, &[m, n])?;
    let time = timed(device, 12, |session| Ok(matmul(session, &lhs, &rhs, &out)?))?.device;
    let done = device.idle(PATIENCE)?;
    let got: Vec<f32> = match to {
        DType::F16 => done.read::<f16>(out.buffer())?.into_iter().map(f16::to_f32).collect(),
        _ => done.read(out.buffer())?,
    };
    let error = sample_error(&a, &b, &got, [n, k], from, transposed);
    let name = if transposed { "[n, k]" } else { "[k, n]" };
    println!(
        "| {from} → {to} | {name} | {m} × {n} × {k} | {:.1} | {:.3} | {error:.1e} |",
        2.0 * (m * n * k) as f64 / time.as_secs_f64() / 1e12,
        time.as_secs_f64() * 1e3
    );
    let bound = if to == DType::F16 { 2e-3 } else { 1e-4 };
    if error < bound { Ok(()) } else { Err(format!("the product is off by {error:e}").into()) }
}

/// ‖out − ref‖ / ‖ref‖ over 256 random elements.
fn sample_error(
    a: &[f32],
    b: &[f32],
    got: &[f32],
    [n, k]: [usize; 2],
    dtype: DType,
    transposed: bool,
) -> f64 {
    let stored = |x: f32| match dtype {
        DType::F16 => f16::from_f32(x).to_f64(),
        _ => f64::from(x),
    };
    let mut rng = fastrand::Rng::with_seed(9);
    let (mut error, mut norm) = (0.0, 0.0);
    for _ in 0..256 {
        let (i, j) = (rng.usize(..got.len() / n), rng.usize(..n));
        let weight = |at: usize| if transposed { b[j * k + at] } else { b[at * n + j] };
        let right: f64 = (0..k).map(|at| stored(a[i * k + at]) * stored(weight(at))).sum();
        error += (f64::from(got[i * n + j]) - right).powi(2);
        norm += right * right;
    }
    (error / norm).sqrt()
}

/// Processes that end with their device alive.
fn exits() -> Outcome {
    println!("### {EXITS} processes that end with the device alive and a pass recorded\n");
    let program = std::env::current_exe()?;
    let mut clean = 0;
    let mut times = Vec::new();
    for _ in 0..EXITS {
        let started = Instant::now();
        let output = std::process::Command::new(&program).arg("--exit-child").output()?;
        times.push(started.elapsed());
        clean += usize::from(output.status.success() && output.stdout == b"worked\n");
    }
    println!(
        "{clean} of {EXITS} ended cleanly, median {:.0} ms a process",
        median(times).as_secs_f64() * 1e3
    );
    if clean == EXITS { Ok(()) } else { Err("a process did not end cleanly".into()) }
}

fn exit_child() -> Outcome {
    let device = Device::from_env(DeviceOptions::default())?;
    let a = Tensor::of(&device.buffer_from(&[1000], &random(1000, 1))?)?;
    let out = Tensor::empty(&device, DType::F32, &[1000])?;
    let mut session = device.session()?;
    unary(&mut session, Unary::Neg, [0.0; 2], &a, &out)?;
    let (pass, _) = session.finish()?.run(PATIENCE)?;
    println!("worked");
    std::mem::forget((pass, a, out, device));
    Ok(())
}
