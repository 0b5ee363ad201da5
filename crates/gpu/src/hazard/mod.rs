//! Ordering between dispatches of one pass: who touches which bytes, and which pairs nothing orders.
//! Pure functions over numbers: it must not know devices, kernels or buffers.
//!
//! Model. A pass is a list of dispatches and barriers. Two dispatches *conflict* when they touch an
//! overlapping byte range of one allocation and at least one writes there. Between two barriers
//! dispatches run concurrently, so a conflicting pair must have a barrier between them:
//! a full one, or a ranged one that covers every conflicting byte.
//!
//! | earlier | later | full barrier | in `reads` of a ranged one | in `writes` of a ranged one |
//! |---------|-------|--------------|----------------------------|-----------------------------|
//! | write   | read  | ordered      | ordered                    | ordered                     |
//! | read    | write | ordered      | still a hazard             | ordered                     |
//! | write   | write | ordered      | still a hazard             | ordered                     |

mod epochs;
mod tracker;

pub use epochs::{Epoch, Item, epochs};
pub use tracker::{Conflict, Tracker};

/// Identity of one allocation. Views of it share the identity; the byte range tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryId(pub u64);

/// Half-open byte range of one allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// Which allocation.
    pub memory: MemoryId,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Region {
    /// The bytes both regions hold, if any.
    pub fn overlap(&self, other: &Region) -> Option<(u64, u64)> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (self.memory == other.memory && start < end).then_some((start, end))
    }
}

/// Whether an access reads or writes. An in-place update is one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// The bytes are read.
    Read,
    /// The bytes are written.
    Write,
}

/// One dispatch's use of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// The bytes.
    pub region: Region,
    /// Read or write.
    pub kind: AccessKind,
}

/// The three ways in which concurrent dispatches can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HazardKind {
    /// A consumer may run before its producer.
    ReadAfterWrite,
    /// A writer may overwrite what an earlier reader has yet to read.
    WriteAfterRead,
    /// The earlier of two writers may land last.
    WriteAfterWrite,
}

impl HazardKind {
    /// The hazard that an earlier and a later access of common bytes form, if they form one.
    pub fn between(earlier: AccessKind, later: AccessKind) -> Option<HazardKind> {
        match (earlier, later) {
            (AccessKind::Write, AccessKind::Read) => Some(HazardKind::ReadAfterWrite),
            (AccessKind::Read, AccessKind::Write) => Some(HazardKind::WriteAfterRead),
            (AccessKind::Write, AccessKind::Write) => Some(HazardKind::WriteAfterWrite),
            (AccessKind::Read, AccessKind::Read) => None,
        }
    }
}

impl std::fmt::Display for HazardKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HazardKind::ReadAfterWrite => "read-after-write",
            HazardKind::WriteAfterRead => "write-after-read",
            HazardKind::WriteAfterWrite => "write-after-write",
        })
    }
}

/// An unordered pair, in the caller's own names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} hazard on buffer {buffer} bytes {start}..{end}: dispatch {later} is not ordered after \
     dispatch {earlier}; record a barrier between them, or use Ordering::Automatic"
)]
pub struct Hazard {
    /// Which kind.
    pub kind: HazardKind,
    /// Label of the dispatch recorded first.
    pub earlier: String,
    /// Label of the dispatch recorded later.
    pub later: String,
    /// Name of the buffer as the later dispatch knows it.
    pub buffer: String,
    /// First conflicting byte, in the allocation.
    pub start: u64,
    /// One past the last conflicting byte.
    pub end: u64,
}
