//! The hazard module against a brute-force oracle that looks at every byte of every pair, and
//! automatic ordering against every possible placement of barriers.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tintype_gpu::hazard::{Access, AccessKind, Item, MemoryId, Region, Tracker, epochs};

/// Bytes of an allocation in the generated passes: few, so that ranges collide often.
const BYTES: u64 = 10;

fn region() -> impl Strategy<Value = Region> {
    (0..3u64, 0..BYTES, 0..BYTES).prop_map(|(memory, a, b)| Region {
        memory: MemoryId(memory),
        start: a.min(b),
        end: a.max(b) + 1,
    })
}

fn access() -> impl Strategy<Value = Access> {
    (region(), prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write)])
        .prop_map(|(region, kind)| Access { region, kind })
}

fn dispatch() -> impl Strategy<Value = Item> {
    prop::collection::vec(access(), 0..4).prop_map(Item::Dispatch)
}

fn item() -> impl Strategy<Value = Item> {
    let ranged = (prop::collection::vec(region(), 0..3), prop::collection::vec(region(), 0..3))
        .prop_map(|(reads, writes)| Item::BarrierBetween { reads, writes });
    prop_oneof![6 => dispatch(), 1 => Just(Item::Barrier), 2 => ranged]
}

fn holds(regions: &[Region], memory: MemoryId, byte: u64) -> bool {
    regions.iter().any(|r| r.memory == memory && (r.start..r.end).contains(&byte))
}

/// Whether some byte conflicts between two dispatches: (at all, without anything that orders it).
fn pair(first: &[Access], second: &[Access], between: &[Item]) -> (bool, bool) {
    let (mut conflicts, mut unordered) = (false, false);
    for a in first {
        for b in second {
            if a.kind == AccessKind::Read && b.kind == AccessKind::Read {
                continue;
            }
            for byte in 0..BYTES + 1 {
                if !holds(&[a.region], b.region.memory, byte)
                    || !holds(&[b.region], a.region.memory, byte)
                {
                    continue;
                }
                conflicts = true;
                let reads_after_write = a.kind == AccessKind::Write && b.kind == AccessKind::Read;
                let ordered = between.iter().any(|item| match item {
                    Item::Dispatch(_) => false,
                    Item::Barrier => true,
                    Item::BarrierBetween { reads, writes } => {
                        holds(writes, a.region.memory, byte)
                            || (reads_after_write && holds(reads, a.region.memory, byte))
                    }
                });
                unordered |= !ordered;
            }
        }
    }
    (conflicts, unordered)
}

/// Every pair of dispatches by number: (earlier, later, conflicts, unordered).
fn pairs(items: &[Item]) -> Vec<(usize, usize, bool, bool)> {
    let dispatches: Vec<(usize, &Vec<Access>)> = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| match item {
            Item::Dispatch(accesses) => Some((at, accesses)),
            _ => None,
        })
        .collect();
    let mut out = Vec::new();
    for (later, (at, second)) in dispatches.iter().enumerate() {
        for (earlier, (before, first)) in dispatches[..later].iter().enumerate() {
            let (conflicts, unordered) = pair(first, second, &items[before + 1..*at]);
            out.push((earlier, later, conflicts, unordered));
        }
    }
    out
}

/// Runs the tracker as a checked session does; returns the refused dispatch and whom it named.
fn first_refusal(items: &[Item]) -> Option<(usize, usize)> {
    let mut tracker = Tracker::new();
    let mut number = 0;
    for item in items {
        match item {
            Item::Barrier => tracker.barrier(),
            Item::BarrierBetween { reads, writes } => tracker.barrier_between(reads, writes),
            Item::Dispatch(accesses) => {
                if let Some(conflict) = tracker.conflict(accesses) {
                    return Some((conflict.earlier, number));
                }
                tracker.record(number, accesses);
                number += 1;
            }
        }
    }
    None
}

/// Barriers that automatic ordering inserts.
fn automatic(dispatches: &[Item]) -> usize {
    let mut tracker = Tracker::new();
    let mut barriers = 0;
    for (number, item) in dispatches.iter().enumerate() {
        let Item::Dispatch(accesses) = item else { continue };
        if tracker.conflict(accesses).is_some() {
            tracker.barrier();
            barriers += 1;
        }
        tracker.record(number, accesses);
    }
    barriers
}

/// The fewest barriers that leave no hazard, over every placement.
fn fewest(dispatches: &[Item]) -> usize {
    let gaps = dispatches.len().saturating_sub(1);
    (0..1u32 << gaps)
        .filter(|mask| {
            let mut items = Vec::new();
            for (at, item) in dispatches.iter().enumerate() {
                items.push(item.clone());
                if mask & (1 << at) != 0 {
                    items.push(Item::Barrier);
                }
            }
            pairs(&items).iter().all(|(_, _, _, unordered)| !unordered)
        })
        .map(u32::count_ones)
        .min()
        .unwrap_or(0) as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_checker_refuses_exactly_the_first_unordered_dispatch(
        items in prop::collection::vec(item(), 0..12),
    ) {
        let unordered: Vec<_> = pairs(&items).into_iter().filter(|pair| pair.3).collect();
        let first = unordered.iter().map(|pair| pair.1).min();
        match first_refusal(&items) {
            None => prop_assert_eq!(first, None),
            Some((earlier, later)) => {
                prop_assert_eq!(first, Some(later));
                prop_assert!(unordered.iter().any(|pair| (pair.0, pair.1) == (earlier, later)));
            }
        }
    }

    #[test]
    fn epochs_sort_every_conflicting_pair(items in prop::collection::vec(item(), 0..12)) {
        let found = epochs(&items);
        for (earlier, later, conflicts, unordered) in pairs(&items) {
            let epoch = found.iter().find(|e| e.dispatches.contains(&earlier)).unwrap();
            let together = epoch.dispatches.contains(&later);
            prop_assert_eq!(epoch.races.contains(&(earlier, later)), unordered);
            prop_assert_eq!(
                epoch.ordered.contains(&(earlier, later)),
                together && conflicts && !unordered
            );
        }
        for epoch in &found {
            let levels = epoch.levels();
            let place = |d: usize| levels.iter().position(|level| level.contains(&d)).unwrap();
            for &(earlier, later) in epoch.ordered.iter().chain(&epoch.races) {
                prop_assert!(place(earlier) < place(later));
            }
            prop_assert_eq!(levels.iter().map(Vec::len).sum::<usize>(), epoch.dispatches.len());
        }
    }

    #[test]
    fn automatic_ordering_uses_the_fewest_barriers(
        dispatches in prop::collection::vec(dispatch(), 0..8),
    ) {
        prop_assert_eq!(automatic(&dispatches), fewest(&dispatches));
    }
}

#[test]
fn a_range_that_covers_part_of_a_conflict_does_not_order_it() {
    let at = |start, end| Region { memory: MemoryId(0), start, end };
    let write = Access { region: at(0, 8), kind: AccessKind::Write };
    let read = Access { region: at(0, 8), kind: AccessKind::Read };
    let items = |reads| {
        [
            Item::Dispatch(vec![write]),
            Item::BarrierBetween { reads, writes: vec![] },
            Item::Dispatch(vec![read]),
        ]
    };
    assert_eq!(first_refusal(&items(vec![at(0, 8)])), None);
    assert_eq!(first_refusal(&items(vec![at(0, 4), at(4, 8)])), None);
    assert_eq!(first_refusal(&items(vec![at(0, 7)])), Some((0, 1)));
    assert_eq!(first_refusal(&items(vec![at(1, 8)])), Some((0, 1)));
}
