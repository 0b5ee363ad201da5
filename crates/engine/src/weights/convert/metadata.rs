//! What goes beside the tensors of a converted file. It must not touch tensor data.

use super::super::inspect::architecture;
use super::super::value::Value;
use super::super::{Format, Weights};
use super::{Plan, Recipe};
use crate::DType;

const ARCHITECTURE: &str = "general.architecture";
const FILE_TYPE: &str = "general.file_type";
const QUANTIZATION_VERSION: &str = "general.quantization_version";
/// Arrays up to this length are written into safetensors metadata.
const SHORT: u64 = 64;

/// llama.cpp's numbers for files that are mostly of one type (`llama_ftype`).
const FILE_TYPES: &[(DType, u32)] = &[
    (DType::F32, 0),
    (DType::F16, 1),
    (DType::Q4_0, 2),
    (DType::Q4_1, 3),
    (DType::Q8_0, 7),
    (DType::Q5_0, 8),
    (DType::Q5_1, 9),
    (DType::Q2K, 10),
    (DType::Q3K, 11),
    (DType::Q4K, 14),
    (DType::Q5K, 16),
    (DType::Q6K, 18),
    (DType::Bf16, 32),
];

/// Metadata of a GGUF file.
pub(super) fn for_gguf(
    weights: &Weights,
    plan: &Plan<'_>,
    recipe: &Recipe,
) -> Vec<(String, Value)> {
    let mut pairs = Vec::new();
    if weights.format() == Format::Gguf {
        pairs = weights.metadata().to_vec();
    } else {
        let guess = architecture(weights);
        let name = recipe.architecture.clone().or(guess.map(|g| g.name));
        let name = name.unwrap_or_else(|| "unknown".to_owned());
        pairs.push((ARCHITECTURE.to_owned(), Value::String(name)));
        for (key, value) in weights.metadata() {
            pairs.push((format!("{}.{key}", weights.format().name()), value.clone()));
        }
        for (component, config) in weights.configs() {
            let dot = if component.is_empty() { "" } else { "." };
            let key = format!("tintype.config{dot}{component}");
            pairs.push((key, Value::String(config.to_string())));
        }
    }
    let mut sums: Vec<(DType, u64)> = Vec::new();
    for item in &plan.items {
        match sums.iter_mut().find(|(dtype, _)| *dtype == item.dtype) {
            Some((_, bytes)) => *bytes += item.byte_len(),
            None => sums.push((item.dtype, item.byte_len())),
        }
    }
    // A copy keeps the number that its maker gave it, which may say more ("medium").
    if plan.items.iter().any(|item| !item.is_copy()) || weights.format() != Format::Gguf {
        let most = sums.iter().max_by_key(|(_, bytes)| *bytes).map(|(dtype, _)| *dtype);
        let number = FILE_TYPES.iter().find(|(dtype, _)| Some(*dtype) == most);
        pairs.retain(|(key, _)| key != FILE_TYPE);
        if let Some((_, number)) = number {
            pairs.push((FILE_TYPE.to_owned(), Value::U32(*number)));
        }
        pairs.retain(|(key, _)| key != QUANTIZATION_VERSION);
        if sums.iter().any(|(dtype, _)| dtype.is_quantized()) {
            pairs.push((QUANTIZATION_VERSION.to_owned(), Value::U32(2)));
        }
    }
    pairs
}

/// Metadata of a safetensors file, which has texts only, and the keys that were left out.
pub(super) fn for_safetensors(weights: &Weights) -> (Vec<(String, String)>, Vec<String>) {
    let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
    for (key, value) in weights.metadata() {
        match text(value) {
            Some(text) => pairs.push((key.clone(), text)),
            None => left_out.push(key.clone()),
        }
    }
    for (component, config) in weights.configs() {
        let dot = if component.is_empty() { "" } else { "." };
        pairs.push((format!("tintype.config{dot}{component}"), config.to_string()));
    }
    (pairs, left_out)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(array) if array.len() > SHORT => None,
        other => serde_json::to_string(other).ok(),
    }
}
