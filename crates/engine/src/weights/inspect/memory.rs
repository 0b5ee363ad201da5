//! Memory that a model would take: its weights, and the key and value cache of a language model.
//! Intermediate results come on top and are known only to the plan. It must not know devices.

use serde::Serialize;

use super::super::Weights;
use super::super::value::Value;

/// Tokens that a cache is counted for, where nobody says and the model allows it.
const USUAL_CONTEXT: u64 = 4096;
/// Bytes of a cached number: half precision.
const CACHED: u64 = 2;

/// Memory that a model would take on a device.
#[derive(Debug, Clone, Serialize)]
pub struct Needs {
    /// Weights as they are stored.
    pub weights_bytes: u64,
    /// Weights with every floating-point tensor in half precision.
    pub weights_f16_bytes: u64,
    /// The cache, if this is a language model that says its shape.
    pub context: Option<Context>,
    /// Weights as stored and cache.
    pub total_bytes: u64,
}

/// The key and value cache of a language model.
#[derive(Debug, Clone, Serialize)]
pub struct Context {
    /// Tokens it is counted for.
    pub tokens: u64,
    /// The most tokens that the model was trained for.
    pub trained_tokens: Option<u64>,
    /// Bytes in half precision; sliding windows would make it smaller.
    pub cache_bytes: u64,
}

/// Counts memory; `tokens` is the context length, else a usual one.
pub fn needs(weights: &Weights, tokens: Option<u64>) -> Needs {
    let bytes: u64 = weights.tensors().iter().map(|t| t.byte_len()).sum();
    let half: u64 = weights.tensors().iter().map(|t| t.elements().saturating_mul(2)).sum();
    let context = cache(weights, tokens);
    let total = bytes.saturating_add(context.as_ref().map_or(0, |c| c.cache_bytes));
    Needs { weights_bytes: bytes, weights_f16_bytes: half, context, total_bytes: total }
}

fn cache(weights: &Weights, tokens: Option<u64>) -> Option<Context> {
    let shape = from_metadata(weights).or_else(|| from_config(weights))?;
    let (trained_tokens, numbers_per_token) = shape;
    let usual = trained_tokens.unwrap_or(USUAL_CONTEXT).min(USUAL_CONTEXT);
    let tokens = tokens.unwrap_or(usual);
    let cache_bytes = numbers_per_token.checked_mul(CACHED)?.checked_mul(tokens)?;
    Some(Context { tokens, trained_tokens, cache_bytes })
}

/// Trained context and cached numbers a token, from GGUF keys.
fn from_metadata(weights: &Weights) -> Option<(Option<u64>, u64)> {
    let architecture = weights.value("general.architecture")?.as_str()?;
    let value = |key: &str| weights.value(&format!("{architecture}.{key}"));
    let number = |key: &str| value(key).and_then(Value::as_u64);
    let layers = number("block_count")?;
    let heads = number("attention.head_count");
    let head = number("embedding_length").zip(heads).and_then(|(e, h)| e.checked_div(h));
    let key = number("attention.key_length").or(head)?;
    let width = key.checked_add(number("attention.value_length").or(head)?)?;
    // One number of heads for all layers, or one for each.
    let kv_heads = match value("attention.head_count_kv") {
        Some(Value::Array(each)) if each.len() <= 4096 => {
            let mut each = each.iter().map(|v| v.ok().and_then(|v| v.as_u64()));
            each.try_fold(0u64, |sum, v| sum.checked_add(v?))?
        }
        Some(value) => value.as_u64()?.checked_mul(layers)?,
        None => heads?.checked_mul(layers)?,
    };
    Some((number("context_length"), kv_heads.checked_mul(width)?))
}

/// The same from a `config.json` of the transformers library.
fn from_config(weights: &Weights) -> Option<(Option<u64>, u64)> {
    let (_, config) = weights.configs().iter().find(|(name, _)| name.is_empty())?;
    // Models with pictures keep the language model's settings apart.
    let config = config.get("text_config").unwrap_or(config);
    let number = |key: &str| config[key].as_u64();
    let heads = number("num_attention_heads")?;
    let head = number("head_dim").or(number("hidden_size")?.checked_div(heads))?;
    let kv_heads = number("num_key_value_heads").unwrap_or(heads);
    let numbers = number("num_hidden_layers")?.checked_mul(kv_heads)?.checked_mul(2 * head)?;
    Some((number("max_position_embeddings"), numbers))
}
