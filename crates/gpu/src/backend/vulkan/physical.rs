//! What the physical devices are and can do, in this crate's words.

use std::ffi::CStr;

use ash::{khr, vk};

use super::failed;
use super::instance::{Instance, OLDEST, dotted};
use crate::device::{
    Backend, CoopShape, DeviceInfo, DeviceKind, Features, Limits, MemoryInfo,
};
use crate::error::{Error, Result};

/// A device that can run kernels, and how to open it.
pub(super) struct Physical {
    pub(super) raw: vk::PhysicalDevice,
    pub(super) info: DeviceInfo,
    /// Family of queues that compute.
    pub(super) family: u32,
    /// Optional extensions to enable.
    pub(super) extensions: Vec<&'static CStr>,
    /// The driver's own identity, for its pipeline cache.
    pub(super) cache_uuid: [u8; 16],
    /// Nanoseconds a timestamp tick.
    pub(super) tick: f64,
    /// Bits of a timestamp that count.
    pub(super) timestamp_bits: u32,
    /// Alignment of imported host pointers.
    pub(super) import_alignment: u64,
    /// Whether `VK_EXT_memory_budget` tells what is free.
    pub(super) budget: bool,
}

/// Extensions that are used where they are.
const WANTED: [&CStr; 5] = [
    khr::cooperative_matrix::NAME,
    ash::ext::external_memory_host::NAME,
    khr::external_memory::NAME,
    ash::ext::memory_budget::NAME,
    khr::portability_subset::NAME,
];

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
    let family = compute_family(instance, raw).ok_or_else(|| format!("{name} has no compute queue"))?;
    // SAFETY: as above.
    let listed = unsafe { vulkan.enumerate_device_extension_properties(raw) }
        .map_err(|code| format!("{name} does not list its extensions ({code:?})"))?;
    let has = |name: &CStr| listed.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let extensions: Vec<&'static CStr> = WANTED.into_iter().filter(|name| has(name)).collect();
    let host_import = extensions.contains(&ash::ext::external_memory_host::NAME);

    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default()
        .push_next(&mut driver)
        .push_next(&mut subgroup)
        .push_next(&mut maintenance);
    if host_import {
        properties = properties.push_next(&mut import);
    }
    // SAFETY: the chain holds structures of this version and enabled extensions.
    unsafe { vulkan.get_physical_device_properties2(raw, &mut properties) };
    let limits = properties.properties.limits;
    let memory = memory_properties(instance, raw);
    let unified = is_unified(&memory, basic.device_type);
    let budget = extensions.contains(&ash::ext::memory_budget::NAME);
    let (family, timestamp_bits) = family;
    let mut features = read_features(instance, raw, &subgroup);
    features.coop_f16 = if features.f16 && extensions.contains(&khr::cooperative_matrix::NAME) {
        coop_shapes(instance, raw)
    } else {
        Vec::new()
    };
    features.timestamps = timestamp_bits > 0 && limits.timestamp_period > 0.0;
    features.unified_memory = unified;
    features.import_host = host_import && unified;
    let info = DeviceInfo {
        backend: Backend::Vulkan,
        index,
        kind: match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
            vk::PhysicalDeviceType::CPU => DeviceKind::Software,
            _ => DeviceKind::Virtual,
        },
        driver: format!("{} {} {:x}", text(&driver.driver_name), text(&driver.driver_info), basic.driver_version),
        memory: memory_info(instance, raw, budget, 0),
        limits: Limits {
            max_binding_bytes: limits.max_storage_buffer_range.into(),
            max_allocation_bytes: maintenance.max_memory_allocation_size,
            max_bindings: limits
                .max_per_stage_descriptor_storage_buffers
                .min(limits.max_descriptor_set_storage_buffers),
            max_immediate_bytes: limits.max_push_constants_size,
            max_groups: limits.max_compute_work_group_count,
            max_group_size: limits.max_compute_work_group_size,
            max_group_threads: limits.max_compute_work_group_invocations,
            max_group_memory: limits.max_compute_shared_memory_size,
            binding_alignment: limits.min_storage_buffer_offset_alignment.max(1),
            subgroup_size: (subgroup.subgroup_size, subgroup.subgroup_size),
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
        cache_uuid: basic.pipeline_cache_uuid,
        tick: f64::from(limits.timestamp_period),
        timestamp_bits,
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
    let at = families
        .iter()
        .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0)?;
    Some((at as u32, families[at].timestamp_valid_bits))
}

pub(super) fn memory_properties(
    instance: &Instance,
    raw: vk::PhysicalDevice,
) -> vk::PhysicalDeviceMemoryProperties {
    // SAFETY: `raw` came from this instance.
    unsafe { instance.raw.get_physical_device_memory_properties(raw) }
}

/// Unified: every device-local heap can be seen by the host, coherently and cached.
fn is_unified(memory: &vk::PhysicalDeviceMemoryProperties, kind: vk::PhysicalDeviceType) -> bool {
    use vk::MemoryPropertyFlags as Flags;
    let all = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT | Flags::HOST_CACHED;
    kind != vk::PhysicalDeviceType::DISCRETE_GPU
        && memory.memory_types_as_slice().iter().any(|ty| ty.property_flags.contains(all))
}

/// Total and free bytes of the device-local heaps. Without the driver's own budget, free is what
/// this process has not allocated.
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
    let (mut total, mut free) = (0u64, 0u64);
    for (at, heap) in heaps.memory_heaps_as_slice().iter().enumerate() {
        if heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) {
            total = total.saturating_add(heap.size);
            let left = budgets.heap_budget[at].saturating_sub(budgets.heap_usage[at]);
            free = free.saturating_add(left.min(heap.size));
        }
    }
    let free = if budget { free } else { total.saturating_sub(allocated) };
    MemoryInfo { total, free: free.min(total) }
}

fn read_features(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    subgroup: &vk::PhysicalDeviceSubgroupProperties<'_>,
) -> Features {
    let mut storage16 = vk::PhysicalDevice16BitStorageFeatures::default();
    let mut f16 = vk::PhysicalDeviceShaderFloat16Int8Features::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    // SAFETY: `raw` came from this instance.
    let version = unsafe { instance.raw.get_physical_device_properties(raw) }.api_version;
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut storage16).push_next(&mut f16);
    if version >= vk::API_VERSION_1_3 {
        features = features.push_next(&mut dot);
    }
    // SAFETY: the chain holds structures of the device's version.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut features) };
    let int16 = features.features.shader_int16 == vk::TRUE;
    let stored = storage16.storage_buffer16_bit_access == vk::TRUE;
    let operations = vk::SubgroupFeatureFlags::BASIC
        | vk::SubgroupFeatureFlags::ARITHMETIC
        | vk::SubgroupFeatureFlags::SHUFFLE;
    Features {
        f16: f16.shader_float16 == vk::TRUE && stored,
        i16: int16 && stored,
        subgroups: subgroup.supported_operations.contains(operations)
            && subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE),
        integer_dot: dot.shader_integer_dot_product == vk::TRUE,
        ..Features::default()
    }
}

/// Shapes with f16 inputs and f32 results at subgroup scope.
fn coop_shapes(instance: &Instance, raw: vk::PhysicalDevice) -> Vec<CoopShape> {
    use vk::ComponentTypeKHR as Type;
    let mut available = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut available);
    // SAFETY: the device has the extension.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut features) };
    if available.cooperative_matrix != vk::TRUE {
        return Vec::new();
    }
    let loader = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: as above.
    let shapes = unsafe { loader.get_physical_device_cooperative_matrix_properties(raw) };
    shapes
        .unwrap_or_default()
        .into_iter()
        .filter(|shape| {
            shape.scope == vk::ScopeKHR::SUBGROUP
                && (shape.a_type, shape.b_type) == (Type::FLOAT16, Type::FLOAT16)
                && (shape.c_type, shape.result_type) == (Type::FLOAT32, Type::FLOAT32)
        })
        .map(|shape| CoopShape { m: shape.m_size, n: shape.n_size, k: shape.k_size })
        .collect()
}
