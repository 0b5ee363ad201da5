//! Kernels as compute pipelines. SPIR-V is kept on disk by the front's key; what the driver makes of
//! it is in the device's pipeline cache.

use std::any::Any;
use std::ffi::CString;
use std::sync::Arc;

use ash::vk;

use super::gpu::Gpu;
use crate::backend::{BackendPipeline, Compiled};
use crate::error::{Error, Result};
use crate::kernel::spirv;

/// A compiled kernel.
pub(super) struct VulkanPipeline {
    pub(super) raw: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) set_layout: vk::DescriptorSetLayout,
    /// Its buffers are pushed into the command buffer; there is no set to allocate.
    pub(super) pushed: bool,
    gpu: Arc<Gpu>,
}

impl VulkanPipeline {
    pub(super) fn compile(gpu: &Arc<Gpu>, source: &Compiled<'_>) -> Result<Self> {
        let words = words(source)?;
        if let Some(what) = gpu.physical.supported.lacks(&words) {
            return Err(Error::Unsupported {
                device: gpu.info().name.clone(),
                what: format!("{what}, which kernel {} uses", source.name),
                instead: "choose a kernel variant by Device::info().features".into(),
            });
        }
        let bad = |reason: String| Error::BadKernel { kernel: source.name.into(), reason };
        let entry = CString::new(source.entry).map_err(|error| bad(error.to_string()))?;
        let slots = source.reflection.slots.len() as u32;
        let bindings: Vec<_> = (0..slots)
            .map(|slot| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(slot)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let mut made = VulkanPipeline {
            raw: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            pushed: slots <= gpu.physical.max_pushed,
            gpu: gpu.clone(),
        };
        let device = &gpu.device;
        let flags = match made.pushed {
            true => vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR,
            false => vk::DescriptorSetLayoutCreateFlags::empty(),
        };
        let set = vk::DescriptorSetLayoutCreateInfo::default().flags(flags).bindings(&bindings);
        // SAFETY: structures live through each call; `made` destroys what exists on any return.
        made.set_layout = unsafe { device.create_descriptor_set_layout(&set, None) }
            .map_err(gpu.fail("vkCreateDescriptorSetLayout"))?;
        let sets = [made.set_layout];
        let immediates = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(source.reflection.immediate_bytes)];
        let ranges = if immediates[0].size > 0 { &immediates[..] } else { &[] };
        let layout =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(ranges);
        // SAFETY: as above.
        made.layout = unsafe { device.create_pipeline_layout(&layout, None) }
            .map_err(gpu.fail("vkCreatePipelineLayout"))?;
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the words come from naga's validated output.
        let module = unsafe { device.create_shader_module(&module, None) }
            .map_err(gpu.fail("vkCreateShaderModule"))?;
        let (flags, mut required) = subgroups(gpu, source);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry);
        if let Some(size) = &mut required {
            stage = stage.push_next(size);
        }
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(made.layout);
        // SAFETY: stage, layout and cache are alive.
        let pipelines = unsafe { device.create_compute_pipelines(gpu.pipelines, &[info], None) };
        // SAFETY: a module may go once its pipelines are made.
        unsafe { device.destroy_shader_module(module, None) };
        made.raw = match pipelines {
            Ok(pipelines) => pipelines.first().copied().unwrap_or_default(),
            Err((_, code @ vk::Result::ERROR_DEVICE_LOST)) => {
                return Err(gpu.fail("vkCreateComputePipelines")(code));
            }
            Err((_, code)) => return Err(bad(format!("{} refuses it: {code:?}", gpu.info().name))),
        };
        gpu.name(made.raw, source.name);
        Ok(made)
    }
}

/// Pins the subgroup size of kernels that depend on it, and asks for full subgroups where the
/// workgroup is made of whole ones.
fn subgroups(
    gpu: &Gpu,
    source: &Compiled<'_>,
) -> (
    vk::PipelineShaderStageCreateFlags,
    Option<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'static>>,
) {
    let none = (vk::PipelineShaderStageCreateFlags::empty(), None);
    let reflection = source.reflection;
    if !(reflection.uses_subgroups || reflection.uses_coop) {
        return none;
    }
    let subgroup = gpu.physical.supported.subgroup;
    let [x, y, z] = reflection.group_size.map(u64::from);
    let most = u64::from(subgroup.size) * u64::from(subgroup.max_per_group);
    if !subgroup.can_pin || x * y * z > most {
        return none;
    }
    let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
        .required_subgroup_size(subgroup.size);
    let flags = match subgroup.can_fill && x.is_multiple_of(subgroup.size.into()) {
        true => vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS,
        false => vk::PipelineShaderStageCreateFlags::empty(),
    };
    (flags, Some(size))
}

/// The kernel's SPIR-V, from the disk cache or translated now.
fn words(source: &Compiled<'_>) -> Result<Vec<u32>> {
    let kept = source.cache.and_then(|cache| cache.get(&source.key));
    if let Some(bytes) = kept.filter(|bytes| bytes.len().is_multiple_of(4)) {
        let word = |four: &[u8]| bytemuck::pod_read_unaligned::<u32>(four);
        return Ok(bytes.chunks_exact(4).map(word).collect());
    }
    let words = spirv(source.source, source.parsed)?;
    if let Some(cache) = source.cache {
        // A cache that cannot be written costs a millisecond at the next start, nothing else.
        let _unsaved = cache.put(&source.key, bytemuck::cast_slice(&words));
    }
    Ok(words)
}

impl Drop for VulkanPipeline {
    fn drop(&mut self) {
        // SAFETY: passes that use the pipeline hold the kernel; null handles are ignored.
        unsafe {
            self.gpu.device.destroy_pipeline(self.raw, None);
            self.gpu.device.destroy_pipeline_layout(self.layout, None);
            self.gpu.device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

impl BackendPipeline for VulkanPipeline {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
