//! The devices of this machine. It must not know models.

use std::ffi::c_char;

use tintype_gpu::{DeviceKind, Selector, list};
use tintype_registry::Kind;

use crate::edge::{call, fixed, put, registry};
use crate::status::{Failure, Status};
use crate::structure::Structure;

/// A device that models can run on.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DeviceInfo {
    /// sizeof(tintype_device_info): set it in the first structure of the array.
    pub struct_size: usize,
    /// Bytes of memory.
    pub memory_total: u64,
    /// Bytes of memory that are free now.
    pub memory_free: u64,
    /// Whether it is the one that is used unless another is asked for: 1 or 0.
    pub is_default: u32,
    /// 0 discrete GPU, 1 integrated GPU, 2 virtual GPU, 3 the processor, 4 a graphics driver that runs on
    /// the processor.
    pub kind: u32,
    /// What names it in tintype_load_options, as "vulkan:0", ended by a zero byte.
    pub selector: [c_char; 64],
    /// Its name, ended by a zero byte, cut if it is longer.
    pub name: [c_char; 256],
}

// SAFETY: numbers only, the first is the size.
unsafe impl Structure for DeviceInfo {
    const NAME: &'static str = "tintype_device_info";
}

/// Lists the devices, the best one first: `count` receives how many there are, and the first `capacity` of
/// them are written to `devices`. Asks drivers, which may take a moment the first time.
///
/// # Safety
/// `devices` is null or an array of `capacity` structures, the first of which has its size set; `count` is
/// null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_devices(
    devices: *mut DeviceInfo,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        let asking = registry().enter(Kind::Query)?;
        let listing = list();
        let chosen = Selector::from_env()?.choose(&listing).ok();
        drop(asking);
        // SAFETY: the caller's promise.
        unsafe { put("count", count, listing.devices.len()) }?;
        if capacity == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise; a null array is refused here.
        let size = unsafe { DeviceInfo::read(devices) }?.struct_size;
        for (at, info) in listing.devices.iter().take(capacity).enumerate() {
            let kind = match info.kind {
                DeviceKind::Discrete => 0,
                DeviceKind::Integrated => 1,
                DeviceKind::Virtual => 2,
                DeviceKind::Cpu => 3,
                DeviceKind::Software => 4,
            };
            let one = DeviceInfo {
                struct_size: size,
                memory_total: info.memory.total,
                memory_free: info.memory.free,
                is_default: (chosen == Some(at)).into(),
                kind,
                selector: fixed(&info.selector()),
                name: fixed(&info.name),
            };
            // SAFETY: elements are as long as the caller says, and there are `capacity` of them.
            unsafe {
                let place = devices.byte_add(at * size);
                place.cast::<usize>().write(size);
                one.write(place)?;
            }
        }
        Ok(())
    })
}

/// Opens the device that a selector names. The caller is in flight.
pub(crate) fn open(selector: &str, threads: usize) -> Result<tintype_gpu::Device, Failure> {
    let selector: Selector = selector.parse()?;
    let options = tintype_gpu::DeviceOptions::with_default_cache();
    Ok(tintype_gpu::Device::open(&selector, tintype_gpu::DeviceOptions { threads, ..options })?)
}
