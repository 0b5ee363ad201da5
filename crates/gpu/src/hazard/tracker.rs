//! The running state of one pass: what was touched and is not yet ordered.
//! It must not know names; it speaks of dispatches by number.

use std::collections::HashMap;

use super::{Access, AccessKind, HazardKind, MemoryId, Region};

/// An access that conflicts with an earlier dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// Which kind of hazard.
    pub kind: HazardKind,
    /// Number of the earlier dispatch.
    pub earlier: usize,
    /// Position of the conflicting access in the list that was given.
    pub access: usize,
    /// The conflicting bytes.
    pub region: Region,
}

/// An earlier access that later ones may still collide with.
#[derive(Debug, Clone, Copy)]
struct Touch {
    dispatch: usize,
    start: u64,
    end: u64,
    kind: AccessKind,
    /// A write that a ranged barrier has made visible to later reads (but not ordered before writes).
    readable: bool,
}

impl Touch {
    fn hazard_with(&self, later: AccessKind) -> Option<HazardKind> {
        if self.readable && later == AccessKind::Read {
            return None;
        }
        HazardKind::between(self.kind, later)
    }
}

/// Everything recorded since it was last ordered.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    touched: HashMap<MemoryId, Vec<Touch>>,
}

impl Tracker {
    /// A tracker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first access in `accesses` that nothing orders after an earlier dispatch's, if any;
    /// of several earlier dispatches, the latest is named.
    pub fn conflict(&self, accesses: &[Access]) -> Option<Conflict> {
        accesses.iter().enumerate().find_map(|(index, access)| {
            let touched = self.touched.get(&access.region.memory)?;
            touched.iter().rev().find_map(|touch| {
                let kind = touch.hazard_with(access.kind)?;
                let start = touch.start.max(access.region.start);
                let end = touch.end.min(access.region.end);
                (start < end).then_some(Conflict {
                    kind,
                    earlier: touch.dispatch,
                    access: index,
                    region: Region { memory: access.region.memory, start, end },
                })
            })
        })
    }

    /// Adds a dispatch's accesses. Conflicts are the caller's to look for, with [`Self::conflict`].
    pub fn record(&mut self, dispatch: usize, accesses: &[Access]) {
        for access in accesses {
            let Region { memory, start, end } = access.region;
            if start < end {
                let touch = Touch { dispatch, start, end, kind: access.kind, readable: false };
                self.touched.entry(memory).or_default().push(touch);
            }
        }
    }

    /// A full barrier: everything before is ordered before everything after.
    pub fn barrier(&mut self) {
        self.touched.clear();
    }

    /// A ranged barrier: later reads of `reads` see every earlier write there; later accesses of
    /// `writes` come after every earlier access there.
    pub fn barrier_between(&mut self, reads: &[Region], writes: &[Region]) {
        for region in writes {
            self.split(region, |_| None);
        }
        for region in reads {
            self.split(region, |touch| match touch.kind {
                AccessKind::Write => Some(Touch { readable: true, ..touch }),
                AccessKind::Read => Some(touch),
            });
        }
    }

    /// Replaces the part of each touch inside `region` by what `inside` makes of it.
    fn split(&mut self, region: &Region, inside: impl Fn(Touch) -> Option<Touch>) {
        let Some(touched) = self.touched.get_mut(&region.memory) else { return };
        let mut kept = Vec::with_capacity(touched.len());
        for touch in touched.drain(..) {
            let (start, end) = (touch.start.max(region.start), touch.end.min(region.end));
            if start >= end {
                kept.push(touch);
                continue;
            }
            if touch.start < start {
                kept.push(Touch { end: start, ..touch });
            }
            kept.extend(inside(Touch { start, end, ..touch }));
            if end < touch.end {
                kept.push(Touch { start: end, ..touch });
            }
        }
        *touched = kept;
    }
}
