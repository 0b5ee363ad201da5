//! Little-endian reading that cannot run past its bytes. It must not know formats.

use super::error::{Reason, Result, WeightError};
use super::map::Source;

/// A place in a file that moves on as values are taken.
pub(crate) struct Cursor<'a> {
    source: &'a Source,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, bytes: source.bytes(), at: 0 }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    pub(crate) fn seek(&mut self, at: u64) {
        self.at = usize::try_from(at).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
    }

    pub(crate) fn fail(&self, reason: Reason) -> WeightError {
        WeightError::new(self.source.path(), reason)
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> WeightError {
        self.fail(Reason::Malformed { at: self.at(), what: what.into() })
    }

    pub(crate) fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8]> {
        if count > self.left() {
            let (at, have) = (self.at(), self.left());
            return Err(self.fail(Reason::Truncated { what, at, need: count, have }));
        }
        let bytes = &self.bytes[self.at..][..count as usize];
        self.at += count as usize;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N as u64, what)?);
        Ok(number)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.number(what)?))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.number(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.number(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.number(what)?))
    }

    /// A UTF-8 string of at most `limit` bytes whose length stands before it.
    pub(crate) fn string(&mut self, what: &'static str, limit: u64) -> Result<&'a str> {
        let count = self.u64(what)?;
        if count > limit {
            return Err(self.fail(Reason::TooMany { what, count, limit }));
        }
        let start = self.at;
        std::str::from_utf8(self.take(count, what)?).map_err(|_| {
            let at = start as u64;
            self.fail(Reason::Malformed { at, what: format!("{what} is not UTF-8") })
        })
    }
}
