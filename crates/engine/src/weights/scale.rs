//! Scales that 8-bit float checkpoints keep beside their weights: found, checked, applied.
//! It must not know formats.
//!
//! Three customs are read; `W` is the name of the weight less its last word:
//! - ComfyUI: `W.scale_weight`, one value (its marker tensor `scaled_fp8` is no weight);
//! - compressed-tensors: `W.weight_scale`, one value or one for each row;
//! - DeepSeek: `W.weight_scale_inv`, one for each tile (which multiplies, despite its name).
//!
//! Scales of activations (`input_scale`, `scale_input`, `output_scale`) do not change weights.

use std::collections::{HashMap, HashSet};

use super::error::{Reason, Result};
use super::tensor::Tensor;
use crate::DType;

/// Factors for the values of one weight.
#[derive(Debug, Clone)]
pub struct Scale {
    /// The tensor that the factors came from.
    pub tensor: String,
    factors: Vec<f32>,
    /// Values in a row of the weight, and how rows and columns share factors.
    columns: u64,
    tile_rows: u64,
    tile_columns: u64,
    tiles_across: u64,
}

impl Scale {
    /// Multiplies `values`, the first of which is number `first` of the weight.
    pub(crate) fn apply(&self, first: u64, values: &mut [f32]) {
        if let [factor] = self.factors[..] {
            values.iter_mut().for_each(|v| *v *= factor);
            return;
        }
        for (at, value) in (first..).zip(values) {
            let (row, column) = (at / self.columns, at % self.columns);
            let tile = row / self.tile_rows * self.tiles_across + column / self.tile_columns;
            *value *= self.factors[tile as usize];
        }
    }
}

/// Last words of scale tensors that multiply `….weight`.
const APPLIED: [&str; 3] = ["scale_weight", "weight_scale", "weight_scale_inv"];
/// Last words of scale tensors that belong to activations.
const ACTIVATIONS: [&str; 6] =
    ["input_scale", "scale_input", "output_scale", "k_scale", "v_scale", "q_scale"];
/// The tensor by which ComfyUI marks scaled checkpoints.
const MARKER: &str = "scaled_fp8";

fn is_float8(dtype: DType) -> bool {
    matches!(dtype, DType::F8E4M3 | DType::F8E5M2)
}

/// Gives every 8-bit float weight its scale. Returns the names of the tensors that are scales or
/// marks of it, and so no longer weights of their own.
pub(crate) fn attach(tensors: &mut [Tensor]) -> Result<HashSet<String>> {
    let mut used = HashSet::new();
    if !tensors.iter().any(|t| is_float8(t.dtype)) {
        return Ok(used);
    }
    let mut near: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, tensor) in tensors.iter().enumerate() {
        if let Some((place, last)) = tensor.name.rsplit_once('.')
            && last.contains("scale")
        {
            near.entry(place).or_default().push(at);
        }
    }
    let mut found = Vec::new();
    for (at, weight) in tensors.iter().enumerate().filter(|(_, t)| is_float8(t.dtype)) {
        let (place, last) = weight.name.rsplit_once('.').unwrap_or(("", &weight.name));
        for scale in near.get(place).into_iter().flatten().map(|i| &tensors[*i]) {
            let word = scale.name.rsplit('.').next().unwrap_or_default();
            if ACTIVATIONS.contains(&word) || scale.name == weight.name {
                continue;
            }
            let refuse = |why: &str| {
                let scale = scale.name.clone();
                weight.fail(Reason::Scale { scale, why: why.to_owned() })
            };
            if !APPLIED.contains(&word) || last != "weight" {
                return Err(refuse("no custom of scaled checkpoints that is known here"));
            }
            if found.last().is_some_and(|(i, _)| *i == at) {
                return Err(refuse("the weight has another scale already"));
            }
            found.push((at, load(weight, scale, word).map_err(|why| refuse(&why))?));
        }
    }
    for (at, scale) in found {
        used.insert(scale.tensor.clone());
        tensors[at].scale = Some(Box::new(scale));
    }
    if !used.is_empty() {
        used.extend(tensors.iter().filter(|t| t.name == MARKER).map(|t| t.name.clone()));
    }
    Ok(used)
}

fn load(weight: &Tensor, scale: &Tensor, word: &str) -> Result<Scale, String> {
    if !matches!(scale.dtype, DType::F32 | DType::F16 | DType::Bf16) {
        return Err(format!("it is {}, not a floating-point type", scale.dtype));
    }
    let (count, columns) = (scale.elements(), weight.shape.last().copied().unwrap_or(1));
    if columns == 0 {
        return Err("the weight is empty".to_owned());
    }
    let rows = weight.elements() / columns;
    let shape = &scale.shape[..];
    let (tile_rows, tile_columns, across) = if count == 1 {
        (rows.max(1), columns, 1)
    } else if count == rows && shape.first() == Some(&rows) {
        (1, columns, 1)
    } else if let ("weight_scale_inv", [down, across], [rows, columns]) =
        (word, shape, &weight.shape[..])
    {
        (tile(*rows, *down)?, tile(*columns, *across)?, *across)
    } else {
        return Err(format!("shape {shape:?} does not fit a weight of {:?}", weight.shape));
    };
    if count > weight.elements() {
        return Err(format!("{count} factors for {} values", weight.elements()));
    }
    let factors = scale.to_f32().map_err(|e| e.to_string())?;
    if let Some(bad) = factors.iter().find(|f| !f.is_finite()) {
        return Err(format!("it has a factor of {bad}"));
    }
    Ok(Scale {
        tensor: scale.name.clone(),
        factors,
        columns,
        tile_rows,
        tile_columns,
        tiles_across: across,
    })
}

/// The tile that cuts `length` into `count` parts: 128, as every such checkpoint has it, else the
/// one length that divides evenly.
fn tile(length: u64, count: u64) -> Result<u64, String> {
    match count {
        0 => Err("it has no factors along one axis".to_owned()),
        _ if length.div_ceil(128) == count => Ok(128),
        _ if length.is_multiple_of(count) && length > 0 => Ok(length / count),
        _ => Err(format!("{count} factors along {length} values")),
    }
}
