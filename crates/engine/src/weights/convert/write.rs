//! Writing a planned file: header, then every tensor chunk by chunk, under a temporary name until
//! it is whole. It must not decide types.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::super::error::{Reason, Result, WeightError};
use super::super::tensor::CHUNK;
use super::super::{Weights, gguf, safetensors};
use super::plan::{Item, Plan};
use super::verify::{Check, verify};
use super::{Recipe, Target, metadata};
use crate::DType;
use crate::quant::{self, QuantError};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Tensors are converted and written.
    Writing,
    /// The file is read back.
    Verifying,
}

/// How far a conversion is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What is being done.
    pub phase: Phase,
    /// The tensor at hand.
    pub tensor: &'a str,
    /// Bytes of the new file that are done, of the phase.
    pub done: u64,
    /// Bytes of the new file's tensors.
    pub total: u64,
}

/// What a conversion did.
#[derive(Debug)]
pub struct Report {
    /// Bytes of the new file.
    pub bytes: u64,
    /// Metadata keys that the new format cannot hold.
    pub left_out: Vec<String>,
    /// How every converted tensor compares with its source, if that was asked for.
    pub checks: Vec<Check>,
}

/// Called between chunks; `Break` stops the conversion and removes what was written.
pub type Watch<'f> = &'f mut dyn FnMut(Progress<'_>) -> ControlFlow<()>;

/// Writes `plan` to `file`, which appears when it is complete (and verified, if the recipe says
/// so) and replaces a file of that name in one step.
pub fn convert(
    weights: &Weights,
    plan: &Plan<'_>,
    recipe: &Recipe,
    file: &Path,
    watch: Watch<'_>,
) -> Result<Report> {
    let io = |error: std::io::Error| WeightError::new(file, error);
    let shapes: Vec<_> =
        plan.items.iter().map(|i| (i.tensor.name(), i.dtype, i.tensor.shape())).collect();
    let (header, left_out) = match plan.target {
        Target::Gguf => {
            let pairs = metadata::for_gguf(weights, plan, recipe);
            (gguf::header(&pairs, &shapes), Vec::new())
        }
        Target::Safetensors => {
            let (pairs, left_out) = metadata::for_safetensors(weights);
            (safetensors::header(&pairs, &shapes), left_out)
        }
    };
    let (header, starts, bytes) = header.ok_or_else(|| {
        let what = format!("these tensors do not fit a {} file", plan.target.name());
        WeightError::new(file, Reason::Unsupported(what))
    })?;
    let mut temporary = temporary(file)?;
    let mut out = Out { to: BufWriter::with_capacity(1 << 20, temporary.as_file_mut()), at: 0 };
    out.put(&header).map_err(io)?;
    let total = plan.items.iter().map(Item::byte_len).sum();
    let mut done = 0;
    let mut hashes = Vec::with_capacity(plan.items.len());
    for (item, start) in plan.items.iter().zip(&starts) {
        out.pad_to(*start).map_err(io)?;
        let mut hasher = DefaultHasher::new();
        write_item(item, &mut |bytes| {
            hasher.write(bytes);
            out.put(bytes).map_err(io)?;
            done += bytes.len() as u64;
            let progress =
                Progress { phase: Phase::Writing, tensor: item.tensor.name(), done, total };
            go_on(watch(progress), file)
        })?;
        hashes.push(hasher.finish());
    }
    out.pad_to(bytes).map_err(io)?;
    out.to.flush().map_err(io)?;
    drop(out);
    let checks = if recipe.verify {
        verify(temporary.path(), plan, &hashes, file, watch)?
    } else {
        Vec::new()
    };
    temporary.as_file().sync_all().map_err(io)?;
    temporary.persist(file).map_err(|e| io(e.error))?;
    Ok(Report { bytes, left_out, checks })
}

/// A file beside `file` that is removed when it is dropped. Others may read it, as far as the
/// user's mask allows. Its name says what it is, since a process that is killed leaves it behind.
fn temporary(file: &Path) -> Result<NamedTempFile> {
    // Renaming onto a folder would fail too, but only after all the work.
    let Some(name) = file.file_name().filter(|_| !file.is_dir()) else {
        return Err(WeightError::new(file, Reason::NotAFile));
    };
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = OsString::from(".");
    prefix.push(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| {
        // The folder is at fault, not the name in it that nobody asked for.
        let text = error.to_string();
        let text = text.split(" at path ").next().unwrap_or_default();
        WeightError::new(folder, std::io::Error::new(error.kind(), text))
    })
}

pub(super) fn go_on(flow: ControlFlow<()>, file: &Path) -> Result<()> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(WeightError::new(file, Reason::Cancelled)),
    }
}

struct Out<'a> {
    to: BufWriter<&'a mut File>,
    at: u64,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    /// Zeros up to a place; the planner never places anything before it.
    fn pad_to(&mut self, place: u64) -> std::io::Result<()> {
        let zeros = [0; 256];
        while self.at < place {
            self.put(&zeros[..(place - self.at).min(256) as usize])?;
        }
        Ok(())
    }
}

/// Blocks that are copied at a time: some 4 MiB.
pub(super) fn copied_blocks(dtype: DType) -> usize {
    4 * CHUNK / dtype.block_bytes() as usize
}

/// Hands the bytes of one item to `put`, in order.
fn write_item(item: &Item<'_>, put: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (tensor, dtype) = (item.tensor, item.dtype);
    if item.is_copy() {
        return tensor.for_each_part(copied_blocks(dtype), put);
    }
    let block = dtype.block_elements() as usize;
    // Chunks of the source end on its blocks; rows fill whole blocks of both types, and the
    // chunk is a multiple of every block size.
    let mut encoded = Vec::new();
    tensor.for_each_chunk(CHUNK, |first, values| {
        encoded.resize(values.len() / block * dtype.block_bytes() as usize, 0);
        // Pieces for the threads: whole blocks, some 16 000 values.
        let blocks = (16_384 / block).max(1);
        encoded
            .par_chunks_mut(blocks * dtype.block_bytes() as usize)
            .zip(values.par_chunks(blocks * block))
            .enumerate()
            .try_for_each(|(piece, (out, values))| {
                let start = first + (piece * blocks * block) as u64;
                quant::encode(dtype, values, out).map_err(|error| tensor.fail(moved(error, start)))
            })?;
        put(&encoded)
    })
}

/// An error of a chunk, its index counted from the start of the tensor.
fn moved(error: QuantError, start: u64) -> QuantError {
    let start = start as usize;
    match error {
        QuantError::NotFinite { at, value } => QuantError::NotFinite { at: start + at, value },
        QuantError::TooLarge { at, value, dtype } => {
            QuantError::TooLarge { at: start + at, value, dtype }
        }
        other => other,
    }
}
