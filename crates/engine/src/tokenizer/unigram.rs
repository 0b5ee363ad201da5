//! The unigram vocabulary of SentencePiece (T5, PixArt, UMT5): the split of a text whose pieces have
//! the greatest sum of log probabilities. It must not know where the ids go.
//!
//! Source: Kudo 2018, "Subword Regularization"; the behaviour is that of SentencePiece's encoder with
//! the identity normalization, and `tests.rs` holds it to that.

use std::collections::HashMap;

use super::TokenizerError;
use super::error::missing;
use super::vocabulary::{KINDS, Kind, SCORES, TOKENS, array, named_byte};
use crate::weights::{Array, Value, Weights};

/// What stands for a space inside pieces.
const SPACE: char = '▁';
/// An unknown character costs this much more than the least likely piece.
const UNKNOWN_PENALTY: f32 = 10.0;
/// Longest piece in bytes; bounds the work for each character of a text.
const PIECE_LIMIT: usize = 512;

/// A unigram vocabulary, read from a GGUF file's metadata.
#[derive(Debug)]
pub struct Unigram {
    /// Piece → id and score; only pieces that text can become.
    pieces: HashMap<String, (u32, f32)>,
    /// Ids of the 256 bytes, where the vocabulary spells unknown characters so.
    bytes: Option<Vec<u32>>,
    longest: usize,
    unknown_score: f32,
    unknown: u32,
    end: u32,
    padding: u32,
    max_length: Option<usize>,
    lowercase: bool,
    add_space_prefix: bool,
    remove_extra_whitespaces: bool,
}

impl Unigram {
    /// Reads `tokenizer.ggml.*` (model "t5") and checks that it is whole.
    pub fn from_weights(weights: &Weights) -> Result<Self, TokenizerError> {
        let model = weights.value("tokenizer.ggml.model").and_then(Value::as_str);
        match model {
            Some("t5") => {}
            Some(other) => {
                let (found, supported) = (other.to_owned(), "\"t5\", a unigram vocabulary");
                return Err(TokenizerError::Model { found, supported });
            }
            None => return Err(missing("tokenizer.ggml.model", "text")),
        }
        let tokens = array(weights, TOKENS)?;
        let scores = array(weights, SCORES)?;
        let kinds = array(weights, KINDS)?;
        let count = tokens.len();
        if scores.len() != count || kinds.len() != count || u32::try_from(count).is_err() {
            let (scores, kinds) = (scores.len(), kinds.len());
            let what = format!("{count} pieces, {scores} scores and {kinds} types");
            return Err(TokenizerError::Damaged(what));
        }
        let id = |key| {
            let id = weights.value(key).and_then(Value::as_u64).ok_or(missing(key, "a number"))?;
            if id < count {
                Ok(id as u32)
            } else {
                Err(TokenizerError::Damaged(format!("{key} is {id}, of {count} pieces")))
            }
        };
        let flag = |key, unset| weights.value(key).and_then(Value::as_bool).unwrap_or(unset);
        let mut made = Self {
            pieces: HashMap::new(),
            bytes: None,
            longest: 0,
            unknown_score: 0.0,
            unknown: id("tokenizer.ggml.unknown_token_id")?,
            end: id("tokenizer.ggml.eos_token_id")?,
            padding: id("tokenizer.ggml.padding_token_id")?,
            max_length: weights
                .value("tokenizer.max_length")
                .and_then(Value::as_u64)
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1)),
            lowercase: flag("tokenizer.lowercase", false),
            add_space_prefix: flag("tokenizer.ggml.add_space_prefix", true),
            remove_extra_whitespaces: flag("tokenizer.ggml.remove_extra_whitespaces", true),
        };
        made.fill(tokens, scores, kinds)?;
        Ok(made)
    }

    fn fill(
        &mut self,
        tokens: &Array,
        scores: &Array,
        kinds: &Array,
    ) -> Result<(), TokenizerError> {
        let damaged = |what: String| Err(TokenizerError::Damaged(what));
        let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
        let mut defined = Vec::new();
        let mut bytes = vec![None; 256];
        for (id, ((token, score), kind)) in
            tokens.iter().zip(scores.iter()).zip(kinds.iter()).enumerate()
        {
            let (token, score, kind) = (token?, score?, kind?);
            let (Some(piece), Some(score), Some(kind)) =
                (token.as_str(), score.as_f64(), kind.as_u64())
            else {
                return damaged(format!("piece {id} is not a text with a score and a type"));
            };
            let score = score as f32;
            if !score.is_finite() || piece.len() > PIECE_LIMIT {
                return damaged(format!("piece {id} has score {score} and {} bytes", piece.len()));
            }
            let id = id as u32;
            match Kind::from_id(kind) {
                Some(Kind::Byte) => match named_byte(piece) {
                    Some(byte) => bytes[usize::from(byte)] = Some(id),
                    None => return damaged(format!("piece {id} is no byte: {piece:.20?}")),
                },
                Some(Kind::Normal | Kind::UserDefined) if piece.is_empty() => {
                    return damaged(format!("piece {id} is empty"));
                }
                Some(Kind::Normal) => {
                    (least, most) = (least.min(score), most.max(score));
                    self.insert(piece, id, score)?;
                }
                Some(Kind::UserDefined) => {
                    defined.push(piece.to_owned());
                    self.insert(piece, id, 0.0)?;
                }
                _ => {}
            }
        }
        if !least.is_finite() {
            return damaged("it has no piece of text".to_owned());
        }
        // A piece that the user defined wins over any split of the same bytes.
        for piece in defined {
            if let Some((_, score)) = self.pieces.get_mut(&piece) {
                *score = (f64::from(piece.len() as f32 * most) - 0.1) as f32;
            }
        }
        self.unknown_score = least - UNKNOWN_PENALTY;
        self.bytes = bytes.into_iter().collect();
        Ok(())
    }

    fn insert(&mut self, piece: &str, id: u32, score: f32) -> Result<(), TokenizerError> {
        self.longest = self.longest.max(piece.len());
        match self.pieces.insert(piece.to_owned(), (id, score)) {
            None => Ok(()),
            Some((first, _)) => {
                Err(TokenizerError::Damaged(format!("pieces {first} and {id} are the same")))
            }
        }
    }

    /// The ids of a text, the end of text last; cut so that no more than [`Self::max_length`] are left.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = self.split(&self.normalize(text));
        if let Some(most) = self.max_length {
            ids.truncate(most - 1);
        }
        ids.push(self.end);
        ids
    }

    /// The id that fills a row after its end of text.
    pub fn padding(&self) -> u32 {
        self.padding
    }

    /// Most ids that the model takes, the end of text among them; `None` if the file sets no limit.
    pub fn max_length(&self) -> Option<usize> {
        self.max_length
    }

    fn normalize(&self, text: &str) -> String {
        let lower = self.lowercase.then(|| text.to_lowercase());
        let text = lower.as_deref().unwrap_or(text);
        let text = if self.remove_extra_whitespaces { text.trim_matches(' ') } else { text };
        let mut out = String::with_capacity(text.len() + 8);
        if text.is_empty() {
            return out;
        }
        if self.add_space_prefix {
            out.push(SPACE);
        }
        let mut after_space = false;
        for c in text.chars() {
            if c == ' ' && after_space && self.remove_extra_whitespaces {
                continue;
            }
            after_space = c == ' ';
            out.push(if c == ' ' { SPACE } else { c });
        }
        if self.remove_extra_whitespaces {
            out.truncate(out.trim_end_matches(SPACE).len());
        }
        out
    }

    /// The best split: for each end of a character, the best piece that ends there.
    fn split(&self, text: &str) -> Vec<u32> {
        /// The best way to reach one byte of the text; `None` in `best` where no character ends.
        #[derive(Clone, Copy)]
        struct Reached {
            score: f32,
            from: usize,
            id: u32,
        }
        let mut best: Vec<Option<Reached>> = vec![None; text.len() + 1];
        best[0] = Some(Reached { score: 0.0, from: 0, id: self.unknown });
        for (from, c) in text.char_indices() {
            let Some(Reached { score: so_far, .. }) = best[from] else { continue };
            let mut reach = |to: usize, id, score: f32| {
                let score = so_far + score;
                if best[to].is_none_or(|old| score > old.score) {
                    best[to] = Some(Reached { score, from, id });
                }
            };
            let single = from + c.len_utf8();
            let mut known = false;
            let ends = text[from..].char_indices().map(|(at, c)| from + at + c.len_utf8());
            for to in ends.take_while(|to| to - from <= self.longest) {
                if let Some(&(id, score)) = self.pieces.get(&text[from..to]) {
                    known |= to == single;
                    reach(to, id, score);
                }
            }
            if !known {
                reach(single, self.unknown, self.unknown_score);
            }
        }
        let mut path = Vec::new();
        let mut to = text.len();
        while let Some(Reached { from, id, .. }) = best[to].filter(|_| to > 0) {
            path.push((from..to, id));
            to = from;
        }
        self.spell(text, path.into_iter().rev())
    }

    /// Unknown characters in a row are one unknown id, or their bytes where the vocabulary has them.
    fn spell(
        &self,
        text: &str,
        path: impl Iterator<Item = (std::ops::Range<usize>, u32)>,
    ) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut after_unknown = false;
        for (place, id) in path {
            let unknown = id == self.unknown;
            match &self.bytes {
                Some(bytes) if unknown => {
                    ids.extend(text[place].bytes().map(|byte| bytes[usize::from(byte)]));
                }
                _ if unknown && after_unknown => {}
                _ => ids.push(id),
            }
            after_unknown = unknown;
        }
        ids
    }
}
