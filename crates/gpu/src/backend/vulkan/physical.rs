//! What the physical devices are and can do, in this crate's words.

use std::ffi::CStr;

use ash::{ext, khr, vk};

use super::failed;
use super::features::{self, Supported};
use super::instance::{Instance, NEWEST, OLDEST, dotted};
use crate::device::{Backend, DeviceInfo, DeviceKind, Limits, MemoryInfo};
use crate::error::{Error, Result};

/// A device that can run kernels, and how to open it.
pub(super) struct Physical {
    pub(super) raw: vk::PhysicalDevice,
    pub(super) info: DeviceInfo,
    /// Family of queues that compute.
    pub(super) family: u32,
    /// Optional extensions to enable.
    pub(super) extensions: Vec<&'static CStr>,
    /// What kernels may use; enabled when the device is opened.
    pub(super) supported: Supported,
    /// Whose pipeline cache it is.
    pub(super) cache_owner: CacheOwner,
    /// Nanoseconds a timestamp tick.
    pub(super) tick: f64,
    /// Bits of a timestamp that count.
    pub(super) timestamp_bits: u32,
    /// Most bindings that a command buffer takes by itself, without sets; 0 if it takes none.
    pub(super) max_pushed: u32,
    /// Alignment of imported host pointers.
    pub(super) import_alignment: u64,
    /// Whether `VK_EXT_memory_budget` tells what is free.
    pub(super) budget: bool,
}

/// What the header of a pipeline cache names: the device and the driver's build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheOwner {
    pub(super) vendor: u32,
    pub(super) device: u32,
    pub(super) uuid: [u8; vk::UUID_SIZE],
}

/// Every usable device, in the loader's order.
pub(super) fn usable(instance: &Instance) -> Result<Vec<Physical>> {
    // SAFETY: the instance is alive for ever.
    let all = unsafe { instance.raw.enumerate_physical_devices() }
        .map_err(|code| failed("(none)", "vkEnumeratePhysicalDevices", code))?;
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for raw in all {
        match describe(instance, raw, found.len()) {
            Ok(physical) => found.push(physical),
            Err(reason) => refused.push(reason),
        }
    }
    if found.is_empty() {
        let reason = match refused.is_empty() {
            true => "the loader found no driver with a device".into(),
            false => refused.join("; "),
        };
        return Err(Error::BackendUnavailable { backend: "vulkan", reason });
    }
    Ok(found)
}

/// Reads one device, or says why it cannot be used.
fn describe(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    index: usize,
) -> std::result::Result<Physical, String> {
    let vulkan = &instance.raw;
    // SAFETY: `raw` came from this instance.
    let basic = unsafe { vulkan.get_physical_device_properties(raw) };
    let name = text(&basic.device_name);
    if basic.api_version < OLDEST {
        return Err(format!("{name} speaks Vulkan {}, 1.2 is needed", dotted(basic.api_version)));
    }
    let family =
        compute_family(instance, raw).ok_or_else(|| format!("{name} has no compute queue"))?;
    // SAFETY: as above.
    let listed = unsafe { vulkan.enumerate_device_extension_properties(raw) }
        .map_err(|code| format!("{name} does not list its extensions ({code:?})"))?;
    let has = |name: &CStr| listed.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let mut extensions: Vec<&'static CStr> =
        features::EXTENSIONS.into_iter().filter(|name| has(name)).collect();
    let host_import = extensions.contains(&ext::external_memory_host::NAME);
    let version = basic.api_version.min(NEWEST);
    let supported = features::read(instance, raw, version, &extensions);
    if supported.coop.is_empty() {
        extensions.retain(|name| *name != khr::cooperative_matrix::NAME);
    }

    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut buffers = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let pushes = extensions.contains(&khr::push_descriptor::NAME);
    let mut pushed = vk::PhysicalDevicePushDescriptorPropertiesKHR::default();
    let mut properties =
        vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut maintenance);
    if version >= vk::API_VERSION_1_3 {
        properties = properties.push_next(&mut buffers);
    }
    if host_import {
        properties = properties.push_next(&mut import);
    }
    if pushes {
        properties = properties.push_next(&mut pushed);
    }
    // SAFETY: the chain holds structures of this version and listed extensions.
    unsafe { vulkan.get_physical_device_properties2(raw, &mut properties) };
    let limits = properties.properties.limits;
    let largest_buffer = Some(buffers.max_buffer_size).filter(|&bytes| bytes > 0);
    let memory = memory_properties(instance, raw);
    let unified = is_unified(&memory, basic.device_type);
    let budget = extensions.contains(&ext::memory_budget::NAME);
    let (family, timestamp_bits) = family;
    let mut features = supported.claims();
    features.timestamps = timestamp_bits > 0 && limits.timestamp_period > 0.0;
    features.unified_memory = unified;
    // A discrete GPU would read imported memory across the bus at every use.
    features.import_host = host_import && unified;
    let subgroup = supported.subgroup.size;
    let info = DeviceInfo {
        backend: Backend::Vulkan,
        index,
        kind: match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
            vk::PhysicalDeviceType::CPU => DeviceKind::Software,
            _ => DeviceKind::Virtual,
        },
        driver: format!(
            "{} {} {:x}",
            text(&driver.driver_name),
            text(&driver.driver_info),
            basic.driver_version
        ),
        memory: memory_info(instance, raw, budget, 0),
        limits: Limits {
            max_binding_bytes: limits.max_storage_buffer_range.into(),
            max_allocation_bytes: maintenance
                .max_memory_allocation_size
                .min(largest_buffer.unwrap_or(u64::MAX)),
            max_bindings: limits
                .max_per_stage_descriptor_storage_buffers
                .min(limits.max_descriptor_set_storage_buffers)
                .min(limits.max_per_stage_resources),
            max_immediate_bytes: limits.max_push_constants_size,
            max_groups: limits.max_compute_work_group_count,
            max_group_size: limits.max_compute_work_group_size,
            max_group_threads: limits.max_compute_work_group_invocations,
            max_group_memory: limits.max_compute_shared_memory_size,
            binding_alignment: limits.min_storage_buffer_offset_alignment.max(1),
            // One size: kernels are pinned to it where the device has a choice, and where it
            // offers none, the operations behave as if they had this size.
            subgroup_size: (subgroup, subgroup),
            threads: 0,
        },
        features,
        name,
    };
    Ok(Physical {
        raw,
        info,
        family,
        extensions,
        supported,
        cache_owner: CacheOwner {
            vendor: basic.vendor_id,
            device: basic.device_id,
            uuid: basic.pipeline_cache_uuid,
        },
        tick: f64::from(limits.timestamp_period),
        timestamp_bits,
        max_pushed: pushed.max_push_descriptors,
        import_alignment: import.min_imported_host_pointer_alignment.max(1),
        budget,
    })
}

fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first family that computes, graphics or not: (family, valid timestamp bits).
fn compute_family(instance: &Instance, raw: vk::PhysicalDevice) -> Option<(u32, u32)> {
    // SAFETY: `raw` came from this instance.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(raw) };
    let at = families.iter().position(|family| {
        family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0
    })?;
    Some((at as u32, families[at].timestamp_valid_bits))
}

pub(super) fn memory_properties(
    instance: &Instance,
    raw: vk::PhysicalDevice,
) -> vk::PhysicalDeviceMemoryProperties {
    // SAFETY: `raw` came from this instance.
    unsafe { instance.raw.get_physical_device_memory_properties(raw) }
}

/// What a type of unified memory has.
pub(super) const UNIFIED: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
        | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw()
        | vk::MemoryPropertyFlags::HOST_CACHED.as_raw(),
);

/// Unified: not a discrete GPU, and its main heap can be seen by the host, coherently and cached.
fn is_unified(memory: &vk::PhysicalDeviceMemoryProperties, kind: vk::PhysicalDeviceType) -> bool {
    let heap = main_heap(memory) as u32;
    kind != vk::PhysicalDeviceType::DISCRETE_GPU
        && memory
            .memory_types_as_slice()
            .iter()
            .any(|ty| ty.heap_index == heap && ty.property_flags.contains(UNIFIED))
}

/// The heap that buffers live in: the largest device-local one. The small window through which
/// some discrete GPUs show part of their memory to the host is another heap over the same bytes.
pub(super) fn main_heap(memory: &vk::PhysicalDeviceMemoryProperties) -> usize {
    let heaps = memory.memory_heaps_as_slice().iter().enumerate();
    heaps
        .filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .max_by_key(|(_, heap)| heap.size)
        .map_or(0, |(at, _)| at)
}

/// Total and free bytes of the main heap. Without the driver's own budget, free is what this
/// device object has not allocated there.
pub(super) fn memory_info(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    budget: bool,
    allocated: u64,
) -> MemoryInfo {
    let mut budgets = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default();
    if budget {
        properties = properties.push_next(&mut budgets);
    }
    // SAFETY: `raw` came from this instance; the chain holds what the device supports.
    unsafe { instance.raw.get_physical_device_memory_properties2(raw, &mut properties) };
    let heaps = properties.memory_properties;
    let at = main_heap(&heaps);
    let total = heaps.memory_heaps_as_slice().get(at).map_or(0, |heap| heap.size);
    let free = match budget {
        true => budgets.heap_budget[at].saturating_sub(budgets.heap_usage[at]),
        false => total.saturating_sub(allocated),
    };
    MemoryInfo { total, free: free.min(total) }
}
