//! Tokens whose text is never merged from pieces: control tokens, and text that is always one token.
//! They are cut out first, the longest before all others, as llama.cpp does. It must not know how the
//! rest is split.

use aho_corasick::AhoCorasick;
use memchr::memmem;

use super::Token;
use super::error::{Result, TokenizerError};
use super::vocabulary::{Kind, Vocabulary};

/// Such tokens.
#[derive(Debug)]
pub(super) struct Markers {
    /// Finds which of them occur at all, in one walk over the text.
    finder: AhoCorasick,
    /// Their tokens, in the finder's order: the longest first.
    tokens: Vec<Token>,
}

/// A stretch of text, or a token that was cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment<'a> {
    Text(&'a [u8]),
    Token(Token),
}

impl Markers {
    /// Those of a vocabulary: control tokens too if `control`, else only text that is one token.
    pub(super) fn of(vocabulary: &Vocabulary, control: bool) -> Result<Self> {
        let marks = |token: &Token| {
            let kind = vocabulary.kind(*token);
            let marks = kind == Kind::UserDefined || control && kind.is_control();
            marks && !vocabulary.text(*token).is_empty()
        };
        let mut tokens: Vec<Token> = (0..vocabulary.len() as Token).filter(marks).collect();
        tokens.sort_by_key(|token| std::cmp::Reverse(vocabulary.text(*token).len()));
        let texts = tokens.iter().map(|token| vocabulary.text(*token));
        let finder = AhoCorasick::new(texts)
            .map_err(|error| TokenizerError::Damaged(format!("control tokens: {error}")))?;
        Ok(Self { finder, tokens })
    }

    /// Cuts a text.
    pub(super) fn split<'a>(&self, vocabulary: &Vocabulary, text: &'a [u8]) -> Vec<Fragment<'a>> {
        let mut there = vec![false; self.tokens.len()];
        for found in self.finder.find_overlapping_iter(text) {
            there[found.pattern().as_usize()] = true;
        }
        let mut fragments = vec![Fragment::Text(text)];
        fragments.retain(|fragment| *fragment != Fragment::Text(b""));
        for (token, _) in self.tokens.iter().zip(there).filter(|(_, there)| *there) {
            let finder = memmem::Finder::new(vocabulary.text(*token).as_bytes());
            let mut cut = Vec::with_capacity(fragments.len());
            for fragment in fragments {
                let Fragment::Text(text) = fragment else {
                    cut.push(fragment);
                    continue;
                };
                let mut rest = text;
                while let Some(at) = finder.find(rest) {
                    cut.extend((at > 0).then_some(Fragment::Text(&rest[..at])));
                    cut.push(Fragment::Token(*token));
                    rest = &rest[at + finder.needle().len()..];
                }
                cut.extend((!rest.is_empty()).then_some(Fragment::Text(rest)));
            }
            fragments = cut;
        }
        fragments
    }
}
