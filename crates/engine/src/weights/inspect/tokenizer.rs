//! What the file says about its tokenizer. It must not tokenize.

use serde::Serialize;

use super::super::Weights;
use super::super::array::Array;
use super::super::value::Value;

/// A tokenizer's outline.
#[derive(Debug, Serialize)]
pub struct Tokenizer {
    /// Its kind: `llama` (unigram pieces), `gpt2` (byte pairs), …
    pub model: String,
    /// The rules that split text before it, where they are named.
    pub pre: Option<String>,
    /// How many tokens it has.
    pub tokens: Option<u64>,
    /// How many merges it has.
    pub merges: Option<u64>,
    /// Tokens of special meaning.
    pub special: Vec<Special>,
    /// Bytes of its chat template.
    pub chat_template_bytes: Option<u64>,
}

/// A token of special meaning.
#[derive(Debug, Serialize)]
pub struct Special {
    /// What it means: `bos`, `eos`, `unknown`, `padding`, …
    pub role: String,
    /// Its number.
    pub id: u64,
    /// Its text.
    pub text: Option<String>,
}

/// Outlines the tokenizer in a GGUF file's metadata, or the file beside a folder's weights.
pub fn tokenizer(weights: &Weights) -> Option<Tokenizer> {
    let Some(model) = weights.value("tokenizer.ggml.model").and_then(Value::as_str) else {
        return beside(weights);
    };
    let array = |key: &str| weights.value(key).and_then(Value::as_array);
    let tokens = array("tokenizer.ggml.tokens");
    let text = |key: &str| weights.value(key).and_then(Value::as_str);
    Some(Tokenizer {
        model: model.to_owned(),
        pre: text("tokenizer.ggml.pre").map(str::to_owned),
        tokens: tokens.map(|t| t.len()),
        merges: array("tokenizer.ggml.merges").map(|m| m.len()),
        special: special(weights, tokens),
        chat_template_bytes: text("tokenizer.chat_template").map(|t| t.len() as u64),
    })
}

/// Most tokens of special meaning that are listed; real tokenizers have a dozen.
const SPECIAL_LIMIT: usize = 64;

/// The metadata keys that name a token's number, with its text. Tokens are walked through once,
/// since finding one means stepping over all before it.
fn special(weights: &Weights, tokens: Option<&Array>) -> Vec<Special> {
    let named = weights.metadata().iter().filter_map(|(key, value)| {
        let role = key.strip_prefix("tokenizer.ggml.")?.strip_suffix("_token_id")?;
        Some(Special { role: role.to_owned(), id: value.as_u64()?, text: None })
    });
    let mut named: Vec<Special> = named.take(SPECIAL_LIMIT).collect();
    let Some(end) = named.iter().map(|special| special.id.saturating_add(1)).max() else {
        return named;
    };
    let texts = tokens.into_iter().flat_map(Array::iter);
    for (id, text) in (0..end).zip(texts) {
        for special in named.iter_mut().filter(|special| special.id == id) {
            special.text = text.as_ref().ok().and_then(Value::as_str).map(str::to_owned);
        }
    }
    named
}

/// Files by which folders bring a tokenizer, beside the weights or in a component's folder.
const FILES: &[&str] = &["tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model"];

fn beside(weights: &Weights) -> Option<Tokenizer> {
    let folder = weights.files().first()?.path().parent()?;
    let near = [folder.to_owned(), folder.join("../tokenizer")];
    let found = near.iter().find_map(|f| FILES.iter().find(|name| f.join(name).is_file()))?;
    Some(Tokenizer {
        model: format!("in {found}"),
        pre: None,
        tokens: None,
        merges: None,
        special: Vec::new(),
        chat_template_bytes: None,
    })
}
