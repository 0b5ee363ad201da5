//! A request's log: its latest lines, numbered, so that gaps show. It must not know what is said.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept.
const CAPACITY: usize = 256;

/// Lines are numbered from 1.
#[derive(Default)]
pub(crate) struct Log(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    kept: VecDeque<String>,
    dropped: u64,
}

impl Log {
    pub(crate) fn say(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.kept.len() == CAPACITY {
            lines.kept.pop_front();
            lines.dropped += 1;
        }
        lines.kept.push_back(line);
    }

    /// The first line behind `cursor` that is still there, with its number.
    pub(crate) fn after(&self, cursor: u64) -> Option<(u64, String)> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cursor.saturating_sub(lines.dropped);
        let line = lines.kept.get(usize::try_from(at).ok()?)?;
        Some((lines.dropped + at + 1, line.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_order_and_the_oldest_go() {
        let log = Log::default();
        assert_eq!(log.after(0), None);
        (1..=300).for_each(|n| log.say(n.to_string()));
        assert_eq!(log.after(0), Some((45, "45".into())));
        assert_eq!(log.after(44), Some((45, "45".into())));
        assert_eq!(log.after(299), Some((300, "300".into())));
        assert_eq!(log.after(300), None);
        assert_eq!(log.after(u64::MAX), None);
    }
}
