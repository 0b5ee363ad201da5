//! Submissions, and copies between host and device memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::encoder::Prepared;
use super::gpu::Gpu;
use super::memory::{MetalMemory, SharedBuffer, own};
use super::signal::{Outcome, Signal};
use crate::backend::{BackendMemory, BackendPass, Command, DispatchTime, EncodeOptions, Placement};
use crate::error::{Error, Result};

/// Bytes of a staging buffer: copies larger than it go in pieces.
const STAGING: u64 = 32 << 20;
/// Copies between buffers begin and end at multiples of this many bytes on macOS.
const COPY_UNIT: u64 = 4;
/// How long a copy may take before the device is called lost.
const COPY_PATIENCE: Duration = Duration::from_secs(60);
/// Kernels an error names at most.
const MOST_NAMED: usize = 8;

/// A prepared pass and its last submission.
pub(super) struct MetalPass {
    prepared: Prepared,
    label: String,
    running: Option<Arc<Signal>>,
    kernels: String,
    bytes: u64,
    gpu: Arc<Gpu>,
}

impl MetalPass {
    pub(super) fn encode(
        gpu: &Arc<Gpu>,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Self> {
        let (kernels, bytes) = summary(commands);
        Ok(MetalPass {
            prepared: Prepared::new(commands)?,
            label: options.label.clone(),
            running: None,
            kernels,
            bytes,
            gpu: gpu.clone(),
        })
    }
}

/// The kernels of a pass in words, and the bytes of memory it uses: for errors.
fn summary(commands: &[Command]) -> (String, u64) {
    let (mut names, mut seen, mut bytes) = (BTreeSet::new(), BTreeSet::new(), 0u64);
    for command in commands {
        let Command::Dispatch(dispatch) = command else { continue };
        names.insert(dispatch.kernel.name());
        for bound in &dispatch.bindings {
            if seen.insert(bound.memory.id.0) {
                bytes = bytes.saturating_add(bound.memory.len);
            }
        }
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    let named: Vec<_> = names.iter().copied().take(MOST_NAMED).collect();
    let kernels = match (named.as_slice(), more) {
        ([], _) => "(none)".into(),
        ([one], _) => (*one).into(),
        (several, 0) => format!("one of {}", several.join(", ")),
        (several, more) => format!("one of {} and {more} more", several.join(", ")),
    };
    (kernels, bytes)
}

impl BackendPass for MetalPass {
    fn submit(&mut self) -> Result<()> {
        self.running =
            Some(self.gpu.run(&self.label, |recording| self.prepared.encode(recording))?);
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let Some(running) = &self.running else { return Ok(true) };
        match self.gpu.wait(running, timeout) {
            None => Ok(false),
            Some(Outcome::Completed) => Ok(true),
            Some(Outcome::Failed { code, reason }) => {
                Err(self.gpu.failed(code, reason, &self.kernels, self.bytes))
            }
        }
    }

    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>> {
        // The device's features say so, and sessions that ask for them are refused.
        Ok(None)
    }
}

/// Copies between two buffers and waits. Offsets and length are multiples of `COPY_UNIT`.
fn copy(
    gpu: &Arc<Gpu>,
    from: (&SharedBuffer, u64),
    to: (&SharedBuffer, u64),
    bytes: u64,
) -> Result<()> {
    let signal = gpu.run("copy", |recording| {
        let encoder = recording.blit()?;
        encoder.copy(from, to, bytes);
        encoder.finish();
        Ok(())
    })?;
    match signal.wait(COPY_PATIENCE) {
        Some(Outcome::Completed) => Ok(()),
        Some(Outcome::Failed { code, reason }) => Err(gpu.failed(code, reason, "copy", bytes)),
        None => {
            // It may still run: queue and fence stay for ever rather than go under it.
            std::mem::forget(gpu.clone());
            Err(Error::DeviceLost {
                device: gpu.info().name.clone(),
                reason: format!("a copy did not end within {COPY_PATIENCE:?}"),
            })
        }
    }
}

/// One staged piece: the whole units around bytes `at .. at + len`.
struct Piece {
    start: u64,
    end: u64,
    /// Bytes before the piece's own in its first unit.
    lead: usize,
}

impl Piece {
    fn around(at: u64, len: usize) -> Piece {
        let start = at / COPY_UNIT * COPY_UNIT;
        // Allocations are whole units, so this stays inside.
        let end = (at + len as u64).next_multiple_of(COPY_UNIT);
        Piece { start, end, lead: (at - start) as usize }
    }

    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    fn is_exact(&self, len: usize) -> bool {
        self.bytes() == len as u64
    }
}

/// Copies host bytes into `memory`: directly where the host sees it, else in staged pieces.
pub(super) fn upload(
    gpu: &Arc<Gpu>,
    memory: &dyn BackendMemory,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let target = own(memory)?;
    if let Some(pointer) = target.host_pointer() {
        // SAFETY: the front checked range and exclusive use; shared memory is coherent, and the
        // device sees it from the next command buffer on.
        unsafe {
            let pointer = pointer.add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len());
        }
        return Ok(());
    }
    let (staging, pointer) = stage(gpu, bytes.len() as u64)?;
    let mut at = offset;
    for part in bytes.chunks(STAGING as usize) {
        let piece = Piece::around(at, part.len());
        if !piece.is_exact(part.len()) {
            // Neighbours in the first and last unit keep their values; the front lets nothing else
            // use the allocation meanwhile.
            copy(gpu, (target.buffer(), piece.start), (staging.buffer(), 0), piece.bytes())?;
        }
        // SAFETY: the staging buffer holds a piece and no copy from it is under way.
        unsafe {
            std::ptr::copy_nonoverlapping(part.as_ptr(), pointer.add(piece.lead), part.len());
        }
        copy(gpu, (staging.buffer(), 0), (target.buffer(), piece.start), piece.bytes())?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Copies bytes of `memory` to the host, likewise.
pub(super) fn download(
    gpu: &Arc<Gpu>,
    memory: &dyn BackendMemory,
    offset: u64,
    bytes: &mut [u8],
) -> Result<()> {
    let source = own(memory)?;
    if let Some(pointer) = source.host_pointer() {
        // SAFETY: the front checked the range and that nothing writes it; what completed command
        // buffers wrote to shared memory is visible.
        unsafe {
            let pointer = pointer.add(offset as usize);
            std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len());
        }
        return Ok(());
    }
    let (staging, pointer) = stage(gpu, bytes.len() as u64)?;
    let mut at = offset;
    for part in bytes.chunks_mut(STAGING as usize) {
        let piece = Piece::around(at, part.len());
        copy(gpu, (source.buffer(), piece.start), (staging.buffer(), 0), piece.bytes())?;
        // SAFETY: the copy into the staging buffer has ended, and it holds the whole piece.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer.add(piece.lead), part.as_mut_ptr(), part.len());
        }
        at += part.len() as u64;
    }
    Ok(())
}

/// A staging buffer for pieces of `bytes`, with room for the units at both ends.
fn stage(gpu: &Arc<Gpu>, bytes: u64) -> Result<(MetalMemory, *mut u8)> {
    let room = (bytes.min(STAGING) + 2 * COPY_UNIT).next_multiple_of(COPY_UNIT);
    let staging = MetalMemory::allocate(gpu, room, Placement::Host)?;
    match staging.host_pointer() {
        Some(pointer) => Ok((staging, pointer)),
        None => Err(super::nil("contents")),
    }
}
