//! A recorded pass cut into epochs: what may run together, what is ordered inside an epoch by
//! ranged barriers, and which conflicting pairs nothing orders. Executors schedule from this.

use super::{Access, Region, Tracker};

/// One step of a pass, as the hazard model sees it.
#[derive(Debug, Clone)]
pub enum Item {
    /// A dispatch and what it touches.
    Dispatch(Vec<Access>),
    /// A full barrier.
    Barrier,
    /// A ranged barrier.
    BarrierBetween {
        /// Later reads here see earlier writes.
        reads: Vec<Region>,
        /// Later accesses here come after earlier ones.
        writes: Vec<Region>,
    },
}

/// The dispatches between two full barriers. Numbers are positions among the pass's dispatches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Dispatches, in recorded order.
    pub dispatches: Vec<usize>,
    /// Conflicting pairs (earlier, later) that a ranged barrier orders.
    pub ordered: Vec<(usize, usize)>,
    /// Conflicting pairs (earlier, later) that nothing orders: hazards.
    pub races: Vec<(usize, usize)>,
}

impl Epoch {
    /// Groups of dispatches, each group free of conflicts, in an order that respects every pair as
    /// recorded (races included): the order in which the program reads.
    pub fn levels(&self) -> Vec<Vec<usize>> {
        let mut level_of = std::collections::HashMap::new();
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for &dispatch in &self.dispatches {
            let level = self
                .ordered
                .iter()
                .chain(&self.races)
                .filter(|(_, later)| *later == dispatch)
                .filter_map(|(earlier, _)| level_of.get(earlier))
                .map(|level| level + 1)
                .max()
                .unwrap_or(0);
            level_of.insert(dispatch, level);
            if levels.len() <= level {
                levels.resize_with(level + 1, Vec::new);
            }
            levels[level].push(dispatch);
        }
        levels
    }
}

/// Cuts `items` at full barriers and classifies every conflicting pair inside each epoch.
/// Empty epochs are left out.
pub fn epochs(items: &[Item]) -> Vec<Epoch> {
    let mut out = Vec::new();
    let mut number = 0;
    for part in items.split(|item| matches!(item, Item::Barrier)) {
        let mut epoch = Epoch::default();
        let quiet = !any_conflict(part);
        for (at, item) in part.iter().enumerate() {
            let Item::Dispatch(accesses) = item else { continue };
            epoch.dispatches.push(number);
            if !quiet {
                classify(part, at, accesses, number, &mut epoch);
            }
            number += 1;
        }
        if !epoch.dispatches.is_empty() {
            out.push(epoch);
        }
    }
    out
}

/// Whether any two dispatches of `part` conflict, ranged barriers ignored. Linear where `classify`
/// is quadratic, and the usual answer is no.
fn any_conflict(part: &[Item]) -> bool {
    let mut tracker = Tracker::new();
    part.iter().any(|item| {
        let Item::Dispatch(accesses) = item else { return false };
        let found = tracker.conflict(accesses).is_some();
        tracker.record(0, accesses);
        found
    })
}

/// Adds to `epoch` every conflict between the dispatch at `at` (number `later`) and those before it.
fn classify(part: &[Item], at: usize, accesses: &[Access], later: usize, epoch: &mut Epoch) {
    let mut earlier = later;
    for (before, item) in part[..at].iter().enumerate().rev() {
        let Item::Dispatch(first) = item else { continue };
        earlier -= 1;
        let mut pair = Tracker::new();
        pair.record(earlier, first);
        if pair.conflict(accesses).is_none() {
            continue;
        }
        for between in &part[before + 1..at] {
            if let Item::BarrierBetween { reads, writes } = between {
                pair.barrier_between(reads, writes);
            }
        }
        let list =
            if pair.conflict(accesses).is_some() { &mut epoch.races } else { &mut epoch.ordered };
        list.push((earlier, later));
    }
}
