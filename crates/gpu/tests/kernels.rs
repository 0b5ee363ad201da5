//! Kernels: variations, reflection, refusals, the registry's caches, and translation.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::kernel::{KernelSource, Reflection, Unit, UnitError, msl, parse, spirv};
use tintype_gpu::{DType, DeviceOptions, DiskCache, Dispatch, Error, Selector, Split};

const ALL: [KernelSource; 3] = [SCALE_ADD, SCALE_ADD_IN_PLACE, REVERSE];

fn nothing(_: &mut Unit<'_>) -> Result<(), UnitError> {
    Ok(())
}

fn source(wgsl: &'static str) -> KernelSource {
    KernelSource { name: "odd", wgsl, entry: "main", aliases: &[], cpu: nothing }
}

#[test]
fn reflection_reads_slots_immediates_and_sizes() {
    let parsed = parse(&SCALE_ADD, &[]).unwrap();
    let found = Reflection::of(&SCALE_ADD, &parsed).unwrap();
    let slots: Vec<_> =
        found.slots.iter().map(|s| (s.name.as_str(), s.writable, s.reads)).collect();
    assert_eq!(slots, [("a", false, true), ("out", true, false)]);
    assert_eq!((found.immediate_bytes, found.group_size), (12, [64, 1, 1]));
    let parsed = parse(&SCALE_ADD_IN_PLACE, &[]).unwrap();
    let found = Reflection::of(&SCALE_ADD_IN_PLACE, &parsed).unwrap();
    assert!(found.slots[0].writable && found.slots[0].reads);
}

#[test]
fn every_test_kernel_translates_to_spirv_and_msl() {
    for source in ALL {
        let parsed = parse(&source, &[]).unwrap();
        assert_eq!(spirv(&source, &parsed).unwrap()[0], 0x0723_0203);
        let (text, entry) = msl(&source, &parsed).unwrap();
        assert!(text.contains("kernel void") && text.contains(&entry));
        assert!(text.contains("[[buffer(0)]]"), "{text}");
    }
}

/// naga's Metal back end panics on this cast; it must be an error here.
#[test]
fn a_cast_that_metal_lacks_is_refused() {
    let wgsl = "enable wgpu_int16;\n\
        @group(0) @binding(0) var<storage, read> a: array<f32>;\n\
        @group(0) @binding(1) var<storage, read_write> out: array<u16>;\n\
        @compute @workgroup_size(1) fn main() { out[0] = u16(a[0]); }\n";
    let parsed = parse(&source(wgsl), &[]).unwrap();
    let error = msl(&source(wgsl), &parsed).unwrap_err().to_string();
    assert!(error.contains("16-bit"), "{error}");
    spirv(&source(wgsl), &parsed).unwrap();
}

/// The outside judge of SPIR-V. Skipped where it is not installed, unless the environment promises
/// it (`TINTYPE_TEST_SPIRV_VAL=required`).
#[test]
fn every_test_kernel_passes_spirv_val() {
    let folder = tempfile::tempdir().unwrap();
    for source in ALL {
        let words = spirv(&source, &parse(&source, &[]).unwrap()).unwrap();
        let path = folder.path().join(source.name);
        std::fs::write(&path, bytemuck::cast_slice::<u32, u8>(&words)).unwrap();
        let judged = std::process::Command::new("spirv-val")
            .args(["--target-env", "vulkan1.2"])
            .arg(&path)
            .output();
        match judged {
            Ok(out) => assert!(
                out.status.success(),
                "{}: {}{}",
                source.name,
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr)
            ),
            Err(error) => {
                let required =
                    std::env::var("TINTYPE_TEST_SPIRV_VAL").is_ok_and(|v| v == "required");
                assert!(!required, "spirv-val: {error}");
                eprintln!("skipped: spirv-val: {error}");
            }
        }
    }
}

#[test]
fn bad_sources_are_refused_with_the_reason() {
    let cases = [
        ("fn main() { let x = ; }", "expected"),
        ("@compute @workgroup_size(1) fn other() {}", "entry point"),
        (
            "@group(1) @binding(0) var<storage> a: array<f32>;\n\
             @compute @workgroup_size(1) fn main() { _ = a[0]; }",
            "group 0",
        ),
        (
            "@group(0) @binding(1) var<storage> a: array<f32>;\n\
             @compute @workgroup_size(1) fn main() { _ = a[0]; }",
            "without gaps",
        ),
        (
            "@group(0) @binding(0) var<uniform> a: vec4<f32>;\n\
             @compute @workgroup_size(1) fn main() { _ = a.x; }",
            "only storage",
        ),
        ("@compute @workgroup_size(2048) fn main() {}", "threads"),
    ];
    let device = cpu(1);
    for (wgsl, word) in cases {
        let error = device.kernel(&source(wgsl), &[]).unwrap_err().to_string();
        assert!(error.contains(word), "{wgsl}: {error}");
    }
    let aliased = KernelSource { aliases: &[("T", "f16")], ..SCALE_ADD };
    assert!(device.kernel(&aliased, &[]).unwrap_err().to_string().contains("alias T"));
    let error = device.kernel(&SCALE_ADD, &[("TILE", 3.0)]).unwrap_err().to_string();
    assert!(error.contains("TILE"), "{error}");
}

const VARIED: &str = "// Varies by alias and override.\n\
alias T = f32;\n\
override FACTOR: u32 = 2u;\n\
@group(0) @binding(0) var<storage, read_write> a: array<T>;\n\
@compute @workgroup_size(1) fn main() { a[0] = a[0] * T(FACTOR); }\n";

#[test]
fn aliases_and_overrides_vary_a_kernel() {
    for device in devices().into_iter().filter(|d| d.info().limits.threads == 0) {
        let base = source(VARIED);
        let whole = KernelSource { aliases: &[("T", "u32")], ..base };
        let x = device.buffer_from(&[4], &[5u32; 4]).unwrap();
        let mut wanted = 5;
        for factor in [2.0, 3.0, 7.0] {
            let kernel = device.kernel(&whole, &[("FACTOR", factor)]).unwrap();
            let mut session = device.session().unwrap();
            session.dispatch(Dispatch::new(&kernel).bind(x.write())).unwrap();
            let (_, done) = run(session);
            wanted *= factor as u32;
            assert_eq!(done.read::<u32>(&x).unwrap()[0], wanted);
        }
        let half = KernelSource { aliases: &[("T", "f16")], ..base };
        match device.kernel(&half, &[]) {
            Ok(kernel) => assert!(kernel.reflection().uses_f16),
            Err(Error::Unsupported { what, .. }) => assert!(what.contains("f16"), "{what}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_kernel_is_compiled_once_and_a_cache_on_disk_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for info in devices().iter().map(|d| d.info().clone()) {
        let selector: Selector = info.selector().parse().unwrap();
        for round in 0..3 {
            if round == 2 {
                // Everything kept is damaged: it must be made anew, not used.
                for entry in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                    std::fs::write(entry.path(), b"TTKC0001 not what you think").unwrap();
                }
            }
            let cache = Some(DiskCache::new(folder.path()));
            let options = DeviceOptions { cache, ..DeviceOptions::default() };
            let device = tintype_gpu::Device::open(&selector, options).unwrap();
            for _ in 0..3 {
                device.kernel(&SCALE_ADD, &[]).unwrap();
            }
            assert_eq!(device.stats().kernels, 1);
            let x = device.buffer_from(&[64], &[1.0f32; 64]).unwrap();
            let out = poisoned(&device, 64);
            let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
            let mut session = device.session().unwrap();
            session.dispatch(over(&kernel, 64, 2.0, 0.5).bind(x.read()).bind(out.write())).unwrap();
            let (_, done) = run(session);
            assert_eq!(done.read::<f32>(&out).unwrap(), [2.5; 64], "round {round}");
        }
    }
}

#[test]
fn dispatches_that_do_not_fit_their_kernel_are_refused() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let x = poisoned(&device, 64);
        let y = poisoned(&device, 64);
        let mut session = device.session().unwrap();
        let good = || over(&kernel, 64, 1.0, 0.0);
        let bad = [
            good().bind(x.read()),
            good().bind(x.read()).bind(y.read()),
            good().bind(x.write()).bind(y.write()),
            good().bind(x.read()).bind(y.write()).bind(y.write()),
            good().bind(x.read()).bind(x.write()),
            good().bind(x.read()).bind(y.write()).immediates(&[0u32; 2]),
            good().bind(x.read()).bind(y.write()).groups([1, 0, 1]),
            Dispatch::new(&kernel).bind(x.read()).bind(y.write()),
        ];
        for dispatch in bad {
            let shown = format!("{dispatch:?}");
            let refused = session.dispatch(dispatch);
            assert!(matches!(refused, Err(Error::BadDispatch { .. })), "{shown}: {refused:?}");
        }
        assert_eq!(session.dispatches(), 0);
        session.dispatch(good().bind(x.read()).bind(y.write())).unwrap();
    }
    let device = cpu(2);
    let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
    let (x, y) = (poisoned(&device, 64), poisoned(&device, 64));
    let mut session = device.session().unwrap();
    for (units, splits) in [
        (0, vec![Split::Whole]),
        (2, vec![Split::Whole]),
        (2, vec![]),
        (2, vec![Split::Chunks(64)]),
        (2, vec![Split::Chunks(0)]),
        (1, vec![Split::Whole, Split::Whole]),
        (4, vec![Split::Tiles { row_bytes: 60, tile_rows: 1, tile_bytes: 60, columns: 1 }]),
        (4, vec![Split::Tiles { row_bytes: 64, tile_rows: 1, tile_bytes: 16, columns: 2 }]),
    ] {
        let dispatch = over(&kernel, 64, 1.0, 0.0).bind(x.read()).bind(y.write());
        let refused = session.dispatch(dispatch.cpu(units, splits.clone()));
        assert!(matches!(refused, Err(Error::BadDispatch { .. })), "{units} {splits:?}");
    }
    assert!(device.buffer(DType::F32, &[1]).is_ok());
}
