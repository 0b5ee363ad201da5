//! One device and what its objects share: the queue, the fence that chains what is submitted to it,
//! and what is in flight. Released with the last object.
//!
//! Buffers are made untracked, so Metal orders nothing by itself: not the dispatches of a pass (its
//! barriers do that) and not one command buffer after another, even on one queue. Every encoder
//! therefore first waits for `fence` and at its end updates it. Apple's reference says what this
//! rests on: fences order passes within one queue; one fence may be waited for and then updated by
//! the same encoder, not the other way round; and it is evaluated when its command buffer is
//! committed, so recording and committing happen under one lock. A wait holds back its own encoder
//! only, which is why each one waits.
//!
//! Not an `MTLEvent`: whether one that a failed command buffer should have signalled ever is, is not
//! documented, and everything behind it would hang.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandQueue, MTLDevice, MTLFence};

use super::failure::Failure;
use super::physical::{self, Raw};
use super::recording::Recording;
use super::signal::{Outcome, Signal};
use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::{Error, Result};
use crate::memory::lock;

/// Command buffers in flight before a submission waits for the oldest one.
const MOST_IN_FLIGHT: usize = 192;
/// How many the queue is made for: Metal blocks without a bound when it is full, so it never is.
const QUEUE_LENGTH: usize = 256;
/// How long a submission waits for room.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);

/// The device's shared state. Fields are released in this order.
pub(super) struct Gpu {
    flight: Mutex<Flight>,
    fence: Retained<ProtocolObject<dyn MTLFence>>,
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
    pub(super) device: Raw,
    info: DeviceInfo,
}

/// What was submitted, the oldest first.
#[derive(Default)]
struct Flight {
    running: VecDeque<Arc<Signal>>,
    /// Whether anything was ever submitted: nobody waits for a fence that nobody updates.
    chained: bool,
}

impl Gpu {
    pub(super) fn open(device: Raw, info: DeviceInfo) -> Result<Gpu> {
        let unusable = |what: &str| Error::BackendUnavailable {
            backend: "metal",
            reason: format!("{} gave no {what}", info.name),
        };
        let queue = device
            .newCommandQueueWithMaxCommandBufferCount(QUEUE_LENGTH)
            .ok_or_else(|| unusable("command queue"))?;
        let fence = device.newFence().ok_or_else(|| unusable("fence"))?;
        Ok(Gpu { flight: Mutex::default(), fence, queue, device, info })
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(super) fn memory(&self) -> MemoryInfo {
        autoreleasepool(|_| physical::memory(&self.device))
    }

    pub(super) fn out_of_memory(&self, asked: u64) -> Error {
        let MemoryInfo { total, free } = self.memory();
        Error::OutOfMemory { device: self.info.name.clone(), asked, free, total }
    }

    /// Records one command buffer and starts it, ordered after everything submitted before.
    pub(super) fn run(
        &self,
        label: &str,
        encode: impl FnOnce(&mut Recording<'_>) -> Result<()>,
    ) -> Result<Arc<Signal>> {
        self.wait_for_room()?;
        // The pool takes what Metal autoreleases on the way. Command buffer and encoder are not
        // among it: both are held retained, whatever the pool does.
        autoreleasepool(|_| {
            let mut flight = lock(&self.flight);
            let mut recording = Recording::begin(&self.queue, &self.fence, flight.chained, label)?;
            encode(&mut recording)?;
            let signal = recording.commit();
            flight.chained = true;
            flight.running.push_back(signal.clone());
            Ok(signal)
        })
    }

    /// Returns once the queue has room, so that Metal does not block.
    fn wait_for_room(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let oldest = {
                let mut flight = lock(&self.flight);
                while flight.running.front().is_some_and(|signal| signal.has_ended()) {
                    flight.running.pop_front();
                }
                match flight.running.front() {
                    Some(oldest) if flight.running.len() >= MOST_IN_FLIGHT => oldest.clone(),
                    _ => return Ok(()),
                }
            };
            if oldest.wait(ROOM_PATIENCE.saturating_sub(started.elapsed())).is_none() {
                return Err(Error::Timeout { waited: ROOM_PATIENCE });
            }
        }
    }

    /// Waits until a submission and all before it have ended: the front takes the completion of one
    /// for that of all earlier ones, and Metal may run handlers in any order.
    pub(super) fn wait(&self, signal: &Arc<Signal>, timeout: Duration) -> Option<Outcome> {
        let started = Instant::now();
        let outcome = signal.wait(timeout)?;
        let earlier: Vec<_> = {
            let flight = lock(&self.flight);
            // Only ended ones leave the list, from its front: whatever is not in it has ended.
            match flight.running.iter().position(|running| Arc::ptr_eq(running, signal)) {
                Some(at) => flight.running.iter().take(at).cloned().collect(),
                None => Vec::new(),
            }
        };
        for signal in earlier {
            signal.wait(timeout.saturating_sub(started.elapsed()))?;
        }
        Some(outcome)
    }

    /// Waits until everything submitted so far has ended; false if time ran out. Failures belong to
    /// the passes that failed, but for the device's own.
    pub(super) fn drain(&self, timeout: Duration) -> Result<bool> {
        let started = Instant::now();
        let running: Vec<_> = lock(&self.flight).running.iter().cloned().collect();
        for signal in running {
            match signal.wait(timeout.saturating_sub(started.elapsed())) {
                None => return Ok(false),
                Some(Outcome::Failed { code, reason }) if Failure::of(code) == Failure::Lost => {
                    return Err(self.lost(reason));
                }
                Some(_) => {}
            }
        }
        Ok(true)
    }

    fn lost(&self, reason: String) -> Error {
        Error::DeviceLost { device: self.info.name.clone(), reason }
    }

    /// A failed command buffer as an error of this crate. `kernels` names what ran in it, `bytes` is
    /// the memory it used.
    pub(super) fn failed(&self, code: isize, reason: String, kernels: &str, bytes: u64) -> Error {
        match Failure::of(code) {
            Failure::Lost => self.lost(reason),
            Failure::Kernel => Error::KernelFailed { kernel: kernels.into(), reason },
            Failure::Memory => self.out_of_memory(bytes),
            Failure::Refused | Failure::Other => Error::Driver {
                backend: "metal",
                call: "commit",
                code: format!("{code}: {reason}"),
            },
        }
    }
}
