//! A bounded ring of progress reports: one writer that never waits, readers that never make it wait, and
//! gaps that show. It must not know what reports mean.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Reports that are kept; older ones are overwritten.
pub(crate) const CAPACITY: u64 = 64;
/// Words of a report.
const WORDS: usize = 5;

/// One report, as words.
pub(crate) type Report = [u64; WORDS];

/// | `stamp` | the words |
/// |---|---|
/// | 0 | were never written |
/// | 2n − 1 | are being replaced by report n |
/// | 2n | are report n |
struct Slot {
    stamp: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Reports are numbered from 1.
pub(crate) struct Ring {
    slots: [Slot; CAPACITY as usize],
    /// The number of the latest report.
    latest: AtomicU64,
}

impl Ring {
    pub(crate) fn new() -> Self {
        let slot =
            |_| Slot { stamp: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] };
        Self { slots: std::array::from_fn(slot), latest: AtomicU64::new(0) }
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % CAPACITY) as usize]
    }

    /// Adds a report. One thread at a time.
    pub(crate) fn push(&self, report: Report) {
        let number = self.latest.load(Ordering::Relaxed) + 1;
        let slot = self.slot(number);
        slot.stamp.store(2 * number - 1, Ordering::Relaxed);
        // A reader that sees a new word sees the odd stamp too.
        fence(Ordering::Release);
        for (place, word) in slot.words.iter().zip(report) {
            place.store(word, Ordering::Relaxed);
        }
        slot.stamp.store(2 * number, Ordering::Release);
        self.latest.store(number, Ordering::Release);
    }

    /// The first report behind `cursor` that is still there, with its number.
    pub(crate) fn after(&self, cursor: u64) -> Option<(u64, Report)> {
        loop {
            let latest = self.latest.load(Ordering::Acquire);
            let oldest = latest.saturating_sub(CAPACITY - 1).max(1);
            let number = cursor.saturating_add(1).max(oldest);
            if number > latest {
                return None;
            }
            let slot = self.slot(number);
            let before = slot.stamp.load(Ordering::Acquire);
            let report = std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before == 2 * number && slot.stamp.load(Ordering::Relaxed) == before {
                return Some((number, report));
            }
            // Overwritten meanwhile: the writer went on, so the oldest one is later now.
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_kept_is_read_in_order_and_gaps_show() {
        let ring = Ring::new();
        assert_eq!(ring.after(0), None);
        (1..=100).for_each(|n| ring.push([n; WORDS]));
        let mut cursor = 0;
        let mut read = vec![];
        while let Some((number, report)) = ring.after(cursor) {
            assert_eq!(report, [number; WORDS]);
            cursor = number;
            read.push(number);
        }
        assert_eq!(read, (37..=100).collect::<Vec<_>>());
        assert_eq!(ring.after(50).unwrap().0, 51);
        assert_eq!(ring.after(u64::MAX), None);
    }

    #[test]
    fn a_reader_never_sees_half_a_report() {
        let ring = Arc::new(Ring::new());
        let writer = ring.clone();
        const LAST: u64 = 200_000;
        let thread = std::thread::spawn(move || {
            (1..=LAST).for_each(|n| writer.push(std::array::from_fn(|at| n * (at as u64 + 1))));
        });
        let (mut cursor, mut seen) = (0, 0);
        while cursor < LAST {
            let Some((number, report)) = ring.after(cursor) else { continue };
            assert!(number > cursor);
            assert_eq!(report, std::array::from_fn(|at| number * (at as u64 + 1)));
            cursor = number;
            seen += 1;
        }
        thread.join().unwrap();
        assert!(seen > 0);
    }
}
