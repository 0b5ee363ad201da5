//! A pass in flight, and the proof that it completed. Host reads need that proof, so reading a
//! result too early does not compile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pass::Pass;
use crate::backend::Command;
use crate::device::DeviceShared;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::memory::{Buffer, MappedRead, ReadSpan};

/// How long dropping a submission waits for it before its resources are given up for lost: they are
/// leaked, since freeing memory that a device may still use is worse.
const DROP_PATIENCE: Duration = Duration::from_secs(30);

/// A pass in flight. Dropping it waits for it.
#[must_use = "dropping a submission waits for it; call wait to get the pass and its results"]
pub struct Submission {
    pass: Option<Pass>,
    serial: u64,
}

/// When one dispatch ran, relative to the start of its pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The dispatch's label.
    pub label: Arc<str>,
    /// When it may have begun.
    pub start: Duration,
    /// When it had ended.
    pub end: Duration,
}

/// Proof that a submission completed: the key to its results.
#[derive(Debug)]
pub struct Done {
    device: Arc<DeviceShared>,
    timings: Vec<Timing>,
}

/// A wait that did not end in completion. Holds the submission when the work still goes on.
pub struct StillRunning {
    /// Why the wait ended.
    pub error: Error,
    /// The submission, if it is still in flight.
    pub submission: Option<Submission>,
}

impl From<StillRunning> for Error {
    fn from(unfinished: StillRunning) -> Self {
        unfinished.error
    }
}

impl std::fmt::Debug for StillRunning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StillRunning").field("error", &self.error).finish_non_exhaustive()
    }
}

impl std::fmt::Display for StillRunning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for StillRunning {}

impl std::fmt::Debug for Submission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Submission(#{} of {:?})", self.serial, self.pass)
    }
}

impl Submission {
    pub(super) fn new(pass: Pass, serial: u64) -> Self {
        Submission { pass: Some(pass), serial }
    }

    /// Whether it has completed, without waiting.
    pub fn is_done(&mut self) -> Result<bool> {
        match &mut self.pass {
            Some(pass) => pass.device.note(pass.backend.wait(Duration::ZERO)),
            None => Ok(true),
        }
    }

    /// Asks for an early end; [`Self::wait`] then returns [`Error::Cancelled`]. The CPU backend stops
    /// at the next unit of work; a GPU finishes the submission.
    pub fn cancel(&self) {
        if let Some(pass) = &self.pass {
            pass.backend.cancel();
        }
    }

    /// Waits until it completes, at most `timeout`. On success gives the pass back, to be submitted
    /// again, and the proof that opens its results. After a timeout the error holds the submission.
    #[allow(clippy::result_large_err)] // The error gives the submission back, by value.
    pub fn wait(mut self, timeout: Duration) -> Result<(Pass, Done), StillRunning> {
        let Some(mut pass) = self.pass.take() else {
            return Err(StillRunning { error: Error::Cancelled, submission: None });
        };
        let device = pass.device.clone();
        match device.note(pass.backend.wait(timeout)) {
            Ok(false) => {
                self.pass = Some(pass);
                let error = Error::Timeout { waited: timeout };
                Err(StillRunning { error, submission: Some(self) })
            }
            Ok(true) => {
                device.complete(self.serial);
                match timings(&mut pass) {
                    Ok(timings) => Ok((pass, Done { device, timings })),
                    Err(error) => Err(StillRunning { error, submission: None }),
                }
            }
            Err(error) => {
                device.complete(self.serial);
                Err(StillRunning { error, submission: None })
            }
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        let Some(mut pass) = self.pass.take() else { return };
        pass.backend.cancel();
        let started = Instant::now();
        let ended = loop {
            match pass.backend.wait(DROP_PATIENCE.saturating_sub(started.elapsed())) {
                Ok(false) if started.elapsed() < DROP_PATIENCE => {}
                Ok(ended) => break ended,
                // Failed or lost: the device no longer runs it.
                Err(_) => break true,
            }
        };
        if ended {
            pass.device.complete(self.serial);
        } else {
            std::mem::forget(pass);
        }
    }
}

/// Puts labels on the backend's times.
fn timings(pass: &mut Pass) -> Result<Vec<Timing>> {
    let Some(times) = pass.backend.timings()? else { return Ok(Vec::new()) };
    let labels = pass.record.commands.iter().filter_map(|command| match command {
        Command::Dispatch(dispatch) => Some(dispatch.label.clone()),
        _ => None,
    });
    Ok(labels
        .zip(times)
        .map(|(label, time)| Timing { label, start: time.start, end: time.end })
        .collect())
}

impl Done {
    pub(crate) fn idle(device: Arc<DeviceShared>) -> Self {
        Done { device, timings: Vec::new() }
    }

    /// Per-dispatch times, if the session asked for them.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Copies a buffer's elements to the host. Refused if a later submission writes it now.
    pub fn read<T: Element>(&self, buffer: &Buffer) -> Result<Vec<T>> {
        if buffer.dtype() != T::DTYPE {
            return Err(Error::TypeMismatch {
                buffer: buffer.name().to_string(),
                reason: format!("holds {}, asked for {}", buffer.dtype(), T::DTYPE),
            });
        }
        let mut out = vec![T::zeroed(); buffer.elements()];
        self.read_into(&buffer.read(), bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }

    /// Copies a span's bytes to the host; `out` must be exactly as long.
    pub fn read_into(&self, span: &ReadSpan, out: &mut [u8]) -> Result<()> {
        let allocation = &span.0.allocation;
        self.owns(allocation)?;
        if out.len() as u64 != span.len() {
            return Err(Error::OutOfBounds {
                buffer: allocation.name().to_string(),
                start: span.start(),
                end: span.start().saturating_add(out.len() as u64),
                len: span.0.end,
            });
        }
        self.device.check()?;
        let _host = allocation.begin_host(false)?;
        if out.is_empty() {
            return Ok(());
        }
        self.device.note(self.device.backend().download(allocation.backend(), span.start(), out))
    }

    /// The buffer's elements in place, where the host can see them.
    pub fn map<T: Element>(&self, buffer: &Buffer) -> Result<MappedRead<T>> {
        self.owns(&buffer.allocation)?;
        self.device.check()?;
        buffer.map_read()
    }

    fn owns(&self, allocation: &crate::memory::Allocation) -> Result<()> {
        if allocation.device().number() != self.device.number() {
            return Err(Error::ForeignDevice {
                what: format!("buffer {}", allocation.name()),
                owner: allocation.device().describe(),
                device: self.device.describe(),
            });
        }
        Ok(())
    }
}
