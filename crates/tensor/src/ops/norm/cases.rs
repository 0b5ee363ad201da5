//! Every norm with and without gain and shift, residual sums, modulation, groups; odd sizes and views.

use tintype_gpu::DType;

use super::reference::{self, Affine};
use super::{GroupNorm, Norm, RowNorm, add_norm, group_norm, group_scratch_shape, norm};
use crate::Tensor;
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, ODD_SIZES, Operand, Values};

const EPS: f32 = 1e-5;

/// Where gain and shift come from.
#[derive(Clone, Copy, PartialEq)]
enum With {
    Nothing,
    /// Weights `[n]`.
    Gain,
    /// Weights `[n]`, stored as differences from 1.
    GainFromOne,
    /// Weights `[n]` and `[n]`.
    Both,
    /// Scale and shift `[batch, 1, n]`, the scale a difference from 1: AdaLN.
    Modulation,
}

impl With {
    fn operands(self, dtype: DType, shape: &[usize]) -> Vec<Operand> {
        let n = shape[shape.len() - 1];
        let weights = Operand::new(dtype, &[n]).within(0.5..1.5);
        match self {
            With::Nothing => vec![],
            With::Gain | With::GainFromOne => vec![weights],
            With::Both => vec![weights.clone(), weights],
            With::Modulation => {
                let mut own = vec![1; shape.len()];
                own[0] = shape[0];
                own[shape.len() - 1] = n;
                vec![Operand::new(dtype, &own); 2]
            }
        }
    }

    fn offset(self) -> f32 {
        if matches!(self, With::GainFromOne | With::Modulation) { 1.0 } else { 0.0 }
    }

    fn name(self) -> &'static str {
        match self {
            With::Nothing => "",
            With::Gain => " gain",
            With::GainFromOne => " 1+gain",
            With::Both => " gain shift",
            With::Modulation => " modulated",
        }
    }
}

fn spec<'a>(kind: Norm, offset: f32, weights: &'a [Tensor]) -> RowNorm<'a> {
    let mut norm = RowNorm::new(kind, EPS);
    (norm.gain, norm.gain_offset, norm.shift) = (weights.first(), offset, weights.get(1));
    norm
}

fn affine(offset: f32, weights: &[Values]) -> Affine<'_> {
    Affine { gain: weights.first(), offset: offset.into(), shift: weights.get(1) }
}

fn row(kind: Norm, with: With, w: DType, x: Operand, out: Operand) -> Case {
    let shape = x.shape.clone();
    let mut inputs = with.operands(w, &shape);
    inputs.insert(0, x);
    let offset = with.offset();
    Case::new(
        format!("{}{}", kind.name(), with.name()),
        inputs,
        out,
        move |session, inputs, out| {
            norm(session, &spec(kind, offset, &inputs[1..]), &inputs[0], out)
        },
        move |inputs| {
            let affine = affine(offset, &inputs[1..]);
            reference::row(kind, f64::from(EPS), &inputs[0].data, &shape, &affine)
        },
    )
}

/// One of the two outputs of a norm of a sum; the other goes to a tensor that is dropped.
fn added(
    kind: Norm,
    with: With,
    w: DType,
    x: Operand,
    r: Operand,
    out: Operand,
    sum: bool,
) -> Case {
    let shape = x.shape.clone();
    let (tx, tr) = (x.dtype, r.dtype);
    let mut inputs = with.operands(w, &shape);
    inputs.splice(0..0, [x, r]);
    let offset = with.offset();
    Case::new(
        format!("{}{} of a sum{}", kind.name(), with.name(), if sum { ", the sum" } else { "" }),
        inputs,
        out,
        move |session, inputs, out| {
            let dtype = if sum { tx } else { tr };
            let other = Tensor::empty(session.device(), dtype, out.shape())?;
            let (sums, out) = if sum { (out, &other) } else { (&other, out) };
            let norm = spec(kind, offset, &inputs[2..]);
            add_norm(session, &norm, &inputs[0], &inputs[1], sums, out)
        },
        move |inputs| {
            let pairs = inputs[0].data.iter().zip(&inputs[1].data);
            let sums: Vec<f64> = pairs.map(|(x, r)| x + r).collect();
            if sum {
                return sums;
            }
            let affine = affine(offset, &inputs[2..]);
            reference::row(kind, f64::from(EPS), &sums, &shape, &affine)
        },
    )
}

fn grouped(groups: usize, weights: &[Operand], silu: bool, x: Operand, out: Operand) -> Case {
    let mut inputs = vec![x];
    inputs.extend_from_slice(weights);
    Case::new(
        format!("group_norm {groups}{}", if silu { " silu" } else { "" }),
        inputs,
        out,
        move |session, inputs, out| {
            let shape = group_scratch_shape(inputs[0].shape(), groups);
            let scratch = Tensor::empty(session.device(), DType::F32, &shape)?;
            let (gain, shift) = (inputs.get(1), inputs.get(2));
            let norm = GroupNorm { groups, eps: EPS, gain, gain_offset: 0.0, shift, silu };
            group_norm(session, &norm, &inputs[0], &scratch, out)
        },
        move |inputs| {
            // Weights repeat over positions: [channels, 1] or [batch, channels, 1].
            let weights: Vec<Values> = inputs[1..]
                .iter()
                .map(|w| Values { shape: [&w.shape[..], &[1]].concat(), data: w.data.clone() })
                .collect();
            let affine = affine(0.0, &weights);
            reference::group(groups, f64::from(EPS), &inputs[0], &affine, silu)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let f = DType::F32;
    let all_with = [With::Nothing, With::Gain, With::GainFromOne, With::Both, With::Modulation];
    let operand = |dtype, shape: &[usize]| Operand::new(dtype, shape).within(-1.0..3.0);
    let mut all = Vec::new();
    for kind in Norm::ALL {
        for dtype in NUMBERS.map(|number| number.dtype()) {
            for with in all_with {
                let x = operand(dtype, &[2, 5, 67]);
                all.push(row(kind, with, dtype, x.clone(), x.clone()));
                all.push(row(kind, with, f, x.clone(), operand(f, &[2, 5, 67])));
                for sum in [false, true] {
                    all.push(added(kind, with, dtype, x.clone(), x.clone(), x.clone(), sum));
                }
            }
            for n in ODD_SIZES.into_iter().filter(|&n| n > 1 || kind != Norm::Layer) {
                let x = operand(dtype, &[3, n]);
                all.push(row(kind, With::Both, dtype, x.clone(), x));
            }
            for (from, to) in [
                (Layout::Offset(3), Layout::Padded(5)),
                (Layout::Padded(1), Layout::Offset(2)),
                (Layout::Transposed, Layout::Dense),
                (Layout::Stepped(1), Layout::Stepped(3)),
            ] {
                let (x, out) = (operand(dtype, &[3, 9, 130]), operand(dtype, &[3, 9, 130]));
                let (x, out) = (x.laid(from), out.laid(to));
                all.push(row(kind, With::Modulation, dtype, x.clone(), out.clone()));
                all.push(added(kind, With::Gain, dtype, x, out.clone(), out, false));
            }
        }
        // A residual stream in f32 beside f16.
        let (x, r) = (operand(DType::F16, &[7, 300]), operand(f, &[7, 300]));
        all.push(added(kind, With::Both, DType::F16, x.clone(), r.clone(), x.clone(), false));
        all.push(added(kind, With::Both, DType::F16, x, r.clone(), r, true));
    }
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for silu in [false, true] {
            let x = operand(dtype, &[2, 6, 7, 9]);
            let weights = Operand::new(dtype, &[6]).within(0.5..1.5);
            all.push(grouped(3, &[weights.clone(), weights.clone()], silu, x.clone(), x.clone()));
            all.push(grouped(1, &[weights], silu, x.clone().laid(Layout::Offset(1)), x.clone()));
            all.push(grouped(6, &[], silu, x.clone(), x));
        }
    }
    let per_batch = Operand::new(f, &[2, 4]);
    all.push(grouped(
        2,
        &[per_batch.clone(), per_batch],
        true,
        operand(f, &[2, 4, 11]),
        operand(f, &[2, 4, 11]),
    ));
    // Several parts a group, the last one short; a view whose channels lie inside.
    all.push(grouped(2, &[], false, operand(f, &[1, 4, 111, 93]), operand(f, &[1, 4, 111, 93])));
    let turned = operand(f, &[2, 8, 65]).laid(Layout::Transposed);
    all.push(grouped(4, &[], true, turned, operand(f, &[2, 8, 65])));
    all.push(grouped(
        2,
        &[],
        false,
        operand(f, &[3, 4, 5]),
        operand(f, &[3, 4, 5]).laid(Layout::Padded(3)),
    ));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let (f, h) = (DType::F32, DType::F16);
    let of = |dtype, shape: &[usize]| Operand::new(dtype, shape);
    let groups = |dtype, shape: &[usize]| {
        let w = of(dtype, &[shape[1]]);
        grouped(32, &[w.clone(), w], true, of(dtype, shape), of(dtype, shape))
    };
    let rows = |kind, with, dtype, shape: &[usize]| {
        row(kind, with, dtype, of(dtype, shape), of(dtype, shape))
    };
    let hidden = || of(f, &[1, 4096, 1152]);
    vec![
        // PixArt, SD1.5's transformer blocks, T5, a language model's prefill and decode.
        rows(Norm::Layer, With::Modulation, f, &[2, 1024, 1152]),
        rows(Norm::Layer, With::Both, f, &[2, 4096, 320]),
        rows(Norm::Rms, With::Gain, f, &[120, 4096]),
        rows(Norm::Rms, With::GainFromOne, h, &[512, 2560]),
        rows(Norm::Rms, With::GainFromOne, f, &[1, 2560]),
        added(Norm::Layer, With::Modulation, f, hidden(), hidden(), hidden(), false),
        // ResNet blocks of SD1.5 and of a VAE.
        groups(f, &[2, 320, 64, 64]),
        groups(f, &[2, 1280, 16, 16]),
        groups(f, &[1, 128, 512, 512]),
        groups(h, &[2, 320, 128, 128]),
    ]
}
