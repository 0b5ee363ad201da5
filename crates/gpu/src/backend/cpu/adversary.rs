//! A hostile order for a pass: everything that the barriers allow and a programmer would not expect.
//! Dispatches that nothing orders run backwards, so a missing barrier is wrong on every run;
//! independent dispatches have their units shuffled into one another. Pure, from a seed.

use crate::hazard::Epoch;

/// One unit of one dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    pub(super) dispatch: usize,
    pub(super) unit: u32,
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough to shuffle.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Every unit of every dispatch once, epoch by epoch. `units[d]` is the size of dispatch `d`.
pub(super) fn hostile_order(epochs: &[Epoch], units: &[u32], seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    let mut order = Vec::new();
    for epoch in epochs {
        for mut group in groups(epoch, &mut random) {
            random.shuffle(&mut group);
            let mut steps: Vec<Step> = group
                .into_iter()
                .flat_map(|dispatch| (0..units[dispatch]).map(move |unit| Step { dispatch, unit }))
                .collect();
            random.shuffle(&mut steps);
            order.extend(steps);
        }
    }
    order
}

/// Cuts an epoch into groups without conflicts inside: pairs that a ranged barrier orders keep
/// their order, racing pairs run in reverse. Where reversing every race would contradict what is
/// ordered, the contradicting race is left to chance.
fn groups(epoch: &Epoch, random: &mut Random) -> Vec<Vec<usize>> {
    let mut left = epoch.dispatches.clone();
    let mut groups = Vec::new();
    while !left.is_empty() {
        let waits = |dispatch: usize, on_races: bool| {
            let ordered = epoch
                .ordered
                .iter()
                .any(|&(before, after)| after == dispatch && left.contains(&before));
            let raced = epoch
                .races
                .iter()
                .any(|&(before, after)| before == dispatch && left.contains(&after));
            ordered || (on_races && raced)
        };
        let mut ready: Vec<usize> = left.iter().copied().filter(|&d| !waits(d, true)).collect();
        if ready.is_empty() {
            // A cycle: free one dispatch that only races hold back.
            let free: Vec<usize> = left.iter().copied().filter(|&d| !waits(d, false)).collect();
            let chosen = free.get(random.below(free.len())).or(left.first()).copied();
            ready.extend(chosen);
        }
        left.retain(|dispatch| !ready.contains(dispatch));
        groups.push(ready);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(count: usize, ordered: &[(usize, usize)], races: &[(usize, usize)]) -> Epoch {
        Epoch { dispatches: (0..count).collect(), ordered: ordered.into(), races: races.into() }
    }

    fn position(order: &[Step], dispatch: usize) -> (usize, usize) {
        let at = |step: &Step| step.dispatch == dispatch;
        (order.iter().position(at).unwrap(), order.iter().rposition(at).unwrap())
    }

    #[test]
    fn races_run_backwards_whatever_the_seed() {
        for seed in 0..200 {
            let order = hostile_order(&[epoch(2, &[], &[(0, 1)])], &[5, 7], seed);
            assert_eq!(order.len(), 12);
            assert!(position(&order, 1).1 < position(&order, 0).0);
        }
    }

    #[test]
    fn what_is_ordered_stays_ordered_and_epochs_do_not_mix() {
        for seed in 0..200 {
            let mut second = epoch(2, &[], &[]);
            second.dispatches = vec![3, 4];
            let first = epoch(3, &[(0, 2)], &[(0, 1), (1, 2)]);
            let order = hostile_order(&[first, second], &[3; 5], seed);
            assert!(position(&order, 0).1 < position(&order, 2).0);
            assert!((0..3).all(|d| position(&order, d).1 < 9));
            let mut seen = order.clone();
            seen.sort_by_key(|step| (step.dispatch, step.unit));
            seen.dedup();
            assert_eq!(seen.len(), 15);
        }
    }

    #[test]
    fn independent_units_interleave() {
        let order = hostile_order(&[epoch(2, &[], &[])], &[50, 50], 3);
        let switches = order.windows(2).filter(|w| w[0].dispatch != w[1].dispatch).count();
        assert!(switches > 20, "{switches}");
    }
}
