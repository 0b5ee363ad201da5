//! Merging neighbours, the best pair first and the leftmost of equals, until none is left: what
//! SentencePiece's BPE and byte-level BPE have in common. It must not know either.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Token;

/// A stretch of text, and its token if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) token: Option<Token>,
}

impl Part {
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A pair that may be merged.
struct Pair {
    /// Larger goes first.
    priority: f64,
    left: u32,
    right: u32,
    /// Where both parts ended when the pair was found; if they have grown, the pair is gone.
    ends: [u32; 2],
    token: Token,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// A part in its chain; merged-away parts have no neighbours and are skipped.
struct Link {
    part: Part,
    before: u32,
    after: u32,
    gone: bool,
}

const NONE: u32 = u32::MAX;

/// Merges neighbours while `join` finds a token for a pair of them, with its priority; hands out what
/// is left, in order. Takes n·log n steps.
pub(super) fn merge(
    parts: impl Iterator<Item = Part>,
    join: impl Fn(&Part, &Part) -> Option<(f64, Token)>,
    mut take: impl FnMut(&Part),
) {
    let mut links: Vec<Link> = parts
        .zip(0u32..)
        .map(|(part, at)| Link { part, before: at.wrapping_sub(1), after: at + 1, gone: false })
        .collect();
    match links.last_mut() {
        Some(last) => last.after = NONE,
        None => return,
    }
    let mut heap = BinaryHeap::new();
    let look = |links: &[Link], heap: &mut BinaryHeap<Pair>, left: u32, right: u32| {
        if left == NONE || right == NONE {
            return;
        }
        let (a, b) = (&links[left as usize].part, &links[right as usize].part);
        if let Some((priority, token)) = join(a, b) {
            heap.push(Pair { priority, left, right, ends: [a.end, b.end], token });
        }
    };
    for right in 1..links.len() as u32 {
        look(&links, &mut heap, right - 1, right);
    }
    while let Some(pair) = heap.pop() {
        let (left, right) = (&links[pair.left as usize], &links[pair.right as usize]);
        if left.gone || right.gone || [left.part.end, right.part.end] != pair.ends {
            continue;
        }
        let (before, after) = (left.before, right.after);
        links[pair.right as usize].gone = true;
        let left = &mut links[pair.left as usize];
        (left.part.end, left.part.token) = (pair.ends[1], Some(pair.token));
        left.after = after;
        if after != NONE {
            links[after as usize].before = pair.left;
        }
        look(&links, &mut heap, before, pair.left);
        look(&links, &mut heap, pair.left, after);
    }
    links.iter().filter(|link| !link.gone).for_each(|link| take(&link.part));
}
