//! The devices of the system and what each is and can do. Opens nothing.

use std::ptr::NonNull;

use objc2::rc::Retained;
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLDevice, MTLGPUFamily};

use crate::device::{Backend, CoopShape, DeviceInfo, DeviceKind, Features, Limits, MemoryInfo};

/// A Metal device, retained.
pub(super) type Raw = Retained<ProtocolObject<dyn MTLDevice>>;

/// Vectors of 16 bytes are the widest type a kernel reads from a buffer, and `device` arguments must
/// be aligned to the type.
pub(super) const BINDING_ALIGNMENT: u64 = 16;
/// Metal has 31 buffer arguments; immediates and array sizes take the last two.
const MAX_BINDINGS: u32 = 29;
/// What `setBytes` takes.
const MAX_IMMEDIATE_BYTES: u32 = 4096;

// Without CoreGraphics in the process, Metal offers no devices on macOS.
#[cfg(target_os = "macos")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// Every device of the system.
#[cfg(target_os = "macos")]
pub(super) fn all() -> Vec<Raw> {
    use objc2_foundation::NSArray;
    // objc2-metal's own function of this name panics where Metal returns null.
    unsafe extern "C-unwind" {
        fn MTLCopyAllDevices() -> *mut NSArray<ProtocolObject<dyn MTLDevice>>;
    }
    // SAFETY: takes nothing; returns null or an array that the caller owns (its name has "Copy").
    let found = unsafe { Retained::from_raw(MTLCopyAllDevices()) };
    found.map(|devices| devices.to_vec()).unwrap_or_default()
}

/// The one device there is; `MTLCopyAllDevices` is new on iOS and gives the same.
#[cfg(not(target_os = "macos"))]
pub(super) fn all() -> Vec<Raw> {
    objc2_metal::MTLCreateSystemDefaultDevice().into_iter().collect()
}

/// Reads a device's facts.
pub(super) fn describe(raw: &Raw, index: usize) -> DeviceInfo {
    let unified = raw.hasUnifiedMemory();
    let threads = raw.maxThreadsPerThreadgroup();
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let longest = raw.maxBufferLength() as u64;
    // Apple's own GPUs from A14 and M1 on; and what Metal calls Mac GPUs, Intel's and AMD's.
    let apple = raw.supportsFamily(MTLGPUFamily::Apple7);
    let mac = raw.supportsFamily(MTLGPUFamily::Mac2);
    let coop = CoopShape { m: 8, n: 8, k: 8 };
    DeviceInfo {
        backend: Backend::Metal,
        index,
        name: raw.name().to_string(),
        kind: if unified { DeviceKind::Integrated } else { DeviceKind::Discrete },
        driver: driver(),
        memory: memory(raw),
        limits: Limits {
            // Array sizes reach kernels as 32-bit byte counts.
            max_binding_bytes: longest
                .min(u64::from(u32::MAX) / BINDING_ALIGNMENT * BINDING_ALIGNMENT),
            max_allocation_bytes: longest,
            max_bindings: MAX_BINDINGS,
            max_immediate_bytes: MAX_IMMEDIATE_BYTES,
            // Metal documents no bound; these are what Vulkan drivers commonly allow.
            max_groups: [i32::MAX as u32, 65_535, 65_535],
            max_group_size: [narrow(threads.width), narrow(threads.height), narrow(threads.depth)],
            max_group_threads: narrow(threads.width),
            max_group_memory: narrow(raw.maxThreadgroupMemoryLength()),
            binding_alignment: BINDING_ALIGNMENT,
            // The exact width is a pipeline's: 32 on Apple's GPUs, 8 to 32 on Intel's, 32 or 64 on
            // AMD's.
            subgroup_size: if apple || !mac { (32, 32) } else { (8, 64) },
            threads: 0,
        },
        features: Features {
            f16: true,
            i16: true,
            // SIMD-scoped reductions; older GPUs have only part of the subgroup operations.
            subgroups: apple || mac,
            // Metal has none of its own: translated kernels emulate it with shifts.
            integer_dot: false,
            coop_f16: if apple { vec![coop] } else { Vec::new() },
            // Apple's GPUs count at the bounds of an encoder only, and a pass is one encoder.
            timestamps: false,
            unified_memory: unified,
            // A discrete GPU would read every byte over the bus, again and again.
            import_host: unified,
        },
    }
}

/// The system's version: drivers come with it.
fn driver() -> String {
    let version = NSProcessInfo::processInfo().operatingSystemVersionString();
    let system = if cfg!(target_os = "macos") { "macOS" } else { "iOS" };
    format!("Metal, {system} {version}")
}

/// Bytes the system lets this process use on the device, and what is left of them.
pub(super) fn memory(raw: &ProtocolObject<dyn MTLDevice>) -> MemoryInfo {
    // New on iOS 16; calling a method that is not there ends the process.
    let recommended = match raw.respondsToSelector(sel!(recommendedMaxWorkingSetSize)) {
        true => raw.recommendedMaxWorkingSetSize(),
        false => 0,
    };
    let total = if recommended > 0 { recommended } else { raw.maxBufferLength() as u64 };
    let mut free = total.saturating_sub(raw.currentAllocatedSize() as u64);
    if let Some(left) = left_to_process() {
        free = free.min(left);
    }
    MemoryInfo { total, free }
}

/// What this process may still allocate before the system ends it; `None` where there is no such
/// bound.
#[cfg(all(target_os = "ios", not(target_abi = "macabi")))]
fn left_to_process() -> Option<u64> {
    unsafe extern "C" {
        safe fn os_proc_available_memory() -> usize;
    }
    match os_proc_available_memory() {
        0 => None,
        left => Some(left as u64),
    }
}

#[cfg(not(all(target_os = "ios", not(target_abi = "macabi"))))]
fn left_to_process() -> Option<u64> {
    None
}

/// Bytes of a page of memory: 16 KiB on Apple's processors, 4 KiB on Intel's.
pub(super) fn page_size() -> usize {
    unsafe extern "C" {
        safe fn getpagesize() -> std::ffi::c_int;
    }
    usize::try_from(getpagesize()).ok().filter(|&bytes| bytes > 0).unwrap_or(16 << 10)
}

/// A pointer that Metal's functions take for "not null".
pub(super) fn not_null<T>(slice: &[T]) -> NonNull<T> {
    NonNull::from(slice).cast()
}
