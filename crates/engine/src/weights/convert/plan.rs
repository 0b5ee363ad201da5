//! Which type each tensor becomes, and why: a pure function of names, shapes and the recipe.
//! It must not touch tensor data.

use std::cmp::Reverse;
use std::path::Path;

use super::super::error::{Reason, Result, WeightError};
use super::super::tensor::{Tensor, bytes_of, is_float};
use super::super::{Weights, gguf, safetensors};
use super::{Recipe, Target};
use crate::DType;

/// What happens to one tensor.
#[derive(Debug, Clone, Copy)]
pub struct Item<'w> {
    /// The source.
    pub tensor: &'w Tensor,
    /// Its type in the new file.
    pub dtype: DType,
    /// Why it is not what the recipe asks for, if it is not.
    pub kept: Option<&'static str>,
}

impl Item<'_> {
    /// Whether the bytes are copied as they are.
    pub fn is_copy(&self) -> bool {
        self.dtype == self.tensor.dtype
    }

    /// Bytes in the new file.
    pub fn byte_len(&self) -> u64 {
        self.dtype.bytes_for(self.tensor.elements()).unwrap_or(0)
    }
}

/// What happens to every tensor, in the order of the new file.
#[derive(Debug)]
pub struct Plan<'w> {
    /// One item a tensor.
    pub items: Vec<Item<'w>>,
    /// The format.
    pub target: Target,
}

/// Bytes of a name that ggml keeps, the final zero taken off (`GGML_MAX_NAME`).
const GGML_NAME: usize = 63;

impl Plan<'_> {
    /// Names that llama.cpp refuses in a GGUF file, though the file is in order and read here.
    pub fn long_names(&self) -> impl Iterator<Item = &str> {
        let names = self.items.iter().map(|item| item.tensor.name());
        names.filter(|name| self.target == Target::Gguf && name.len() > GGML_NAME)
    }
}

fn can_hold(target: Target, dtype: DType) -> bool {
    match target {
        Target::Gguf => gguf::id_of(dtype).is_some(),
        Target::Safetensors => safetensors::type_of(dtype).is_some(),
    }
}

/// Plans a conversion; `file` is the one to be written, for errors.
pub fn plan<'w>(
    weights: &'w Weights,
    target: Target,
    recipe: &Recipe,
    file: &Path,
) -> Result<Plan<'w>> {
    let mut items = Vec::with_capacity(weights.tensors().len());
    for tensor in weights.tensors() {
        let fail = |reason| WeightError::tensor(file, tensor.name(), reason);
        let (dtype, kept) = choose(tensor, target, recipe).map_err(fail)?;
        bytes_of(dtype, tensor.shape()).map_err(fail)?;
        if target == Target::Gguf && tensor.shape().len() > gguf::DIMENSIONS as usize {
            let (count, limit) = (tensor.shape().len() as u64, gguf::DIMENSIONS.into());
            return Err(fail(Reason::TooMany { what: "dimensions for GGUF", count, limit }));
        }
        items.push(Item { tensor, dtype, kept });
    }
    // Scales go along with the weights that still need them.
    let needed: Vec<&str> = items
        .iter()
        .filter(|item| item.is_copy())
        .filter_map(|item| item.tensor.scale().map(|s| s.tensor.as_str()))
        .collect();
    let marker = |t: &Tensor| !needed.is_empty() && !t.name().contains('.');
    for tensor in weights.scale_tensors() {
        if needed.contains(&tensor.name()) || marker(tensor) {
            items.push(Item { tensor, dtype: tensor.dtype(), kept: None });
        }
    }
    if target == Target::Safetensors {
        items.sort_by(|a, b| {
            let key = |i: &Item<'_>| Reverse(i.dtype.block_bytes());
            key(a).cmp(&key(b)).then_with(|| a.tensor.name().cmp(b.tensor.name()))
        });
    }
    Ok(Plan { items, target })
}

/// The type of one tensor, and why it is not the one asked for.
fn choose(
    tensor: &Tensor,
    target: Target,
    recipe: &Recipe,
) -> Result<(DType, Option<&'static str>), Reason> {
    let from = tensor.dtype();
    let rule = recipe.rules.iter().find(|rule| rule.pattern.is_match(tensor.name()));
    if let Some(wanted) = rule.map(|r| r.dtype).or(recipe.dtype) {
        let row = tensor.shape().last().copied().unwrap_or(1);
        let fits = row.is_multiple_of(wanted.block_elements());
        let kept = if !is_float(from) {
            Some("whole numbers")
        } else if rule.is_some() && !fits {
            return Err(Reason::PartialBlocks { row, dtype: wanted });
        } else if rule.is_none() && tensor.shape().len() < 2 {
            Some("fewer than two dimensions")
        } else if !fits {
            Some("rows that do not fill blocks")
        } else {
            None
        };
        if kept.is_none() {
            if !can_hold(target, wanted) {
                let what =
                    format!("{} cannot hold {wanted}; choose F32, F16 or BF16", target.name());
                return Err(Reason::Unsupported(what));
            }
            return Ok((wanted, None));
        }
        return keep(from, target, kept);
    }
    keep(from, target, None)
}

/// The source's own type, or the nearest that the format has.
fn keep(
    from: DType,
    target: Target,
    why: Option<&'static str>,
) -> Result<(DType, Option<&'static str>), Reason> {
    if can_hold(target, from) {
        return Ok((from, why));
    }
    match from {
        // Scaled 8-bit floats span more than F16 can; BF16 has twice their digits.
        DType::F8E4M3 | DType::F8E5M2 => Ok((DType::Bf16, Some("8-bit floats, which GGUF lacks"))),
        _ => {
            let what = format!(
                "{} cannot hold {from}; {}",
                target.name(),
                if from.is_quantized() { "say a type such as F16" } else { "leave it out" }
            );
            Err(Reason::Unsupported(what))
        }
    }
}
