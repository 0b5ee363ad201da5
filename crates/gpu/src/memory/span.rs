//! Checked byte spans: a span carries its allocation, start and end. Reads and writes are different
//! types, so a kernel argument that is written cannot be given a span meant for reading.

use std::sync::Arc;

use super::allocation::Allocation;
use crate::hazard::{MemoryId, Region};

/// Bytes `start..end` of an allocation, known to lie inside it.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) fn region(&self) -> Region {
        Region { memory: self.allocation.id, start: self.start, end: self.end }
    }
}

/// A span that will be read.
#[derive(Clone)]
pub struct ReadSpan(pub(crate) Span);

/// A span that will be written, or updated in place.
#[derive(Clone)]
pub struct WriteSpan(pub(crate) Span);

/// A span of either kind, as a dispatch binds it.
#[derive(Clone)]
pub enum Binding {
    /// Bound to a slot that the kernel only reads.
    Read(ReadSpan),
    /// Bound to a slot that the kernel writes.
    Write(WriteSpan),
}

impl Binding {
    pub(crate) fn span(&self) -> &Span {
        match self {
            Binding::Read(span) => &span.0,
            Binding::Write(span) => &span.0,
        }
    }
}

impl From<ReadSpan> for Binding {
    fn from(span: ReadSpan) -> Self {
        Binding::Read(span)
    }
}

impl From<WriteSpan> for Binding {
    fn from(span: WriteSpan) -> Self {
        Binding::Write(span)
    }
}

macro_rules! span_facts {
    ($($name:ident),*) => { $(
        impl $name {
            /// Start in the allocation, in bytes.
            pub fn start(&self) -> u64 {
                self.0.start
            }

            /// Length in bytes.
            #[allow(clippy::len_without_is_empty)]
            pub fn len(&self) -> u64 {
                self.0.end - self.0.start
            }

            /// Identity of the allocation.
            pub fn memory_id(&self) -> MemoryId {
                self.0.allocation.id
            }

            /// Bytes between the aligned start of the binding and the start of the span, on the
            /// span's device: what a kernel adds to its index, divided by the element size.
            pub fn binding_remainder(&self) -> u64 {
                self.0.start % self.0.allocation.device().info().limits.binding_alignment.max(1)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({} {}..{})"),
                    self.0.allocation.name(), self.0.start, self.0.end)
            }
        }
    )* };
}
span_facts!(ReadSpan, WriteSpan);
