//! Text to tokens and back, as a language model's file says: pieces with byte fallback. It must not
//! know models, prompts or chats.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::error::{Result, TokenizerError, missing};
use super::markers::{Fragment, Markers};
use super::spm::{self, Spm};
use super::stream::TextStream;
use super::vocabulary::{Kind, Vocabulary, named_byte};
use crate::weights::{Value, Weights};

/// A token's number.
pub type Token = u32;

/// Longest text that is read at once; keeps places in it well within 32 bits.
const TEXT_LIMIT: usize = 1 << 30;

/// How text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the tokens that begin and end a text where the model was trained with them.
    pub add_special: bool,
    /// Read the names of control tokens (`<bos>`, `<|im_start|>`) as those tokens. Text of users must
    /// be read without, lest it speaks for the host.
    pub parse_special: bool,
}

/// A tokenizer with its vocabulary.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    /// Text that is always one token.
    texts: Markers,
    /// That and control tokens; made when they are first looked for.
    controls: OnceLock<Markers>,
    roles: Roles,
    model: Model,
}

/// One variant a kind of tokenizer; each has a file.
#[derive(Debug)]
enum Model {
    Spm(Spm),
}

/// Tokens of special meaning.
#[derive(Debug)]
struct Roles {
    bos: Option<Token>,
    eos: Option<Token>,
    add_bos: bool,
    add_eos: bool,
    /// In rising order.
    ends: Vec<Token>,
}

/// Names under which files keep the token that ends a turn, where no metadata names it.
const ENDS: &[&str] =
    &["<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"];

impl Tokenizer {
    /// The tokenizer in a GGUF file's metadata (`tokenizer.ggml.*`).
    ///
    /// # Errors
    /// A kind that is not supported; a vocabulary that is incomplete or damaged.
    pub fn from_weights(weights: &Weights) -> Result<Self> {
        let key = "tokenizer.ggml.model";
        let name = weights.value(key).and_then(Value::as_str).ok_or(missing(key, "a text"))?;
        let vocabulary = Vocabulary::read(weights)?;
        let model = match name {
            "llama" => Model::Spm(Spm::read(weights, &vocabulary)?),
            other => {
                let (found, supported) = (other.to_owned(), "\"llama\", pieces with byte fallback");
                return Err(TokenizerError::Model { found, supported });
            }
        };
        let roles = Roles::read(weights, &vocabulary, true)?;
        let (texts, controls) = (Markers::of(&vocabulary, false)?, OnceLock::new());
        Ok(Self { vocabulary, texts, controls, roles, model })
    }

    /// How many tokens there are.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<Token> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<Token> {
        self.roles.eos
    }

    /// Whether a model that gives this token has nothing more to say: the end of its text or turn.
    pub fn is_end(&self, token: Token) -> bool {
        self.roles.ends.binary_search(&token).is_ok()
    }

    /// The token of exactly this text, as the vocabulary spells it.
    pub fn token(&self, text: &str) -> Option<Token> {
        self.vocabulary.find(text.as_bytes())
    }

    /// The text of a token, as the vocabulary spells it.
    pub fn spelling(&self, token: Token) -> Option<&str> {
        self.vocabulary.has(token).then(|| self.vocabulary.text(token))
    }

    /// Text to tokens.
    ///
    /// # Errors
    /// A text of more than 1 GiB; characters for which neither the vocabulary nor its bytes have a token.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<Token>> {
        self.encode_bytes(text.as_bytes(), options)
    }

    /// [`Tokenizer::encode`] of bytes that may not be UTF-8; they are told byte by byte, and decode to
    /// what they were.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode_bytes(&self, text: &[u8], options: EncodeOptions) -> Result<Vec<Token>> {
        let (bytes, limit) = (text.len(), TEXT_LIMIT);
        if bytes > limit {
            return Err(TokenizerError::TooLong { bytes, limit });
        }
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        out.extend(self.roles.bos.filter(|_| options.add_special && self.roles.add_bos));
        // Where a text begins, and after a control token, pieces begin as words do.
        let mut begins = true;
        let markers = if options.parse_special { self.controls()? } else { &self.texts };
        for fragment in markers.split(&self.vocabulary, text) {
            match fragment {
                Fragment::Token(token) => out.push(token),
                Fragment::Text(text) => match &self.model {
                    Model::Spm(spm) => spm.encode(&self.vocabulary, text, begins, &mut out)?,
                },
            }
            begins = matches!(fragment, Fragment::Token(_));
        }
        out.extend(self.roles.eos.filter(|_| options.add_special && self.roles.add_eos));
        Ok(out)
    }

    fn controls(&self) -> Result<&Markers> {
        match self.controls.get() {
            Some(markers) => Ok(markers),
            None => {
                let markers = Markers::of(&self.vocabulary, true)?;
                Ok(self.controls.get_or_init(|| markers))
            }
        }
    }

    /// The bytes of a token; none for control tokens unless `special`.
    ///
    /// # Errors
    /// A number that is no token.
    pub fn bytes(&self, token: Token, special: bool) -> Result<Cow<'_, [u8]>> {
        if !self.vocabulary.has(token) {
            let known = self.vocabulary.len();
            return Err(TokenizerError::NoSuchToken { token, known });
        }
        let text = self.vocabulary.text(token);
        Ok(match self.vocabulary.kind(token) {
            Kind::Control | Kind::Unknown if !special => Cow::Borrowed(&[]),
            Kind::Control | Kind::Unknown | Kind::UserDefined => Cow::Borrowed(text.as_bytes()),
            Kind::Byte => match named_byte(text) {
                Some(byte) => Cow::Owned(vec![byte]),
                None => Cow::Borrowed(text.as_bytes()),
            },
            Kind::Normal | Kind::Unused => match &self.model {
                Model::Spm(_) => spm::bytes(text),
            },
        })
    }

    /// Tokens of a whole text to that text: what [`Tokenizer::encode`] put before its first word is
    /// taken away. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// A number that is no token.
    pub fn decode(&self, tokens: &[Token], special: bool) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.decode_bytes(tokens, special)?).into_owned())
    }

    /// [`Tokenizer::decode`], bytes as they are.
    ///
    /// # Errors
    /// A number that is no token.
    pub fn decode_bytes(&self, tokens: &[Token], special: bool) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        for token in tokens {
            bytes.extend_from_slice(&self.bytes(*token, special)?);
        }
        let prefixed = match &self.model {
            Model::Spm(spm) => spm.add_space_prefix(),
        };
        if prefixed && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        Ok(bytes)
    }

    /// Decodes what continues a text, token by token; half a character waits for its other half.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }
}

impl Roles {
    fn read(weights: &Weights, vocabulary: &Vocabulary, bos_is_usual: bool) -> Result<Self> {
        let role = |key: &'static str| {
            let Some(value) = weights.value(key) else { return Ok(None) };
            let token = value.as_u64().and_then(|id| Token::try_from(id).ok());
            match token.filter(|token| vocabulary.has(*token)) {
                Some(token) => Ok(Some(token)),
                None => {
                    let count = vocabulary.len();
                    Err(TokenizerError::Damaged(format!("{key} is none of its {count} tokens")))
                }
            }
        };
        let flag = |key, usual| weights.value(key).and_then(Value::as_bool).unwrap_or(usual);
        let bos = role("tokenizer.ggml.bos_token_id")?;
        let eos = role("tokenizer.ggml.eos_token_id")?;
        let mut ends: Vec<Token> = ENDS
            .iter()
            .filter_map(|name| vocabulary.find(name.as_bytes()))
            .filter(|token| vocabulary.kind(*token) != Kind::Normal)
            .chain(eos)
            .chain(role("tokenizer.ggml.eot_token_id")?)
            .collect();
        ends.sort_unstable();
        ends.dedup();
        Ok(Self {
            bos,
            eos,
            add_bos: flag("tokenizer.ggml.add_bos_token", bos_is_usual),
            add_eos: flag("tokenizer.ggml.add_eos_token", false),
            ends,
        })
    }
}
