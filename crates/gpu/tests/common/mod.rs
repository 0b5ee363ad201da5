//! What the device tests share: which devices to run on, small kernels, and inputs.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::{
    Buffer, Device, DeviceOptions, Dispatch, Done, Kernel, Ordering, Pass, Selector, Session,
    SessionOptions, Split, list,
};

/// Long enough for a software driver on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Every device of this machine; says which backends are missing, and fails if a backend that the
/// environment promises (`TINTYPE_TEST_VULKAN=required`) is not there.
pub fn devices() -> Vec<Device> {
    let listing = list();
    for (backend, reason) in &listing.unavailable {
        eprintln!("skipped: {backend}: {reason}");
    }
    let vulkan = listing.devices.iter().any(|info| info.backend.name() == "vulkan");
    let required = std::env::var("TINTYPE_TEST_VULKAN").is_ok_and(|value| value == "required");
    assert!(vulkan || !required, "TINTYPE_TEST_VULKAN=required, but there is no Vulkan device");
    listing
        .devices
        .iter()
        .map(|info| {
            let selector: Selector = info.selector().parse().unwrap();
            Device::open(&selector, DeviceOptions::default()).unwrap()
        })
        .collect()
}

/// The CPU device with `threads` threads.
pub fn cpu(threads: usize) -> Device {
    Device::cpu(DeviceOptions { threads, ..DeviceOptions::default() }).unwrap()
}

/// Elements one workgroup or unit handles.
pub const TILE: u32 = 64;

const SCALE_ADD_WGSL: &str = include_str!("scale_add.wgsl");

/// `out[i] = a[i] * scale + offset`, 64 elements a workgroup.
pub const SCALE_ADD: KernelSource = KernelSource {
    name: "scale_add",
    wgsl: SCALE_ADD_WGSL,
    entry: "main",
    aliases: &[],
    cpu: scale_add,
};

/// `out[i] = a[n - 1 - i]`: every output comes from another workgroup's input.
pub const REVERSE: KernelSource = KernelSource {
    name: "reverse",
    wgsl: include_str!("reverse.wgsl"),
    entry: "main",
    aliases: &[],
    cpu: reverse,
};

/// `a[i] = a[i] * scale + offset`, in place.
pub const SCALE_ADD_IN_PLACE: KernelSource = KernelSource {
    name: "scale_add_in_place",
    wgsl: include_str!("scale_add_in_place.wgsl"),
    entry: "main",
    aliases: &[],
    cpu: scale_add_in_place,
};

/// Immediates of all test kernels.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Params {
    pub n: u32,
    pub scale: f32,
    pub offset: f32,
}

fn scale_add(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let a: &[f32] = unit.read(0)?;
    let start = (unit.index() * TILE) as usize;
    for (at, out) in unit.write::<f32>(1)?.iter_mut().enumerate() {
        *out = a[start + at] * params.scale + params.offset;
    }
    Ok(())
}

fn scale_add_in_place(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    for value in unit.write::<f32>(0)? {
        *value = *value * params.scale + params.offset;
    }
    Ok(())
}

fn reverse(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let a: &[f32] = unit.read(0)?;
    let start = (unit.index() * TILE) as usize;
    for (at, out) in unit.write::<f32>(1)?.iter_mut().enumerate() {
        *out = a[a.len() - 1 - start - at];
    }
    Ok(())
}

/// A dispatch of a test kernel over whole buffers; the last span is the written one.
pub fn over(kernel: &Kernel, n: usize, scale: f32, offset: f32) -> Dispatch {
    let units = (n as u32).div_ceil(TILE);
    Dispatch::new(kernel)
        .immediates(&Params { n: n as u32, scale, offset })
        .groups([units, 1, 1])
        .cpu(units, [Split::Chunks(u64::from(TILE) * 4)])
}

/// Options with an ordering mode.
pub fn mode(ordering: Ordering) -> SessionOptions {
    SessionOptions { ordering, ..SessionOptions::default() }
}

/// Finishes, submits and waits.
pub fn run(session: Session<'_>) -> (Pass, Done) {
    session.finish().unwrap().run(PATIENCE).unwrap()
}

/// A buffer full of NaN, so that what a kernel leaves unwritten shows.
pub fn poisoned(device: &Device, n: usize) -> Buffer {
    device.buffer_from(&[n], &vec![f32::NAN; n]).unwrap()
}

/// `n` numbers in -1..1 from a seed.
pub fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}
