//! A pass prepared for encoding. Metal's command buffers are used once, so a pass is encoded anew at
//! each submission, from flat lists that hold what Metal's calls take.
//!
//! (Indirect command buffers would save that; they take no `setBytes`, so immediates would have to
//! move into a buffer.)

use std::ops::Range;
use std::ptr::NonNull;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBarrierScope, MTLBuffer, MTLComputeCommandEncoder, MTLComputePipelineState, MTLResource,
    MTLSize,
};

use super::memory::{SharedBuffer, own};
use super::physical::{BINDING_ALIGNMENT, not_null};
use super::pipeline::MetalPipeline;
use super::recording::Recording;
use crate::backend::{BarrierRange, Command, DispatchCommand};
use crate::error::{Error, Result};

/// A pass as lists. Ranges of a step point into them.
#[derive(Default)]
pub(super) struct Prepared {
    steps: Vec<Step>,
    buffers: Vec<SharedBuffer>,
    offsets: Vec<usize>,
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

enum Step {
    Dispatch(Dispatch),
    Barrier,
    /// Orders what touches these buffers.
    BarrierBetween(Range<usize>),
}

struct Dispatch {
    /// `None`: that of the dispatch before.
    pipeline: Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>>,
    buffers: Range<usize>,
    /// First of `offsets`: as many as buffers.
    offsets: usize,
    immediates: Range<usize>,
    sizes: Range<usize>,
    /// Of threadgroup memory; set with the pipeline.
    lengths: Range<usize>,
    groups: MTLSize,
    threads: MTLSize,
}

impl Prepared {
    pub(super) fn new(commands: &[Command]) -> Result<Self> {
        let mut prepared = Prepared::default();
        let mut bound = None;
        for command in commands {
            let step = match command {
                Command::Barrier => Step::Barrier,
                Command::BarrierBetween(ranges) => prepared.barrier_between(ranges)?,
                Command::Dispatch(dispatch) => prepared.dispatch(dispatch, &mut bound)?,
            };
            prepared.steps.push(step);
        }
        Ok(prepared)
    }

    /// Metal's barriers take whole buffers: each once.
    fn barrier_between(&mut self, ranges: &[BarrierRange]) -> Result<Step> {
        let start = self.buffers.len();
        let mut seen = std::collections::HashSet::new();
        for range in ranges.iter().filter(|range| seen.insert(range.memory.id)) {
            self.buffers.push(own(range.memory.backend())?.buffer().clone());
        }
        Ok(Step::BarrierBetween(start..self.buffers.len()))
    }

    fn dispatch(
        &mut self,
        dispatch: &DispatchCommand,
        bound: &mut Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>>,
    ) -> Result<Step> {
        let pipeline: &MetalPipeline =
            dispatch.kernel.pipeline().as_any().downcast_ref().ok_or(Error::Driver {
                backend: "metal",
                call: "encode",
                code: "a kernel of another backend".into(),
            })?;
        let (first_buffer, first_offset) = (self.buffers.len(), self.offsets.len());
        for span in &dispatch.bindings {
            self.buffers.push(own(span.memory.backend())?.buffer().clone());
            self.offsets.push(aligned(span.range.start) as usize);
        }
        let immediates = self.keep(&dispatch.immediates);
        let mut sizes = Vec::with_capacity(pipeline.layout.sized.len() * 4);
        for &slot in &pipeline.layout.sized {
            let range = dispatch.bindings.get(slot as usize).map(|span| span.range.clone());
            let range = range.unwrap_or_default();
            // The front bounds bindings to what 32 bits count.
            let bytes = u32::try_from(range.end - aligned(range.start)).unwrap_or(u32::MAX);
            sizes.extend_from_slice(&bytes.to_ne_bytes());
        }
        let sizes = self.keep(&sizes);
        let first_length = self.lengths.len();
        let changed = bound.as_ref() != Some(&pipeline.raw);
        if changed {
            *bound = Some(pipeline.raw.clone());
            self.lengths.extend(pipeline.layout.group_memory.iter().map(|&bytes| bytes as usize));
        }
        let [width, height, depth] = dispatch.groups.map(|count| count as usize);
        Ok(Step::Dispatch(Dispatch {
            pipeline: changed.then(|| pipeline.raw.clone()),
            buffers: first_buffer..self.buffers.len(),
            offsets: first_offset,
            immediates,
            sizes,
            lengths: first_length..self.lengths.len(),
            groups: MTLSize { width, height, depth },
            threads: pipeline.threads,
        }))
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Encodes the pass into a new encoder.
    pub(super) fn encode(&self, recording: &mut Recording<'_>) -> Result<()> {
        let encoder = recording.compute()?;
        for step in &self.steps {
            match step {
                Step::Dispatch(dispatch) => self.encode_dispatch(dispatch, encoder.raw()),
                Step::Barrier => encoder.raw().memoryBarrierWithScope(MTLBarrierScope::Buffers),
                Step::BarrierBetween(buffers) => self.encode_barrier(buffers, encoder.raw()),
            }
        }
        encoder.finish();
        Ok(())
    }

    fn encode_barrier(
        &self,
        buffers: &Range<usize>,
        encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>,
    ) {
        let resources: Vec<NonNull<ProtocolObject<dyn MTLResource>>> = self.buffers
            [buffers.clone()]
        .iter()
        .map(|buffer| NonNull::from(ProtocolObject::from_ref(&*buffer.0)))
        .collect();
        if !resources.is_empty() {
            // SAFETY: as many pointers as told, each to a buffer that `self` holds.
            unsafe {
                encoder.memoryBarrierWithResources_count(not_null(&resources), resources.len());
            }
        }
    }

    fn encode_dispatch(
        &self,
        dispatch: &Dispatch,
        encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>,
    ) {
        let lengths = &self.lengths[dispatch.lengths.clone()];
        if let Some(pipeline) = &dispatch.pipeline {
            encoder.setComputePipelineState(pipeline);
            for (index, &bytes) in lengths.iter().enumerate() {
                // SAFETY: the pipeline has this many threadgroup arguments, and their sum was
                // checked against the device's bound.
                unsafe { encoder.setThreadgroupMemoryLength_atIndex(bytes, index) };
            }
        }
        let slots = dispatch.buffers.len();
        if slots > 0 {
            let buffers = &self.buffers[dispatch.buffers.clone()];
            let offsets = &self.offsets[dispatch.offsets..dispatch.offsets + slots];
            let pointers: NonNull<*const ProtocolObject<dyn MTLBuffer>> = not_null(buffers).cast();
            // SAFETY: a `SharedBuffer` is a pointer to its buffer (both wrappers are transparent),
            // so this is an array of `slots` pointers, with as many offsets; the front checked the
            // ranges and Metal retains the buffers until the work has ended.
            unsafe {
                let range = NSRange { location: 0, length: slots };
                encoder.setBuffers_offsets_withRange(pointers, not_null(offsets), range);
            }
        }
        // Immediates at the index after the buffers, array sizes after those, used or not.
        for (bytes, index) in [(&dispatch.immediates, slots), (&dispatch.sizes, slots + 1)] {
            let bytes = &self.bytes[bytes.clone()];
            if !bytes.is_empty() {
                // SAFETY: Metal copies the bytes; the index is below its bound of 31, since limits
                // leave two for these.
                unsafe {
                    encoder.setBytes_length_atIndex(not_null(bytes).cast(), bytes.len(), index);
                }
            }
        }
        encoder.dispatchThreadgroups_threadsPerThreadgroup(dispatch.groups, dispatch.threads);
    }
}

/// Where a binding begins whose span begins at `start`.
fn aligned(start: u64) -> u64 {
    start / BINDING_ALIGNMENT * BINDING_ALIGNMENT
}
