//! SentencePiece's BPE as llama.cpp reads it from a file: characters merge to the pieces of highest
//! score, and what has no piece is told by its bytes. It must not know control tokens.

use std::borrow::Cow;

use super::Token;
use super::error::{Result, TokenizerError};
use super::merge::{Part, merge};
use super::vocabulary::Vocabulary;
use crate::weights::{Value, Weights};

/// What pieces have for a space.
const SPACE: &str = "\u{2581}";

/// The settings of such a tokenizer.
#[derive(Debug)]
pub(super) struct Spm {
    add_space_prefix: bool,
    bytes: [Option<Token>; 256],
}

impl Spm {
    pub(super) fn read(weights: &Weights, vocabulary: &Vocabulary) -> Result<Self> {
        vocabulary.scores()?;
        let prefix = weights.value("tokenizer.ggml.add_space_prefix").and_then(Value::as_bool);
        Ok(Self { add_space_prefix: prefix.unwrap_or(true), bytes: vocabulary.bytes() })
    }

    /// Whether a space is put before the first word.
    pub(super) fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Appends the tokens of a text, which need not be UTF-8; `begins` says that it begins the whole, or
    /// follows a control token.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        begins: bool,
        out: &mut Vec<Token>,
    ) -> Result<()> {
        let scores = vocabulary.scores()?;
        let mut escaped = Vec::with_capacity(text.len() + text.len() / 4 + SPACE.len());
        if begins && self.add_space_prefix {
            escaped.extend_from_slice(SPACE.as_bytes());
        }
        for byte in text {
            match byte {
                b' ' => escaped.extend_from_slice(SPACE.as_bytes()),
                byte => escaped.push(*byte),
            }
        }
        let mut at = 0;
        let characters = std::iter::from_fn(|| {
            let (start, end) =
                (at, at + length(escaped.get(at..).filter(|rest| !rest.is_empty())?));
            at = end;
            let token = vocabulary.find(&escaped[start..end]);
            Some(Part { start: start as u32, end: end as u32, token })
        });
        let join = |left: &Part, right: &Part| {
            let token = vocabulary.find(&escaped[left.start as usize..right.end as usize])?;
            Some((f64::from(scores[token as usize]), token))
        };
        let mut homeless = None;
        merge(characters, join, |part| match part.token {
            Some(token) => out.push(token),
            None => {
                for byte in &escaped[part.range()] {
                    match self.bytes[usize::from(*byte)] {
                        Some(token) => out.push(token),
                        None => homeless = Some(part.range()),
                    }
                }
            }
        });
        match homeless {
            None => Ok(()),
            Some(range) => {
                let character = String::from_utf8_lossy(&escaped[range]).into_owned();
                Err(TokenizerError::NoTokenFor(character))
            }
        }
    }
}

/// Bytes of the first character: as many as its first byte announces, but no more than go on from it;
/// bytes that begin none are alone. llama.cpp swallows what follows a broken character, spaces too, so
/// that they do not come back.
fn length(bytes: &[u8]) -> usize {
    let announced = match bytes[0] >> 4 {
        0xC | 0xD => 2,
        0xE => 3,
        0xF => 4,
        _ => 1,
    };
    1 + bytes[1..].iter().take(announced - 1).take_while(|&&byte| byte >> 6 == 0b10).count()
}

/// What a piece stands for.
pub(super) fn bytes(piece: &str) -> Cow<'_, [u8]> {
    match piece.contains(SPACE) {
        true => Cow::Owned(piece.replace(SPACE, " ").into_bytes()),
        false => Cow::Borrowed(piece.as_bytes()),
    }
}
