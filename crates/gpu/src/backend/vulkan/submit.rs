//! Submissions of passes, their fences and their times. It must not know how passes are recorded.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use super::encoder::Recording;
use super::gpu::Gpu;
use crate::backend::{BackendPass, Command, DispatchTime, EncodeOptions};
use crate::error::{Error, Result};
use crate::memory::lock;

/// An encoded pass with its fence.
pub(super) struct VulkanPass {
    recording: Recording,
    fence: vk::Fence,
    state: State,
}

/// Where the last submission is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There was none, or the driver refused it.
    Idle,
    /// The device may be working on it.
    Pending,
    /// It completed, or the device is lost: nothing runs any more.
    Over,
}

impl VulkanPass {
    pub(super) fn encode(
        gpu: &Arc<Gpu>,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Self> {
        let recording = Recording::record(gpu, commands, options)?;
        // SAFETY: the device is alive.
        let fence = unsafe { gpu.device.create_fence(&Default::default(), None) }
            .map_err(gpu.fail("vkCreateFence"))?;
        Ok(VulkanPass { recording, fence, state: State::Idle })
    }
}

impl BackendPass for VulkanPass {
    fn submit(&mut self) -> Result<()> {
        let gpu = &self.recording.gpu;
        let buffers = [self.recording.commands];
        let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
        self.state = State::Idle;
        // SAFETY: the front submits a pass only when it is not in flight, so fence and command
        // buffer are free.
        unsafe { gpu.device.reset_fences(&[self.fence]) }.map_err(gpu.fail("vkResetFences"))?;
        let queue = lock(&gpu.queue);
        // SAFETY: as above, and the queue is held.
        unsafe { gpu.device.queue_submit(*queue, &submits, self.fence) }
            .map_err(gpu.fail("vkQueueSubmit"))?;
        self.state = State::Pending;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if self.state != State::Pending {
            return Ok(true);
        }
        let ended = self.recording.gpu.wait(self.fence, timeout);
        if matches!(ended, Ok(true) | Err(Error::DeviceLost { .. })) {
            self.state = State::Over;
        }
        ended
    }

    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>> {
        let recording = &self.recording;
        if recording.queries == vk::QueryPool::null() || self.state != State::Over {
            return Ok(None);
        }
        let gpu = &recording.gpu;
        let mut ticks = vec![0u64; recording.dispatches as usize * 2 + 1];
        // SAFETY: the pool has this many queries and the submission that wrote them completed.
        unsafe {
            gpu.device.get_query_pool_results(
                recording.queries,
                0,
                &mut ticks,
                vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT,
            )
        }
        .map_err(gpu.fail("vkGetQueryPoolResults"))?;
        let mask = u64::MAX.checked_shr(64 - gpu.physical.timestamp_bits.clamp(1, 64)).unwrap_or(0);
        let since = |tick: u64| {
            let elapsed = tick.wrapping_sub(ticks[0]) & mask;
            Duration::from_nanos((elapsed as f64 * gpu.physical.tick) as u64)
        };
        let times = ticks[1..].chunks_exact(2);
        Ok(Some(
            times.map(|pair| DispatchTime { start: since(pair[0]), end: since(pair[1]) }).collect(),
        ))
    }
}

impl Drop for VulkanPass {
    fn drop(&mut self) {
        if self.state == State::Pending {
            // Only after a wait that failed without telling whether the work goes on, for want of
            // host memory: the pass and what it uses must not go before the work has ended.
            let _ended_or_lost = self.wait(Duration::MAX);
        }
        // SAFETY: the pass is not in flight.
        unsafe { self.recording.gpu.device.destroy_fence(self.fence, None) };
    }
}
