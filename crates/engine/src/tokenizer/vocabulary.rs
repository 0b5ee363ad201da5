//! The vocabulary as a GGUF file holds it: texts, kinds and scores of tokens, found by text and by
//! number. Shared by every kind of tokenizer. It must not know how text is split.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Token;
use super::error::{Result, TokenizerError, missing};
use crate::weights::{Array, Value, Weights};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for what has no token.
    Unknown,
    /// Steers the model, and is no text.
    Control,
    /// Text that is always this one token.
    UserDefined,
    /// In the vocabulary, but never trained.
    Unused,
    /// A byte, named `<0x0A>`.
    Byte,
}

impl Kind {
    /// By its number in GGUF files.
    pub(super) fn from_id(id: u64) -> Option<Self> {
        Some(match id {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Whether such tokens are no text of their own.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// Tokens by number and by text.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// All texts, one after another.
    texts: String,
    /// Where each ends.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    scores: Vec<f32>,
    table: HashTable<Token>,
    hasher: DefaultHashBuilder,
}

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const KINDS: &str = "tokenizer.ggml.token_type";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";

impl Vocabulary {
    /// Reads the vocabulary; kinds default to normal, scores may be absent.
    pub(crate) fn read(weights: &Weights) -> Result<Self> {
        let damaged = |what: String| TokenizerError::Damaged(what);
        let named = array(weights, TOKENS)?.texts().ok_or(missing(TOKENS, "an array of texts"))?;
        let (mut texts, mut ends) = (String::new(), Vec::new());
        for text in named {
            texts.push_str(text?);
            let end = u32::try_from(texts.len());
            ends.push(end.map_err(|_| damaged("its tokens are longer than 4 GiB".into()))?);
        }
        let count = ends.len();
        if count == 0 || Token::try_from(count).is_err() {
            return Err(damaged(format!("{count} tokens")));
        }
        let per_token = |key| match weights.value(key).and_then(Value::as_array) {
            Some(array) if array.len() != count as u64 => {
                Err(damaged(format!("{key} has {} for {count} tokens", array.len())))
            }
            array => Ok(array),
        };
        let kinds = match per_token(KINDS)? {
            None => vec![Kind::Normal; count],
            Some(array) => {
                let kind = |value: Value| {
                    let kind = value.as_u64().and_then(Kind::from_id);
                    kind.ok_or_else(|| damaged(format!("{value:?} is no kind of token")))
                };
                array.iter().map(|value| kind(value?)).collect::<Result<_>>()?
            }
        };
        let scores = match per_token(SCORES)? {
            None => Vec::new(),
            Some(array) => {
                let score = |value: Value| {
                    let score = value.as_f64().filter(|score| score.is_finite());
                    score.ok_or_else(|| damaged(format!("{value:?} is no score")))
                };
                let scores = array.iter().map(|value| Ok(score(value?)? as f32));
                scores.collect::<Result<_>>()?
            }
        };
        let (table, hasher) = (HashTable::with_capacity(count), DefaultHashBuilder::default());
        let mut all = Self { texts, ends, kinds, scores, table, hasher };
        let mut table = std::mem::take(&mut all.table);
        for token in 0..count as Token {
            let text = all.text(token).as_bytes();
            let hash = all.hasher.hash_one(text);
            // Of two tokens of one text the later one counts, as in llama.cpp.
            match table.find_mut(hash, |other| all.text(*other).as_bytes() == text) {
                Some(place) => *place = token,
                None => {
                    let rehash = |other: &Token| all.hasher.hash_one(all.text(*other).as_bytes());
                    table.insert_unique(hash, token, rehash);
                }
            }
        }
        all.table = table;
        Ok(all)
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether this is a token.
    pub(crate) fn has(&self, token: Token) -> bool {
        (token as usize) < self.len()
    }

    /// A token's text; the token must be one.
    pub(crate) fn text(&self, token: Token) -> &str {
        let at = token as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.texts[start as usize..self.ends[at] as usize]
    }

    /// What a token is for; the token must be one.
    pub(crate) fn kind(&self, token: Token) -> Kind {
        self.kinds[token as usize]
    }

    /// Scores of all tokens; an error if the file has none.
    pub(crate) fn scores(&self) -> Result<&[f32]> {
        match &self.scores[..] {
            [] => Err(missing(SCORES, "an array of scores")),
            scores => Ok(scores),
        }
    }

    /// The token of exactly these bytes.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Token> {
        let same = |token: &Token| self.text(*token).as_bytes() == text;
        self.table.find(self.hasher.hash_one(text), same).copied()
    }

    /// The tokens named after bytes, `<0x00>` to `<0xFF>`.
    pub(crate) fn bytes(&self) -> [Option<Token>; 256] {
        let mut bytes = [None; 256];
        let named = (0..self.len() as Token).filter(|token| self.kind(*token) == Kind::Byte);
        for token in named {
            if let Some(byte) = named_byte(self.text(token)) {
                bytes[usize::from(byte)] = Some(token);
            }
        }
        bytes
    }
}

/// The byte that a name like `<0x0A>` names.
pub(super) fn named_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

pub(super) fn array<'a>(weights: &'a Weights, key: &'static str) -> Result<&'a Array> {
    weights.value(key).and_then(Value::as_array).ok_or(missing(key, "an array"))
}
