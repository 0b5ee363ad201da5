//! Decoding token by token: a character that is spread over tokens waits until it is whole. It must
//! not know where tokens come from.

use super::error::Result;
use super::{Token, Tokenizer};

/// Text as it arrives. What was handed out, one after another, is what the tokens decode to at once.
#[derive(Debug)]
pub struct TextStream<'t> {
    tokenizer: &'t Tokenizer,
    /// The beginning of a character: at most three bytes.
    held: Vec<u8>,
}

impl<'t> TextStream<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer) -> Self {
        Self { tokenizer, held: Vec::new() }
    }

    /// The text that is sure once this token is there; often empty within emoji. Control tokens give
    /// none. Bytes that no continuation makes UTF-8 become U+FFFD.
    pub fn push(&mut self, token: Token) -> Result<String> {
        self.held.extend_from_slice(&self.tokenizer.bytes(token, false)?);
        Ok(self.take(false))
    }

    /// What is still held: half a character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        self.take(true)
    }

    fn take(&mut self, all: bool) -> String {
        let mut text = String::new();
        let mut kept = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let ends = kept + chunk.valid().len() + invalid.len() == self.held.len();
            kept += chunk.valid().len();
            if !all && ends && may_go_on(invalid) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            kept += invalid.len();
        }
        self.held.drain(..kept);
        text
    }
}

/// Whether bytes are the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => false,
        Err(error) => error.error_len().is_none(),
    }
}
