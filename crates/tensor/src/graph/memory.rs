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
