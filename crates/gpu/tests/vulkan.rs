//! What only the Vulkan backend can get wrong: its limits, imports, features, subgroups, caches,
//! devices opened by the hundred and in parallel, a missing driver, and objects left behind.
#![allow(clippy::unwrap_used)] // Helpers of tests, which clippy does not take for tests.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::testing::validation_messages;
use tintype_gpu::{
    Backend, DType, Device, DeviceOptions, DiskCache, Dispatch, Error, HostMemory, Ordering,
    Placement, SessionOptions, list,
};

const ROLE: &str = "TINTYPE_VULKAN_ROLE";

fn gpu_only(_: &mut Unit<'_>) -> Result<(), UnitError> {
    Ok(())
}

const fn source(name: &'static str, wgsl: &'static str) -> KernelSource {
    KernelSource { name, wgsl, entry: "main", aliases: &[], cpu: gpu_only }
}

/// The Vulkan devices, opened; says so if there are none.
fn vulkan(options: DeviceOptions) -> Vec<Device> {
    let devices: Vec<_> = list()
        .devices
        .iter()
        .filter(|info| info.backend == Backend::Vulkan)
        .map(|info| Device::open(&info.selector().parse().unwrap(), options.clone()).unwrap())
        .collect();
    if devices.is_empty() {
        let required = std::env::var("TINTYPE_TEST_VULKAN").is_ok_and(|v| v == "required");
        assert!(!required, "TINTYPE_TEST_VULKAN=required, but there is no Vulkan device");
        eprintln!("skipped: no Vulkan device");
    }
    devices
}

#[test]
fn a_binding_beyond_the_limit_is_refused_and_its_parts_are_not() {
    for device in vulkan(DeviceOptions::default()) {
        let most = device.info().limits.max_binding_bytes;
        if most > 1 << 30 {
            eprintln!("skipped on {device:?}: a binding holds {most} bytes");
            continue;
        }
        let n = most as usize / 4 + 1024;
        let large = device.buffer(DType::F32, &[n]).unwrap();
        let out = poisoned(&device, 1000);
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let mut session = device.session().unwrap();
        let whole = over(&kernel, 1000, 2.0, 0.0).bind(large.read()).bind(out.write());
        let refused = session.dispatch(whole).map(drop).unwrap_err();
        assert!(matches!(refused, Error::BadDispatch { .. }));
        assert!(refused.to_string().contains(&most.to_string()), "{refused}");
        // The last thousand elements lie beyond the limit, and in reach of an offset.
        let start = (n as u64 - 1000) * 4;
        let data = random(1000, 4);
        device.upload(&large.write_bytes(start, n as u64 * 4).unwrap(), &data).unwrap();
        let part = large.read_bytes(start, n as u64 * 4).unwrap();
        session.dispatch(over(&kernel, 1000, 2.0, 0.0).bind(part).bind(out.write())).unwrap();
        let (_, done) = run(session);
        let doubled: Vec<f32> = data.iter().map(|x| x * 2.0).collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), doubled);
    }
}

#[test]
fn memory_is_told_apart_and_never_more_free_than_there_is() {
    for device in vulkan(DeviceOptions::default()) {
        let before = device.memory();
        assert!(before.free <= before.total && before.total > 0, "{before:?}");
        let fresh = device.buffer_in(DType::U8, &[100_001], Placement::Host).unwrap();
        let mapped = fresh.map_write::<u8>().unwrap();
        assert!(mapped.iter().all(|&byte| byte == 0), "fresh mapped memory is zeroed");
        drop(mapped);
        let during = device.memory();
        assert!(during.free <= during.total);
        let asked = before.total as usize + 1;
        let refused = device.buffer(DType::U8, &[asked]).map(drop).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { .. } | Error::TooLarge { .. }), "{refused}");
    }
}

#[test]
fn imports_are_refused_unless_aligned_and_read_to_the_last_byte() {
    for device in vulkan(DeviceOptions::default()) {
        let page: Box<[u8]> = vec![1u8; 20_000].into();
        let page: &'static [u8] = Box::leak(page);
        let odd: Arc<dyn HostMemory> = Arc::new(&page[page.as_ptr().align_offset(4096) + 4..]);
        let refused = device.import(DType::U8, &[64], odd).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        if !device.info().features.import_host {
            continue;
        }
        assert!(refused.to_string().contains("aligned to"), "{refused}");
        // One and a half pages: the mapping is whole pages, the file is not.
        let data = random(1536, 8);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytemuck::cast_slice::<f32, u8>(&data)).unwrap();
        // SAFETY: the file is this test's own and nothing writes it while it is mapped.
        let host = Arc::new(unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap());
        let imported = device.import(DType::F32, &[1536], host).unwrap();
        let out = poisoned(&device, 1536);
        let kernel = device.kernel(&REVERSE, &[]).unwrap();
        let mut session = device.session().unwrap();
        let reversed = over(&kernel, 1536, 0.0, 0.0).bind(imported.read()).bind(out.write());
        session.dispatch(reversed).unwrap();
        let (_, done) = run(session);
        let backwards: Vec<f32> = data.iter().rev().copied().collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), backwards);
    }
}

const SMALL_TYPES: KernelSource = source(
    "small_types",
    "enable f16;
     @group(0) @binding(0) var<storage, read> packed: array<u32>;
     @group(0) @binding(1) var<storage, read> halves: array<f16>;
     @group(0) @binding(2) var<storage, read_write> out: array<f32>;
     @compute @workgroup_size(32)
     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
         let four = unpack4xI8(packed[id.x]);
         let dot = dot4I8Packed(packed[id.x], 0x01010101u);
         out[id.x] = f32(halves[id.x]) * f32(dot) + f32(four.w);
     }",
);

/// Every small type that kernels may use: what the driver is asked for must cover it (the layer's
/// silence shows that), and the numbers must be right.
#[test]
fn small_types_compute_where_they_are_claimed() {
    for device in vulkan(DeviceOptions::default()) {
        let features = device.info().features.clone();
        let kernel = device.kernel(&SMALL_TYPES, &[]);
        if !features.f16 || !features.integer_dot {
            assert!(matches!(kernel.map(drop), Err(Error::Unsupported { .. })));
            continue;
        }
        let kernel = kernel.unwrap();
        let bytes: Vec<[i8; 4]> =
            (0..32).map(|i: i32| [i, -i, 2 * i - 31, 100 - 7 * i].map(|x| x as i8)).collect();
        let packed: Vec<u32> =
            bytes.iter().map(|b| u32::from_le_bytes(b.map(|x| x as u8))).collect();
        let halves: Vec<half::f16> =
            random(32, 2).iter().map(|&x| half::f16::from_f32(x)).collect();
        let packed = device.buffer_from(&[32], &packed).unwrap();
        let input = device.buffer_from(&[32], &halves).unwrap();
        let out = poisoned(&device, 32);
        let mut session = device.session().unwrap();
        let dispatch =
            Dispatch::new(&kernel).bind(packed.read()).bind(input.read()).bind(out.write());
        session.dispatch(dispatch).unwrap();
        let (_, done) = run(session);
        let expected: Vec<f32> = bytes
            .iter()
            .zip(&halves)
            .map(|(b, half)| {
                let dot: i32 = b.iter().map(|&x| i32::from(x)).sum();
                half.to_f32() * dot as f32 + f32::from(b[3])
            })
            .collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), expected, "{device:?}");
    }
}

const SUBGROUPS: KernelSource = source(
    "subgroups",
    "@group(0) @binding(0) var<storage, read_write> out: array<u32>;
     @compute @workgroup_size(64)
     fn main(
         @builtin(global_invocation_id) id: vec3<u32>,
         @builtin(subgroup_size) size: u32,
     ) {
         out[id.x * 2u] = size;
         out[id.x * 2u + 1u] = subgroupAdd(1u);
     }",
);

/// The size that a device tells is the size that kernels see, in every subgroup.
#[test]
fn subgroups_have_the_size_that_is_told() {
    for device in vulkan(DeviceOptions::default()) {
        if !device.info().features.subgroups {
            continue;
        }
        let (size, most) = device.info().limits.subgroup_size;
        assert_eq!(size, most);
        let kernel = device.kernel(&SUBGROUPS, &[]).unwrap();
        let out = device.buffer(DType::U32, &[512]).unwrap();
        let mut session = device.session().unwrap();
        let dispatch = Dispatch::new(&kernel).groups([4, 1, 1]).bind(out.write());
        session.dispatch(dispatch).unwrap();
        let (_, done) = run(session);
        let full = size.min(64);
        for pair in done.read::<u32>(&out).unwrap().chunks(2) {
            assert_eq!(pair, [size, full], "{device:?}");
        }
    }
}

const DEEP: KernelSource = source(
    "deep",
    "override DEPTH: u32 = 1u;
     @group(0) @binding(0) var<storage, read_write> out: array<u32>;
     @compute @workgroup_size(1, 1, DEPTH)
     fn main(@builtin(local_invocation_id) id: vec3<u32>) { out[id.z] = id.z; }",
);

/// Some devices allow fewer threads along z than in all.
#[test]
fn a_workgroup_too_deep_is_refused() {
    for device in vulkan(DeviceOptions::default()) {
        let limits = &device.info().limits;
        let [.., depth] = limits.max_group_size;
        let (name, refused) = match depth < limits.max_group_threads {
            true => ("along z", depth + 1),
            false => ("a workgroup", limits.max_group_threads + 1),
        };
        let depths = |depth: u32| device.kernel(&DEEP, &[("DEPTH", f64::from(depth))]);
        depths(depth.min(limits.max_group_threads)).unwrap();
        let error = depths(refused).unwrap_err();
        assert!(matches!(error, Error::BadKernel { .. }));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn ordered_dispatches_have_ordered_times() {
    for device in vulkan(DeviceOptions::default()) {
        if !device.info().features.timestamps {
            continue;
        }
        let x = poisoned(&device, 1 << 18);
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let options = SessionOptions { timestamps: true, ..Default::default() };
        let mut session = device.session_with(options).unwrap();
        for _ in 0..5 {
            session.dispatch(over(&kernel, 1 << 18, 1.0, 1.0).bind(x.write())).unwrap();
            session.barrier();
        }
        let started = Instant::now();
        let (pass, done) = run(session);
        let took = started.elapsed();
        let check = |times: &[tintype_gpu::Timing]| {
            assert_eq!(times.len(), 5);
            assert!(times.iter().all(|time| time.start <= time.end), "{times:?}");
            assert!(times.windows(2).all(|two| two[0].end <= two[1].end), "{times:?}");
            assert!(times[4].end > Duration::ZERO, "{times:?}");
        };
        check(done.timings());
        assert!(done.timings()[4].end <= took, "{:?} of {took:?}", done.timings());
        check(pass.run(PATIENCE).unwrap().1.timings());
    }
}

#[test]
fn compiled_pipelines_are_kept_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        || DeviceOptions { cache: Some(DiskCache::new(folder.path())), ..Default::default() };
    let entries = || std::fs::read_dir(folder.path()).map_or(0, Iterator::count);
    let stamps = || {
        let mut all: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let use_once = || {
        let Some(device) = vulkan(options()).into_iter().next() else { return false };
        let x = device.buffer_from(&[64], &[1.0f32; 64]).unwrap();
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, 64, 3.0, 0.0).bind(x.write())).unwrap();
        assert_eq!(run(session).1.read::<f32>(&x).unwrap(), [3.0; 64]);
        true
    };
    if !use_once() {
        return;
    }
    assert_eq!(entries(), 2, "the kernel's SPIR-V and the driver's cache");
    let first = stamps();
    assert!(use_once());
    assert_eq!(stamps(), first, "what is kept is used and not written again");
    for (name, _) in first {
        std::fs::write(folder.path().join(name), b"harmed").unwrap();
    }
    assert!(use_once());
}

/// Bytes that this process holds in memory; `None` where the system does not tell.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? * 4096)
}

/// One whole life of a device: kernel, memory, a recording dropped in the middle, a pass.
fn live_once(seed: u64) {
    for device in vulkan(DeviceOptions::default()) {
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let data = random(300, seed);
        let x = device.buffer_from(&[300], &data).unwrap();
        let out = poisoned(&device, 300);
        let mut dropped = device.session().unwrap();
        dropped.dispatch(over(&kernel, 300, 9.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
        match seed % 4 {
            0 => drop(dropped),
            1 => drop(dropped.finish().unwrap()),
            2 => drop(dropped.finish().unwrap().submit().unwrap()),
            _ => dropped.reset(),
        }
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, 300, 2.0, 0.5).bind(x.read()).bind(out.write())).unwrap();
        // The device handle goes first: what is in flight keeps it open.
        let pass = session.finish().unwrap();
        drop((device, kernel, x));
        let (_, done) = pass.run(PATIENCE).unwrap();
        let expected: Vec<f32> = data.iter().map(|x| x * 2.0 + 0.5).collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), expected);
    }
}

#[test]
fn devices_opened_and_closed_by_the_hundred_leave_nothing() {
    // In a process of its own: other tests of this one allocate meanwhile.
    let Ok(role) = std::env::var(ROLE) else {
        let out = child("devices_opened_and_closed_by_the_hundred_leave_nothing", "cycles", &[]);
        assert!(out.0, "{}", out.1);
        eprintln!("{}", out.1.lines().filter(|line| line.contains("after")).collect::<String>());
        return;
    };
    if role != "cycles" || vulkan(DeviceOptions::default()).is_empty() {
        return;
    }
    let cycles =
        std::env::var("TINTYPE_TEST_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    (0..cycles / 4).for_each(live_once);
    let Some(before) = resident() else { return };
    (0..cycles).for_each(live_once);
    let after = resident().unwrap_or_default();
    println!("resident {before} bytes, {after} after {cycles} more devices");
    assert!(after.saturating_sub(before) < 16 << 20, "grew from {before} to {after} bytes");
}

#[test]
fn devices_and_threads_work_side_by_side() {
    let devices = [vulkan(DeviceOptions::default()), vulkan(DeviceOptions::default())].concat();
    std::thread::scope(|scope| {
        for (number, device) in devices.iter().enumerate() {
            for thread in 0..2 {
                let seed = number as u64 * 2 + thread;
                scope.spawn(move || work(device, seed));
            }
        }
        scope.spawn(|| (0..8).for_each(live_once));
    });
}

fn work(device: &Device, seed: u64) {
    let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
    let data = random(5000, seed);
    for _ in 0..10 {
        let x = device.buffer_from(&[5000], &data).unwrap();
        let (tmp, out) = (poisoned(device, 5000), poisoned(device, 5000));
        let mut session = device.session_with(mode(Ordering::Automatic)).unwrap();
        session.dispatch(over(&kernel, 5000, 2.0, 0.0).bind(x.read()).bind(tmp.write())).unwrap();
        session.dispatch(over(&kernel, 5000, 2.0, 1.0).bind(tmp.read()).bind(out.write())).unwrap();
        let (_, done) = run(session);
        let expected: Vec<f32> = data.iter().map(|x| x * 4.0 + 1.0).collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), expected);
        assert!(device.memory().free <= device.memory().total);
    }
}

/// Waits without patience do not pile up, and do not disturb what they wait for.
#[test]
fn impatient_waits_end_and_the_work_goes_on() {
    for device in vulkan(DeviceOptions::default()) {
        let x = device.buffer_from(&[1 << 20], &vec![0.0f32; 1 << 20]).unwrap();
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let mut session = device.session_with(mode(Ordering::Automatic)).unwrap();
        for _ in 0..40 {
            session.dispatch(over(&kernel, 1 << 20, 1.0, 1.0).bind(x.write())).unwrap();
        }
        let mut submission = session.finish().unwrap().submit().unwrap();
        for _ in 0..50 {
            match device.idle(Duration::ZERO) {
                Ok(_) | Err(Error::Timeout { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            submission.is_done().unwrap();
        }
        let (_, done) = submission.wait(PATIENCE).unwrap();
        assert!(done.read::<f32>(&x).unwrap().iter().all(|&value| value == 40.0));
        device.idle(PATIENCE).unwrap();
    }
}

/// Runs one test of this binary again in a child process: (success, its output).
fn child(test: &str, role: &str, env: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    // Whether a device must be there is for the parent to say.
    command.env_remove("TINTYPE_TEST_VULKAN");
    command.envs(env.iter().copied());
    let out = command.output().unwrap();
    let text =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.success(), text)
}

#[test]
fn without_a_driver_the_reason_is_told_and_the_cpu_is_there() {
    if std::env::var(ROLE).is_ok() {
        let listing = list();
        assert!(listing.devices.iter().all(|info| info.backend == Backend::Cpu));
        let reason = listing.unavailable.iter().find(|(backend, _)| *backend == Backend::Vulkan);
        println!("REASON {}", reason.unwrap().1);
        let opened = Device::open(&"vulkan".parse().unwrap(), DeviceOptions::default());
        assert!(matches!(opened, Err(Error::NoDevice { hint: Some(_), .. })));
        return;
    }
    let nowhere = "/nonexistent/driver.json";
    let (success, text) = child(
        "without_a_driver_the_reason_is_told_and_the_cpu_is_there",
        "no driver",
        &[("VK_DRIVER_FILES", nowhere), ("VK_ICD_FILENAMES", nowhere)],
    );
    assert!(success && text.contains("REASON vulkan is not usable here"), "{text}");
}

/// The Khronos layer, switched on by this crate's own variable, has nothing to say about any of the
/// above: no unclaimed feature is used, and no object is left when its device goes.
#[test]
fn the_validation_layer_is_silent_over_this_file() {
    const TEST: &str = "the_validation_layer_is_silent_over_this_file";
    if std::env::var(ROLE).is_ok() {
        if vulkan(DeviceOptions::default()).is_empty() {
            return println!("NO DEVICE");
        }
        a_binding_beyond_the_limit_is_refused_and_its_parts_are_not();
        memory_is_told_apart_and_never_more_free_than_there_is();
        imports_are_refused_unless_aligned_and_read_to_the_last_byte();
        small_types_compute_where_they_are_claimed();
        subgroups_have_the_size_that_is_told();
        a_workgroup_too_deep_is_refused();
        ordered_dispatches_have_ordered_times();
        compiled_pipelines_are_kept_and_found_again();
        devices_and_threads_work_side_by_side();
        impatient_waits_end_and_the_work_goes_on();
        (0..8).for_each(live_once);
        for message in validation_messages() {
            println!("REPORT {}", message.replace('\n', " "));
        }
        return println!("SAID ALL");
    }
    let required = std::env::var("TINTYPE_TEST_VALIDATION").is_ok_and(|v| v == "required");
    let (success, text) = child(TEST, "validated", &[("TINTYPE_TEST_VALIDATION", "1")]);
    if text.contains("NO DEVICE") {
        // Without the layer no instance can be made.
        assert!(!required, "the validation layer is required: {text}");
        eprintln!("skipped: no Vulkan device with the Khronos validation layer");
        return;
    }
    assert!(success && text.contains("SAID ALL"), "{text}");
    let reports: Vec<&str> = text.lines().filter(|line| line.contains("REPORT")).collect();
    assert!(reports.is_empty(), "{reports:#?}");
}
