//! One pass as one command buffer: recorded once, submitted as often as wanted.
//!
//! It begins with a barrier that orders everything submitted before it, and ends with one that
//! makes its results visible to copies and to the host. Between those, dispatches are ordered only
//! by the barriers of the pass.

use std::sync::Arc;

use ash::vk;

use super::gpu::Gpu;
use super::memory::own;
use super::pipeline::VulkanPipeline;
use crate::backend::{BarrierRange, Command, DispatchCommand, EncodeOptions};
use crate::error::{Error, Result};

/// The Vulkan objects of a pass. Destroyed when the pass is.
pub(super) struct Recording {
    pub(super) pool: vk::CommandPool,
    pub(super) commands: vk::CommandBuffer,
    pub(super) descriptors: vk::DescriptorPool,
    pub(super) queries: vk::QueryPool,
    pub(super) dispatches: u32,
    pub(super) gpu: Arc<Gpu>,
}

const COMPUTE: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;

impl Recording {
    pub(super) fn record(
        gpu: &Arc<Gpu>,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Recording> {
        let dispatches = commands.iter().filter_map(|command| match command {
            Command::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        });
        let (mut count, mut sets) = (0u32, Sets::default());
        for dispatch in dispatches {
            count += 1;
            if !pipeline(dispatch)?.pushed && !dispatch.bindings.is_empty() {
                sets.count += 1;
                sets.bindings += dispatch.bindings.len() as u32;
            }
        }
        let mut recording = Recording {
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            descriptors: vk::DescriptorPool::null(),
            queries: vk::QueryPool::null(),
            dispatches: count,
            gpu: gpu.clone(),
        };
        recording.create(count, &sets, options.timestamps)?;
        gpu.name(recording.commands, &options.label);
        recording.encode(commands)?;
        Ok(recording)
    }

    /// Makes the pools and the command buffer. What exists on an early return, `drop` destroys.
    fn create(&mut self, dispatches: u32, sets: &Sets, timestamps: bool) -> Result<()> {
        let gpu = self.gpu.clone();
        let device = &gpu.device;
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.physical.family);
        // SAFETY: structures live through each call, here and below.
        self.pool = unsafe { device.create_command_pool(&pool, None) }
            .map_err(gpu.fail("vkCreateCommandPool"))?;
        let buffers = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: as above.
        self.commands = unsafe { device.allocate_command_buffers(&buffers) }
            .map_err(gpu.fail("vkAllocateCommandBuffers"))?
            .first()
            .copied()
            .unwrap_or_default();
        if sets.count > 0 {
            let sizes = [vk::DescriptorPoolSize::default()
                .ty(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(sets.bindings)];
            let info =
                vk::DescriptorPoolCreateInfo::default().max_sets(sets.count).pool_sizes(&sizes);
            // SAFETY: as above.
            self.descriptors = unsafe { device.create_descriptor_pool(&info, None) }
                .map_err(gpu.fail("vkCreateDescriptorPool"))?;
        }
        if timestamps && dispatches > 0 && gpu.info().features.timestamps {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(dispatches * 2 + 1);
            // SAFETY: as above.
            self.queries = unsafe { device.create_query_pool(&info, None) }
                .map_err(gpu.fail("vkCreateQueryPool"))?;
        }
        Ok(())
    }

    fn encode(&self, commands: &[Command]) -> Result<()> {
        let device = &self.gpu.device;
        // SAFETY: the buffer is new and this thread's alone until it is submitted.
        unsafe { device.begin_command_buffer(self.commands, &Default::default()) }
            .map_err(self.gpu.fail("vkBeginCommandBuffer"))?;
        self.barrier(
            (vk::PipelineStageFlags::ALL_COMMANDS, vk::AccessFlags::MEMORY_WRITE),
            (COMPUTE, vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE),
        );
        let timed = self.queries != vk::QueryPool::null();
        if timed {
            // SAFETY: the pool has this many queries.
            unsafe {
                device.cmd_reset_query_pool(
                    self.commands,
                    self.queries,
                    0,
                    self.dispatches * 2 + 1,
                );
            }
            self.timestamp(vk::PipelineStageFlags::TOP_OF_PIPE, 0);
        }
        let mut bound = vk::Pipeline::null();
        let mut number = 0;
        for command in commands {
            match command {
                Command::Barrier => self.barrier(
                    (COMPUTE, vk::AccessFlags::SHADER_WRITE),
                    (COMPUTE, vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE),
                ),
                Command::BarrierBetween(ranges) => self.barrier_between(ranges)?,
                Command::Dispatch(dispatch) => {
                    if timed {
                        self.timestamp(vk::PipelineStageFlags::TOP_OF_PIPE, number * 2 + 1);
                    }
                    self.gpu.labelled(self.commands, &dispatch.label, || {
                        self.dispatch(dispatch, &mut bound)
                    })?;
                    if timed {
                        self.timestamp(COMPUTE, number * 2 + 2);
                    }
                    number += 1;
                }
            }
        }
        self.barrier(
            (COMPUTE, vk::AccessFlags::SHADER_WRITE),
            (
                vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::HOST,
                vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::HOST_READ,
            ),
        );
        // SAFETY: recording began above.
        unsafe { device.end_command_buffer(self.commands) }
            .map_err(self.gpu.fail("vkEndCommandBuffer"))
    }

    fn barrier(
        &self,
        (from, written): (vk::PipelineStageFlags, vk::AccessFlags),
        (to, used): (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(used)];
        // SAFETY: the command buffer is recording.
        unsafe {
            self.gpu.device.cmd_pipeline_barrier(
                self.commands,
                from,
                to,
                vk::DependencyFlags::empty(),
                &memory,
                &[],
                &[],
            );
        }
    }

    fn barrier_between(&self, ranges: &[BarrierRange]) -> Result<()> {
        let mut barriers = Vec::with_capacity(ranges.len());
        for range in ranges {
            let used = match range.full {
                true => vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE,
                false => vk::AccessFlags::SHADER_READ,
            };
            barriers.push(
                vk::BufferMemoryBarrier::default()
                    .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                    .dst_access_mask(used)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .buffer(own(range.memory.backend())?.buffer)
                    .offset(range.range.start)
                    .size(range.range.end - range.range.start),
            );
        }
        // SAFETY: the command buffer is recording; the buffers are kept by the pass.
        unsafe {
            self.gpu.device.cmd_pipeline_barrier(
                self.commands,
                COMPUTE,
                COMPUTE,
                vk::DependencyFlags::empty(),
                &[],
                &barriers,
                &[],
            );
        }
        Ok(())
    }

    /// `TOP_OF_PIPE` notes when the device's front end comes by, which is at most as late as the
    /// first workgroup's start; `COMPUTE` notes when every dispatch up to here has ended, so the end
    /// of a dispatch is never told before that of an earlier one that runs beside it.
    fn timestamp(&self, stage: vk::PipelineStageFlags, query: u32) {
        // SAFETY: the command buffer is recording and the pool has this query.
        unsafe { self.gpu.device.cmd_write_timestamp(self.commands, stage, self.queries, query) };
    }

    fn dispatch(&self, dispatch: &DispatchCommand, bound: &mut vk::Pipeline) -> Result<()> {
        let device = &self.gpu.device;
        let pipeline = pipeline(dispatch)?;
        // SAFETY: the command buffer is recording; pipeline and buffers are kept by the pass;
        // ranges, immediates and sizes were checked against reflection and limits.
        unsafe {
            if *bound != pipeline.raw {
                let point = vk::PipelineBindPoint::COMPUTE;
                device.cmd_bind_pipeline(self.commands, point, pipeline.raw);
                *bound = pipeline.raw;
            }
            self.bind(dispatch, pipeline)?;
            if !dispatch.immediates.is_empty() {
                device.cmd_push_constants(
                    self.commands,
                    pipeline.layout,
                    vk::ShaderStageFlags::COMPUTE,
                    0,
                    &dispatch.immediates,
                );
            }
            let [x, y, z] = dispatch.groups;
            device.cmd_dispatch(self.commands, x, y, z);
        }
        Ok(())
    }

    /// Binds each span from the aligned byte at or below its start to its exact end: pushed into the
    /// command buffer where the device takes them so, else through a set.
    fn bind(&self, dispatch: &DispatchCommand, pipeline: &VulkanPipeline) -> Result<()> {
        if dispatch.bindings.is_empty() {
            return Ok(());
        }
        let alignment = self.gpu.info().limits.binding_alignment;
        let mut spans = Vec::with_capacity(dispatch.bindings.len());
        for span in &dispatch.bindings {
            let start = span.range.start / alignment * alignment;
            spans.push([vk::DescriptorBufferInfo::default()
                .buffer(own(span.memory.backend())?.buffer)
                .offset(start)
                .range(span.range.end - start)]);
        }
        let set = match pipeline.pushed {
            true => vk::DescriptorSet::null(),
            false => self.set(pipeline)?,
        };
        let writes: Vec<_> = spans
            .iter()
            .enumerate()
            .map(|(slot, span)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(slot as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(span)
            })
            .collect();
        let (layout, point) = (pipeline.layout, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer is recording; a set is new; the buffers are kept by the pass;
        // pipelines are pushed to only where `push` is.
        unsafe {
            match (&self.gpu.push, pipeline.pushed) {
                (Some(push), true) => {
                    push.cmd_push_descriptor_set(self.commands, point, layout, 0, &writes);
                }
                _ => {
                    let device = &self.gpu.device;
                    device.update_descriptor_sets(&writes, &[]);
                    device.cmd_bind_descriptor_sets(self.commands, point, layout, 0, &[set], &[]);
                }
            }
        }
        Ok(())
    }

    fn set(&self, pipeline: &VulkanPipeline) -> Result<vk::DescriptorSet> {
        let layouts = [pipeline.set_layout];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.descriptors)
            .set_layouts(&layouts);
        // SAFETY: the pool was made for exactly these sets.
        let sets = unsafe { self.gpu.device.allocate_descriptor_sets(&info) };
        Ok(sets
            .map_err(self.gpu.fail("vkAllocateDescriptorSets"))?
            .first()
            .copied()
            .unwrap_or_default())
    }
}

/// What a pool must hold for the dispatches whose buffers are not pushed.
#[derive(Default)]
struct Sets {
    count: u32,
    bindings: u32,
}

/// The dispatch's kernel, as this backend compiled it.
fn pipeline(dispatch: &DispatchCommand) -> Result<&VulkanPipeline> {
    dispatch.kernel.pipeline().as_any().downcast_ref().ok_or(Error::Driver {
        backend: "vulkan",
        call: "encode",
        code: "a kernel of another backend".into(),
    })
}

impl Drop for Recording {
    fn drop(&mut self) {
        let device = &self.gpu.device;
        // SAFETY: the front drops a pass only when it is not in flight; null handles are ignored;
        // command buffer and sets go with their pools.
        unsafe {
            device.destroy_query_pool(self.queries, None);
            device.destroy_descriptor_pool(self.descriptors, None);
            device.destroy_command_pool(self.pool, None);
        }
    }
}
