//! Planning memory: blocks with life spans get offsets in one arena, so that blocks that live
//! together never share bytes. Pure functions over numbers; it must not know values.

/// Memory that is needed during stages `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Length; 0 takes no place.
    pub bytes: u64,
    /// First stage in which it is touched.
    pub first: usize,
    /// Last stage in which it is touched.
    pub last: usize,
}

/// Offsets of blocks, and the length of the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arena {
    /// Of each block, in the order given.
    pub offsets: Vec<u64>,
    /// Bytes the arena has to have.
    pub bytes: u64,
}

/// Gives every block an offset, a multiple of `alignment`: the longest first, each in the tightest gap
/// among those already placed that live at the same time (greedy by size, Pisarchyk and Lee 2020).
/// `None` if lengths overflow.
pub fn place(blocks: &[Block], alignment: u64) -> Option<Arena> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(blocks[at].bytes), blocks[at].first, at));
    let mut offsets = vec![0u64; blocks.len()];
    // Placed blocks in order of their offsets.
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut bytes = 0u64;
    for at in order {
        let block = blocks[at];
        if block.bytes == 0 {
            continue;
        }
        let mut free = 0u64;
        let mut best: Option<(u64, u64)> = None;
        for &other in &placed {
            let (there, start) = (blocks[other], offsets[other]);
            if there.last < block.first || block.last < there.first {
                continue;
            }
            if let Some(gap) = start.checked_sub(free)
                && gap >= block.bytes
                && best.is_none_or(|(tightest, _)| gap < tightest)
            {
                best = Some((gap, free));
            }
            let end = start.checked_add(there.bytes)?.checked_next_multiple_of(alignment.max(1))?;
            free = free.max(end);
        }
        offsets[at] = best.map_or(free, |(_, offset)| offset);
        bytes = bytes.max(offsets[at].checked_add(block.bytes)?);
        let position = placed.partition_point(|&other| offsets[other] <= offsets[at]);
        placed.insert(position, at);
    }
    Some(Arena { offsets, bytes })
}

/// The most bytes that live in one stage: no arena can be shorter.
pub fn lower_bound(blocks: &[Block]) -> u64 {
    let stages = blocks.iter().map(|block| block.last + 1).max().unwrap_or(0);
    let mut alive = vec![0u64; stages];
    for block in blocks {
        alive[block.first..=block.last].iter_mut().for_each(|sum| *sum += block.bytes);
    }
    alive.into_iter().max().unwrap_or(0)
}

/// Two blocks that share bytes while both live, if there are any; every pair is looked at.
pub fn first_clash(blocks: &[Block], arena: &Arena) -> Option<(usize, usize)> {
    let end = |at: usize| arena.offsets[at] + blocks[at].bytes;
    (0..blocks.len()).find_map(|a| {
        let clash = |&b: &usize| {
            let together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
            let bytes = arena.offsets[a].max(arena.offsets[b]) < end(a).min(end(b));
            together && bytes
        };
        (a + 1..blocks.len()).find(clash).map(|b| (a, b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stage by stage and byte by byte: who holds each byte of the arena.
    fn held_twice(blocks: &[Block], arena: &Arena) -> bool {
        let stages = blocks.iter().map(|block| block.last + 1).max().unwrap_or(0);
        (0..stages).any(|stage| {
            let mut held = vec![false; arena.bytes as usize];
            let live = (0..blocks.len())
                .filter(|&at| blocks[at].first <= stage && stage <= blocks[at].last);
            live.flat_map(|at| arena.offsets[at]..arena.offsets[at] + blocks[at].bytes)
                .any(|byte| std::mem::replace(&mut held[byte as usize], true))
        })
    }

    fn random(random: &mut fastrand::Rng) -> Vec<Block> {
        let stages = random.usize(1..20);
        (0..random.usize(0..40))
            .map(|_| {
                let first = random.usize(..stages);
                let last = random.usize(first..stages).min(first + random.usize(..6));
                Block { bytes: random.u64(0..90), first, last }
            })
            .collect()
    }

    #[test]
    fn blocks_that_live_together_never_share_a_byte() {
        let mut generator = fastrand::Rng::new();
        let (mut sum, mut bound, mut clashes) = (0, 0, 0);
        for alignment in [1u64, 4, 16] {
            for _ in 0..500 {
                let blocks = random(&mut generator);
                let arena = place(&blocks, alignment).unwrap();
                assert!(!held_twice(&blocks, &arena), "{blocks:?} {arena:?}");
                assert_eq!(first_clash(&blocks, &arena), None);
                assert!(arena.offsets.iter().all(|offset| offset.is_multiple_of(alignment)));
                assert!(arena.bytes >= lower_bound(&blocks));
                if alignment == 1 {
                    (sum, bound) = (sum + arena.bytes, bound + lower_bound(&blocks));
                }
                // The checker agrees with the oracle on arenas that are wrong, too.
                let mut wrong = arena.clone();
                wrong.offsets.iter_mut().for_each(|offset| *offset /= 2);
                clashes += usize::from(held_twice(&blocks, &wrong));
                assert_eq!(first_clash(&blocks, &wrong).is_some(), held_twice(&blocks, &wrong));
            }
        }
        assert!(clashes > 100, "{clashes}");
        // Close to what no arena can be shorter than.
        assert!(sum * 100 <= bound * 115, "{sum} bytes, at least {bound}");
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        let huge = Block { bytes: u64::MAX - 5, first: 0, last: 1 };
        assert_eq!(place(&[huge, huge], 256), None);
    }
}
