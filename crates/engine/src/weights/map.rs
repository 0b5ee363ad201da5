//! The one place that maps files: read-only, and only where the caller consents to it.
//! It must not know formats.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use tintype_gpu::HostMemory;

use super::error::{Reason, Result, WeightError};

/// How the bytes of a file are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Map the file. The caller consents to this: whoever truncates or rewrites the file in place
    /// while it is open can end the process or change weights in use. Files replaced by renaming,
    /// as every downloader does, are safe.
    Map,
    /// Read the whole file into memory, where nobody can change it.
    Copy,
}

/// A range of a source, which it keeps alive.
struct Part {
    source: Source,
    range: Range<usize>,
}

// SAFETY: the bytes stay where they are as long as `source` lives (a map, a vector that is never
// touched, or static), and nobody writes them: the map is read-only, and that the file is not
// rewritten in place is what the caller of `Access::Map` consented to.
unsafe impl HostMemory for Part {
    fn bytes(&self) -> &[u8] {
        self.source.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

/// The bytes of one file, shared by every tensor in it.
#[derive(Clone)]
pub struct Source(Arc<Inner>);

struct Inner {
    path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    Mapped { map: Mmap, file: File, opened: Metadata },
    Owned(Vec<u8>),
    Static(&'static [u8]),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({}, {} bytes)", self.0.path.display(), self.len())
    }
}

impl Source {
    /// Opens a regular file; anything else (a pipe would block) is refused unopened.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let fail = |reason: Reason| WeightError::new(path, reason);
        if !std::fs::metadata(path).map_err(|e| fail(e.into()))?.is_file() {
            return Err(fail(Reason::NotAFile));
        }
        let bytes = match access {
            Access::Copy => Bytes::Owned(std::fs::read(path).map_err(|e| fail(e.into()))?),
            Access::Map => {
                let file = File::open(path).map_err(|e| fail(e.into()))?;
                let opened = file.metadata().map_err(|e| fail(e.into()))?;
                // SAFETY: the map is read-only and lives as long as every slice of it, because
                // `bytes` borrows from `self`. That nobody truncates or rewrites the file in
                // place is what the caller consented to with `Access::Map`; `check` narrows the
                // window by refusing a file whose length or date has changed.
                let map = unsafe { Mmap::map(&file) }.map_err(|e| fail(e.into()))?;
                Bytes::Mapped { map, file, opened }
            }
        };
        Ok(Self(Arc::new(Inner { path: path.to_owned(), bytes })))
    }

    /// Bytes that are in memory already; `name` stands for a path in errors.
    pub fn from_vec(name: &str, bytes: Vec<u8>) -> Self {
        Self(Arc::new(Inner { path: name.into(), bytes: Bytes::Owned(bytes) }))
    }

    /// Bytes that are part of the program.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Self {
        Self(Arc::new(Inner { path: name.into(), bytes: Bytes::Static(bytes) }))
    }

    /// Where the bytes came from.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Every byte.
    pub fn bytes(&self) -> &[u8] {
        match &self.0.bytes {
            Bytes::Mapped { map, .. } => map,
            Bytes::Owned(bytes) => bytes,
            Bytes::Static(bytes) => bytes,
        }
    }

    /// A range as memory that devices may read in place; `None` if it is not within.
    pub(crate) fn host(&self, range: Range<u64>) -> Option<Arc<dyn HostMemory>> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        self.bytes().get(range.clone())?;
        Some(Arc::new(Part { source: self.clone(), range }))
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Whether both are the same open file.
    pub fn same(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// An error if a mapped file is no longer as it was when it was opened.
    pub fn check(&self) -> Result<()> {
        if let Bytes::Mapped { file, opened, .. } = &self.0.bytes {
            let now = file.metadata().map_err(|e| WeightError::new(self.path(), e))?;
            if now.len() != opened.len() || now.modified().ok() != opened.modified().ok() {
                let reason = Reason::Changed { was: opened.len(), now: now.len() };
                return Err(WeightError::new(self.path(), reason));
            }
        }
        Ok(())
    }
}
