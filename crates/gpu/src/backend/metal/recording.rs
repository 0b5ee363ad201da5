//! Command buffers and encoders whose lives are types.
//!
//! A concurrent encoder carries the state on which barriers rely. It must live from its first
//! dispatch to its last: `Encoder` owns it retained, so no autorelease pool can end it early, ends it
//! exactly once, also on an error, and borrows its command buffer, so that it cannot be committed
//! while an encoder is open.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::Message;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder,
    MTLCommandQueue, MTLComputeCommandEncoder, MTLDispatchType, MTLFence,
};

use super::memory::SharedBuffer;
use super::nil;
use super::signal::{Outcome, Signal};
use crate::error::Result;

/// A command buffer that is not committed yet. Dropping it submits nothing.
pub(super) struct Recording<'g> {
    raw: Retained<ProtocolObject<dyn MTLCommandBuffer>>,
    fence: &'g ProtocolObject<dyn MTLFence>,
    /// Whether earlier submissions updated the fence.
    chained: bool,
}

/// An open encoder: retained while this lives, ended when it is dropped, once.
pub(super) struct Encoder<'r, E: MTLCommandEncoder + Message> {
    raw: Retained<E>,
    fence: &'r ProtocolObject<dyn MTLFence>,
}

impl<E: MTLCommandEncoder + Message> Drop for Encoder<'_, E> {
    fn drop(&mut self) {
        self.raw.endEncoding();
    }
}

/// An encoder of dispatches that run concurrently between barriers.
pub(super) type Compute<'r> = Encoder<'r, ProtocolObject<dyn MTLComputeCommandEncoder>>;
/// An encoder of copies.
pub(super) type Blit<'r> = Encoder<'r, ProtocolObject<dyn MTLBlitCommandEncoder>>;

impl<'g> Recording<'g> {
    /// Opens a command buffer; it keeps what is encoded into it alive until it has ended.
    pub(super) fn begin(
        queue: &ProtocolObject<dyn MTLCommandQueue>,
        fence: &'g ProtocolObject<dyn MTLFence>,
        chained: bool,
        label: &str,
    ) -> Result<Self> {
        let raw = queue.commandBuffer().ok_or_else(|| nil("commandBuffer"))?;
        if !label.is_empty() {
            raw.setLabel(Some(&NSString::from_str(label)));
        }
        Ok(Recording { raw, fence, chained })
    }

    /// Opens an encoder that starts when all earlier submissions have ended.
    pub(super) fn compute(&mut self) -> Result<Compute<'_>> {
        let raw = self
            .raw
            .computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent)
            .ok_or_else(|| nil("computeCommandEncoderWithDispatchType"))?;
        let encoder = Encoder { raw, fence: self.fence };
        if self.chained {
            encoder.raw.waitForFence(self.fence);
        }
        Ok(encoder)
    }

    /// Likewise, for copies.
    pub(super) fn blit(&mut self) -> Result<Blit<'_>> {
        let raw = self.raw.blitCommandEncoder().ok_or_else(|| nil("blitCommandEncoder"))?;
        let encoder = Encoder { raw, fence: self.fence };
        if self.chained {
            encoder.raw.waitForFence(self.fence);
        }
        Ok(encoder)
    }

    /// Starts the work. The signal tells when and how it ends.
    pub(super) fn commit(self) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let told = signal.clone();
        let handler = RcBlock::new(move |ended: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            // SAFETY: Metal passes the command buffer that ended, alive during the call.
            told.end(outcome(unsafe { ended.as_ref() }));
        });
        // SAFETY: the block is valid; Metal copies it and calls it once, on a thread of its own. It
        // holds only an `Arc` of plain values that may be shared and sent.
        unsafe { self.raw.addCompletedHandler(RcBlock::as_ptr(&handler)) };
        self.raw.commit();
        signal
    }
}

fn outcome(ended: &ProtocolObject<dyn MTLCommandBuffer>) -> Outcome {
    if ended.status() == MTLCommandBufferStatus::Completed {
        return Outcome::Completed;
    }
    autoreleasepool(|_| match ended.error() {
        Some(error) => {
            Outcome::Failed { code: error.code(), reason: error.localizedDescription().to_string() }
        }
        None => Outcome::Failed { code: 0, reason: format!("it ended in {:?}", ended.status()) },
    })
}

impl Compute<'_> {
    /// For encoding into it. Borrowed, so it cannot outlive the guard.
    pub(super) fn raw(&self) -> &ProtocolObject<dyn MTLComputeCommandEncoder> {
        &self.raw
    }

    /// Ends the encoder; whatever is submitted next starts after it.
    pub(super) fn finish(self) {
        self.raw.updateFence(self.fence);
    }
}

impl Blit<'_> {
    /// Copies bytes between buffers; offsets and length are multiples of 4.
    pub(super) fn copy(&self, from: (&SharedBuffer, u64), to: (&SharedBuffer, u64), bytes: u64) {
        // SAFETY: callers give ranges inside both buffers, which the command buffer retains and
        // which no other submission uses meanwhile.
        unsafe {
            self.raw.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                &from.0.0,
                from.1 as usize,
                &to.0.0,
                to.1 as usize,
                bytes as usize,
            );
        }
    }

    /// Ends the encoder; whatever is submitted next starts after it.
    pub(super) fn finish(self) {
        self.raw.updateFence(self.fence);
    }
}
