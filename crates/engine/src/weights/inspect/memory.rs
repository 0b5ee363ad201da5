//! Memory that a model would take, and whether a device has it: its weights, and the key and value
//! cache of a language model. Intermediate results come on top and are known only to the plan. It
//! must not look for devices; the caller hands them in.

use serde::Serialize;
use tintype_gpu::DeviceInfo;

use super::super::Weights;
use super::super::tensor::{is_float, sum};
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
    /// Weights with every floating-point or quantized tensor in half precision.
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
    let bytes = sum(weights.tensors().iter().map(|t| t.byte_len()));
    let half = sum(weights
        .tensors()
        .iter()
        .map(|t| if is_float(t.dtype()) { t.elements().saturating_mul(2) } else { t.byte_len() }));
    let context = cache(weights, tokens);
    let total = bytes.saturating_add(context.as_ref().map_or(0, |c| c.cache_bytes));
    Needs { weights_bytes: bytes, weights_f16_bytes: half, context, total_bytes: total }
}

/// What a model would take of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// The device's selector.
    pub selector: String,
    /// Bytes that weights and cache take on it.
    pub needed_bytes: u64,
    /// Bytes that are free on it now.
    pub free_bytes: u64,
    /// Bytes that it has.
    pub total_bytes: u64,
    /// Whether what is needed is free now.
    pub fits: bool,
    /// The largest tensor, if the device cannot bind it as one.
    pub over_limit: Option<OverLimit>,
}

/// A tensor that one binding of a device cannot cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OverLimit {
    /// The tensor.
    pub tensor: String,
    /// Its bytes.
    pub bytes: u64,
    /// The most bytes that a binding or an allocation of the device has.
    pub limit_bytes: u64,
}

/// Holds what a model needs against one device.
pub fn forecast(weights: &Weights, needs: &Needs, device: &DeviceInfo) -> Forecast {
    let limit_bytes = device.limits.max_binding_bytes.min(device.limits.max_allocation_bytes);
    let largest = weights.tensors().iter().max_by_key(|t| t.byte_len());
    let over_limit = largest.filter(|t| t.byte_len() > limit_bytes).map(|t| OverLimit {
        tensor: t.name().to_owned(),
        bytes: t.byte_len(),
        limit_bytes,
    });
    Forecast {
        selector: device.selector(),
        needed_bytes: needs.total_bytes,
        free_bytes: device.memory.free,
        total_bytes: device.memory.total,
        fits: needs.total_bytes <= device.memory.free,
        over_limit,
    }
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
