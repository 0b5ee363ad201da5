//! Norms as a graph's nodes. Results have the type of what is normed.

use tintype_gpu::{DType, Device, Session};

use super::{GroupNorm, Norm, RowNorm, add_norm, group_norm, group_scratch_shape, norm};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Graph, Layout, Meta, Op, Value, broadcast_shape, refuse_dtype, refuse_shape};
use crate::number::Number;

/// A norm of rows; operands are x, the residual if any, gain if any, shift if any; results are the
/// norm and, with a residual, the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowNormOp {
    /// Kind.
    pub kind: Norm,
    /// ε
    pub eps: f32,
    /// Added to each factor.
    pub gain_offset: f32,
    /// Whether there are a residual, a gain, a shift.
    pub residual: bool,
    /// Whether there is a gain.
    pub gain: bool,
    /// Whether there is a shift.
    pub shift: bool,
}

/// A norm of groups of channels; operands are x, gain if any, shift if any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupNormOp {
    /// Groups; divide the channels.
    pub groups: usize,
    /// ε
    pub eps: f32,
    /// Whether there is a gain.
    pub gain: bool,
    /// Whether there is a shift.
    pub shift: bool,
    /// Whether v·sigmoid(v) follows.
    pub silu: bool,
}

/// Operands behind the first `from`: gain and shift, where they are.
fn affine<T>(inputs: &[T], from: usize, gain: bool, shift: bool) -> [Option<&T>; 2] {
    let at = |on: bool, at: usize| if on { inputs.get(at) } else { None };
    [at(gain, from), at(shift, from + usize::from(gain))]
}

fn check(
    op: &'static str,
    inputs: &[Meta],
    wanted: usize,
    weights: [Option<&Meta>; 2],
) -> Result<()> {
    if inputs.len() != wanted || inputs[0].rank() == 0 {
        let reason = format!("it takes {wanted} operands, the first of an axis or more");
        return Err(refuse_shape(op, inputs, reason));
    }
    if inputs.iter().any(|meta| Number::of(meta.dtype).is_none()) {
        return Err(refuse_dtype(op, inputs, "types are F32, F16 and BF16"));
    }
    match weights {
        [Some(gain), Some(shift)] if gain.dtype != shift.dtype => {
            Err(refuse_dtype(op, inputs, "gain and shift must have one type"))
        }
        _ => Ok(()),
    }
}

impl RowNormOp {
    fn wanted(&self) -> usize {
        1 + [self.residual, self.gain, self.shift].into_iter().filter(|on| *on).count()
    }
}

impl Op for RowNormOp {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let weights = affine(inputs, 1 + usize::from(self.residual), self.gain, self.shift);
        check(op, inputs, self.wanted(), weights)?;
        let x = &inputs[0];
        for weight in weights.into_iter().flatten() {
            if broadcast_shape(op, &[x.clone(), weight.clone()])? != x.shape {
                return Err(refuse_shape(op, inputs, "gain and shift must repeat to x's shape"));
            }
        }
        if !self.residual {
            return Ok(vec![x.clone()]);
        }
        if inputs[1].shape != x.shape {
            return Err(refuse_shape(op, inputs, "the residual must have x's shape"));
        }
        Ok(vec![x.clone(), inputs[1].clone()])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        8.0 * inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let [gain, shift] = affine(inputs, 1 + usize::from(self.residual), self.gain, self.shift);
        let (kind, eps, gain_offset) = (self.kind, self.eps, self.gain_offset);
        let spec = RowNorm { kind, eps, gain, gain_offset, shift };
        match self.residual {
            true => add_norm(session, &spec, &inputs[0], &inputs[1], &outputs[1], &outputs[0]),
            false => norm(session, &spec, &inputs[0], &outputs[0]),
        }
    }
}

impl Op for GroupNormOp {
    fn name(&self) -> &'static str {
        "group_norm"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let op = self.name();
        let weights = affine(inputs, 1, self.gain, self.shift);
        check(op, inputs, 1 + usize::from(self.gain) + usize::from(self.shift), weights)?;
        let x = &inputs[0];
        if x.rank() < 2 || self.groups == 0 || !x.shape[1].is_multiple_of(self.groups) {
            let reason = format!("x is [batch, channels, ..], channels divided by {}", self.groups);
            return Err(refuse_shape(op, inputs, reason));
        }
        for weight in weights.into_iter().flatten() {
            let channels = Meta::new(x.dtype, &x.shape[..2]);
            if broadcast_shape(op, &[channels.clone(), weight.clone()])? != channels.shape {
                return Err(refuse_shape(
                    op,
                    inputs,
                    "gain and shift are [channels] or [batch, channels]",
                ));
            }
        }
        Ok(vec![x.clone()])
    }

    fn layout(&self, input: usize) -> Layout {
        if input == 0 { Layout::Dense } else { Layout::Any }
    }

    fn scratch(&self, _device: &Device, inputs: &[Meta]) -> Result<Vec<Meta>> {
        Ok(vec![Meta::new(DType::F32, &group_scratch_shape(&inputs[0].shape, self.groups))])
    }

    fn flops(&self, inputs: &[Meta], _outputs: &[Meta]) -> f64 {
        8.0 * inputs[0].elements() as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        scratch: &[Tensor],
    ) -> Result<()> {
        let [gain, shift] = affine(inputs, 1, self.gain, self.shift);
        let (groups, eps, silu) = (self.groups, self.eps, self.silu);
        let spec = GroupNorm { groups, eps, gain, gain_offset: 0.0, shift, silu };
        group_norm(session, &spec, &inputs[0], &scratch[0], &outputs[0])
    }
}

fn given<const N: usize>(values: [Option<Value>; N]) -> Vec<Value> {
    values.into_iter().flatten().collect()
}

impl Graph {
    /// Layer norm of the last axis; gain and shift repeat to the shape of `x`.
    pub fn layer_norm(
        &mut self,
        x: Value,
        gain: Option<Value>,
        shift: Option<Value>,
        eps: f32,
    ) -> Result<Value> {
        let op = RowNormOp {
            kind: Norm::Layer,
            eps,
            gain_offset: 0.0,
            residual: false,
            gain: gain.is_some(),
            shift: shift.is_some(),
        };
        self.apply(op, &given([Some(x), gain, shift]))
    }

    /// AdaLN: layer norm of the last axis, times `1 + scale`, plus `shift`; scale and shift repeat to
    /// the shape of `x`, as `[batch, 1, n]` does.
    pub fn modulated_norm(
        &mut self,
        x: Value,
        scale: Value,
        shift: Value,
        eps: f32,
    ) -> Result<Value> {
        let op = RowNormOp {
            kind: Norm::Layer,
            eps,
            gain_offset: 1.0,
            residual: false,
            gain: true,
            shift: true,
        };
        self.apply(op, &[x, scale, shift])
    }

    /// RMS norm of the last axis, times `gain + gain_offset` (offset 1 for Gemma).
    pub fn rms_norm(
        &mut self,
        x: Value,
        gain: Option<Value>,
        gain_offset: f32,
        eps: f32,
    ) -> Result<Value> {
        let (kind, gained) = (Norm::Rms, gain.is_some());
        let op = RowNormOp { kind, eps, gain_offset, residual: false, gain: gained, shift: false };
        self.apply(op, &given([Some(x), gain]))
    }

    /// Rows divided by their length, but by no less than ε.
    pub fn l2_norm(&mut self, x: Value, eps: f32) -> Result<Value> {
        let (kind, gain_offset) = (Norm::L2, 0.0);
        let op = RowNormOp { kind, eps, gain_offset, residual: false, gain: false, shift: false };
        self.apply(op, &[x])
    }

    /// The norm of `x + residual`, and that sum, in one pass. Operands are x, the residual, and what
    /// the description says of gain and shift.
    pub fn add_norm(&mut self, op: RowNormOp, operands: &[Value]) -> Result<[Value; 2]> {
        let values = self.apply_many(RowNormOp { residual: true, ..op }, operands)?;
        Ok([values[0], values[1]])
    }

    /// Group norm of `[batch, channels, ..]`, then SiLU if asked for; gain and shift are `[channels]`
    /// or `[batch, channels]`.
    pub fn group_norm(
        &mut self,
        x: Value,
        groups: usize,
        [gain, shift]: [Option<Value>; 2],
        eps: f32,
        silu: bool,
    ) -> Result<Value> {
        let op = GroupNormOp { groups, eps, gain: gain.is_some(), shift: shift.is_some(), silu };
        self.apply(op, &given([Some(x), gain, shift]))
    }
}
