//! What a device supports of that which kernels may use: read once, then claimed, enabled and
//! demanded of each kernel's SPIR-V from the same place. It must not know memory or queues.

use std::ffi::CStr;

use ash::{ext, khr, vk};

use super::instance::Instance;
use crate::device::{CoopShape, Features};

/// What the device can run. All of it is enabled when the device is opened.
#[derive(Debug, Clone, Default)]
pub(super) struct Supported {
    pub(super) f16: bool,
    pub(super) i8: bool,
    pub(super) i16: bool,
    pub(super) i64: bool,
    /// 16-bit types in storage buffers. naga declares the uniform-buffer capability along with the
    /// storage-buffer one, so both must be there.
    pub(super) storage16: bool,
    pub(super) integer_dot: bool,
    pub(super) memory_model: bool,
    pub(super) memory_model_device_scope: bool,
    pub(super) coop: Vec<CoopShape>,
    pub(super) subgroup: Subgroup,
}

/// Subgroups of compute kernels.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Subgroup {
    /// Threads of one. Kernels that use subgroups are pinned to it where that is possible.
    pub(super) size: u32,
    /// Operations in compute kernels; empty if there are none.
    pub(super) operations: vk::SubgroupFeatureFlags,
    /// The size can be required of a pipeline.
    pub(super) can_pin: bool,
    /// Workgroups can be required to consist of full subgroups.
    pub(super) can_fill: bool,
    /// Most subgroups of a workgroup that has a required size.
    pub(super) max_per_group: u32,
}

/// Extensions that are enabled where the device lists them.
pub(super) const EXTENSIONS: [&CStr; 8] = [
    khr::cooperative_matrix::NAME,
    ext::external_memory_host::NAME,
    khr::external_memory::NAME,
    ext::memory_budget::NAME,
    khr::portability_subset::NAME,
    khr::push_descriptor::NAME,
    ext::subgroup_size_control::NAME,
    khr::shader_integer_dot_product::NAME,
];

/// Whether structures of an extension that became part of Vulkan 1.3 may be used.
fn at_1_3(version: u32, listed: &[&CStr], extension: &CStr) -> bool {
    version >= vk::API_VERSION_1_3 || listed.contains(&extension)
}

/// Asks the device. `version` is what both it and the instance speak; `listed` holds those of
/// [`EXTENSIONS`] that it lists.
pub(super) fn read(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    version: u32,
    listed: &[&CStr],
) -> Supported {
    let mut storage16 = vk::PhysicalDevice16BitStorageFeatures::default();
    let mut small = vk::PhysicalDeviceShaderFloat16Int8Features::default();
    let mut model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut storage16)
        .push_next(&mut small)
        .push_next(&mut model);
    if at_1_3(version, listed, khr::shader_integer_dot_product::NAME) {
        features = features.push_next(&mut dot);
    }
    let has_matrices = listed.contains(&khr::cooperative_matrix::NAME);
    if has_matrices {
        features = features.push_next(&mut matrices);
    }
    // SAFETY: `raw` came from this instance; the chain holds structures of its version and
    // extensions.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut features) };
    let basic = features.features;
    let yes = |flag: vk::Bool32| flag == vk::TRUE;
    let mut supported = Supported {
        f16: yes(small.shader_float16),
        i8: yes(small.shader_int8),
        i16: yes(basic.shader_int16),
        i64: yes(basic.shader_int64),
        storage16: yes(storage16.storage_buffer16_bit_access)
            && yes(storage16.uniform_and_storage_buffer16_bit_access),
        integer_dot: yes(dot.shader_integer_dot_product),
        memory_model: yes(model.vulkan_memory_model),
        memory_model_device_scope: yes(model.vulkan_memory_model_device_scope),
        coop: Vec::new(),
        subgroup: read_subgroup(instance, raw, version, listed),
    };
    if yes(matrices.cooperative_matrix)
        && supported.f16
        && supported.storage16
        && supported.memory_model
    {
        supported.coop = coop_shapes(instance, raw);
    }
    supported
}

fn read_subgroup(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    version: u32,
    listed: &[&CStr],
) -> Subgroup {
    let controlled = at_1_3(version, listed, ext::subgroup_size_control::NAME);
    let mut basic = vk::PhysicalDeviceSubgroupProperties::default();
    let mut control = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut basic);
    let mut features = vk::PhysicalDeviceFeatures2::default();
    let mut switches = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
    if controlled {
        properties = properties.push_next(&mut control);
        features = features.push_next(&mut switches);
    }
    // SAFETY: as in `read`.
    unsafe {
        instance.raw.get_physical_device_properties2(raw, &mut properties);
        instance.raw.get_physical_device_features2(raw, &mut features);
    }
    let compute = vk::ShaderStageFlags::COMPUTE;
    let operations = match basic.supported_stages.contains(compute) {
        true => basic.supported_operations,
        false => vk::SubgroupFeatureFlags::empty(),
    };
    Subgroup {
        size: basic.subgroup_size,
        operations,
        can_pin: switches.subgroup_size_control == vk::TRUE
            && control.required_subgroup_size_stages.contains(compute)
            && (control.min_subgroup_size..=control.max_subgroup_size)
                .contains(&basic.subgroup_size),
        can_fill: switches.compute_full_subgroups == vk::TRUE,
        max_per_group: control.max_compute_workgroup_subgroups,
    }
}

/// The square shapes with f16 inputs and f32 results at subgroup scope: naga writes no others.
fn coop_shapes(instance: &Instance, raw: vk::PhysicalDevice) -> Vec<CoopShape> {
    use vk::ComponentTypeKHR as Type;
    let loader = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    let mut compute = vk::PhysicalDeviceCooperativeMatrixPropertiesKHR::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut compute);
    // SAFETY: the device has the extension.
    unsafe { instance.raw.get_physical_device_properties2(raw, &mut properties) };
    if !compute.cooperative_matrix_supported_stages.contains(vk::ShaderStageFlags::COMPUTE) {
        return Vec::new();
    }
    // SAFETY: as above.
    let shapes = unsafe { loader.get_physical_device_cooperative_matrix_properties(raw) };
    let mut found: Vec<CoopShape> = Vec::new();
    for shape in shapes.unwrap_or_default() {
        let usable = shape.scope == vk::ScopeKHR::SUBGROUP
            && (shape.a_type, shape.b_type) == (Type::FLOAT16, Type::FLOAT16)
            && (shape.c_type, shape.result_type) == (Type::FLOAT32, Type::FLOAT32)
            && (shape.m_size, shape.n_size) == (shape.n_size, shape.k_size)
            && matches!(shape.m_size, 8 | 16);
        let shape = CoopShape { m: shape.m_size, n: shape.n_size, k: shape.k_size };
        if usable && !found.contains(&shape) {
            found.push(shape);
        }
    }
    found
}

impl Supported {
    /// The part that the rest of the crate knows; memory and timestamps are not known here.
    pub(super) fn claims(&self) -> Features {
        use vk::SubgroupFeatureFlags as Op;
        Features {
            f16: self.f16 && self.storage16,
            i16: self.i16 && self.storage16,
            subgroups: self.subgroup.operations.contains(Op::BASIC | Op::ARITHMETIC | Op::SHUFFLE),
            integer_dot: self.integer_dot,
            coop_f16: self.coop.clone(),
            ..Features::default()
        }
    }

    /// Makes the logical device with one queue and all that is supported.
    pub(super) fn create_device(
        &self,
        instance: &Instance,
        raw: vk::PhysicalDevice,
        family: u32,
        extensions: &[&'static CStr],
    ) -> std::result::Result<ash::Device, vk::Result> {
        let basic =
            vk::PhysicalDeviceFeatures::default().shader_int16(self.i16).shader_int64(self.i64);
        let mut storage16 = vk::PhysicalDevice16BitStorageFeatures::default()
            .storage_buffer16_bit_access(self.storage16)
            .uniform_and_storage_buffer16_bit_access(self.storage16);
        let mut small = vk::PhysicalDeviceShaderFloat16Int8Features::default()
            .shader_float16(self.f16)
            .shader_int8(self.i8);
        let mut model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default()
            .vulkan_memory_model(self.memory_model)
            .vulkan_memory_model_device_scope(self.memory_model_device_scope);
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default()
            .shader_integer_dot_product(true);
        let mut matrices =
            vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut switches = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
            .subgroup_size_control(self.subgroup.can_pin)
            .compute_full_subgroups(self.subgroup.can_fill);
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .enabled_features(&basic)
            .push_next(&mut storage16)
            .push_next(&mut small)
            .push_next(&mut model);
        if self.integer_dot {
            info = info.push_next(&mut dot);
        }
        if !self.coop.is_empty() {
            info = info.push_next(&mut matrices);
        }
        if self.subgroup.can_pin || self.subgroup.can_fill {
            info = info.push_next(&mut switches);
        }
        // SAFETY: the chain holds only features that `read` found and extensions that the device
        // lists; all of it lives until the call returns.
        unsafe { instance.raw.create_device(raw, &info, None) }
    }

    /// The first thing that a module asks for and this device lacks, in a person's words. Drivers
    /// need not refuse such a module: they may miscompile it, or crash.
    pub(super) fn lacks(&self, words: &[u32]) -> Option<String> {
        capabilities(words).find_map(|capability| self.missing(capability))
    }

    fn missing(&self, capability: u32) -> Option<String> {
        use vk::SubgroupFeatureFlags as Op;
        let subgroup = |operation| self.subgroup.operations.contains(operation);
        let (there, what) = match capability {
            // Matrix, Shader.
            0 | 1 => (true, ""),
            9 => (self.f16, "f16 arithmetic"),
            11 => (self.i64, "64-bit integers"),
            22 => (self.i16, "16-bit integers"),
            39 => (self.i8, "8-bit integers in registers (unpack4x)"),
            61 => (subgroup(Op::BASIC), "subgroups"),
            62 => (subgroup(Op::VOTE), "subgroup votes"),
            63 => (subgroup(Op::ARITHMETIC), "subgroup arithmetic"),
            64 => (subgroup(Op::BALLOT), "subgroup ballots"),
            65 => (subgroup(Op::SHUFFLE), "subgroup shuffles"),
            66 => (subgroup(Op::SHUFFLE_RELATIVE), "relative subgroup shuffles"),
            67 => (subgroup(Op::CLUSTERED), "clustered subgroup operations"),
            68 => (subgroup(Op::QUAD), "quad operations"),
            4433 | 4434 => (self.storage16, "16-bit storage"),
            5345 => (self.memory_model, "the Vulkan memory model"),
            5346 => (self.memory_model_device_scope, "the memory model's device scope"),
            6018 | 6019 => (self.integer_dot, "integer dot products"),
            6022 => (!self.coop.is_empty(), "cooperative matrices"),
            other => return Some(format!("SPIR-V capability {other}")),
        };
        (!there).then(|| what.to_owned())
    }
}

/// The operands of a module's `OpCapability` instructions, which come first in it.
fn capabilities(words: &[u32]) -> impl Iterator<Item = u32> + '_ {
    const OP_CAPABILITY: u32 = 2 << 16 | 17;
    words
        .get(5..)
        .unwrap_or_default()
        .chunks_exact(2)
        .take_while(|pair| pair[0] == OP_CAPABILITY)
        .map(|pair| pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITY: u32 = 2 << 16 | 17;

    #[test]
    fn a_module_that_asks_for_more_is_refused() {
        let header = [0x0723_0203, 0x0001_0400, 0, 10, 0];
        let module = [&header[..], &[CAPABILITY, 1, CAPABILITY, 6019, 3 << 16 | 14, 0, 1]].concat();
        let none = Supported::default();
        assert_eq!(none.lacks(&module).as_deref(), Some("integer dot products"));
        let dot = Supported { integer_dot: true, ..Supported::default() };
        assert_eq!(dot.lacks(&module), None);
        let unknown = [&header[..], &[CAPABILITY, 99_999]].concat();
        assert_eq!(dot.lacks(&unknown).as_deref(), Some("SPIR-V capability 99999"));
        assert_eq!(dot.lacks(&[]), None);
    }
}
