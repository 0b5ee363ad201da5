//! Text from a file, made fit for a terminal. It must not know what the text means.

use std::fmt::{self, Write};

/// Whether a character could steer a terminal or turn the order of a line's characters.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A writer that replaces what could steer a terminal, and ends with `…` after so many characters.
pub(crate) struct Printable<'w, W> {
    to: &'w mut W,
    left: usize,
    cut: bool,
}

impl<'w, W: Write> Printable<'w, W> {
    pub(crate) fn new(to: &'w mut W, longest: usize) -> Self {
        Self { to, left: longest, cut: false }
    }
}

impl<W: Write> Write for Printable<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                if !std::mem::replace(&mut self.cut, true) {
                    self.to.write_char('…')?;
                }
                return Ok(());
            }
            self.left -= 1;
            self.to.write_char(if steers(c) { char::REPLACEMENT_CHARACTER } else { c })?;
        }
        Ok(())
    }
}

/// Text from a file without what could steer a terminal, cut to so many characters.
pub fn printable(text: &str, longest: usize) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = Printable::new(&mut out, longest).write_str(text);
    out
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn texts_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\n", 40), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(printable("a\u{202e}b\u{2067}", 40), "a\u{fffd}b\u{fffd}");
        assert_eq!(printable("äöü", 3), "äöü");
        assert_eq!(printable("abcdef", 3), "abc…");
    }
}
