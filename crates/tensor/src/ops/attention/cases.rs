//! Attention of every head size, mask, bias and layout; grouped heads, other lengths, decoding.

use tintype_gpu::DType;

use super::reference::{Operands, Spec};
use super::{Attention, attention, attention_scratch_shape};
use crate::Tensor;
use crate::ops::case::{Case, Layout, Operand, Values};

/// Operands out of a case's inputs; `rest` are the places of bias and positions.
fn operands(inputs: &[Values], rest: [Option<usize>; 4]) -> Operands<'_> {
    let [bias, q_positions, k_positions, lengths] = rest.map(|at| at.map(|at| &inputs[at]));
    let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
    Operands { q, k, v, bias, q_positions, k_positions, lengths }
}

/// A case under construction.
#[derive(Clone)]
struct Of {
    spec: Spec,
    /// Batches, heads, heads of keys, tokens, keys, numbers.
    sizes: [usize; 6],
    /// Types of q, of k and v, of out.
    types: [DType; 3],
    bias: Option<Operand>,
    /// Whether positions are given, and for each batch.
    q_positions: Option<bool>,
    k_positions: Option<bool>,
    /// Tokens of each sequence, in rings.
    lengths: Option<Vec<f32>>,
    layout: Layout,
}

impl Of {
    fn new(sizes: [usize; 6]) -> Self {
        let scale = 1.0 / (sizes[5] as f32).sqrt();
        Of {
            spec: Spec { scale, ..Spec::default() },
            sizes,
            types: [DType::F32; 3],
            bias: None,
            q_positions: None,
            k_positions: None,
            lengths: None,
            layout: Layout::Dense,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Of)) -> Self {
        change(&mut self);
        self
    }

    fn case(self) -> Case {
        let [batch, heads, kv_heads, t, s, d] = self.sizes;
        let spec = self.spec;
        let shape = |heads: usize, tokens: usize| match spec.tokens_outside {
            true => [batch, tokens, heads, d],
            false => [batch, heads, tokens, d],
        };
        let q = Operand::new(self.types[0], &shape(heads, t)).within(-3.0..3.0).laid(self.layout);
        let kv = Operand::new(self.types[1], &shape(kv_heads, s)).laid(self.layout);
        let out = Operand::new(self.types[2], &shape(heads, t)).laid(self.layout);
        let mut inputs = vec![q, kv.clone(), kv];
        let mut name_lengths = String::new();
        let mut place = |operand: Option<Operand>| {
            operand.map(|operand| {
                inputs.push(operand);
                inputs.len() - 1
            })
        };
        let bias = place(self.bias.clone());
        let positions = |n: usize, batched: bool, range: std::ops::Range<f32>| {
            let shape = if batched { vec![batch, n] } else { vec![n] };
            Operand::new(DType::I32, &shape).within(range)
        };
        let most = s as f32 * 1.2;
        let qp = place(self.q_positions.map(|batched| positions(t, batched, 0.0..most)));
        // A fifth of the keys is not there.
        let kp = place(self.k_positions.map(|batched| positions(s, batched, -0.2 * most..most)));
        let lengths = self.lengths.map(|lengths| {
            name_lengths = format!(" lengths {lengths:?}");
            Operand::new(DType::I32, &[batch]).holding(lengths)
        });
        let lengths = place(lengths);
        let rest = [bias, qp, kp, lengths];
        let mut name = format!("attention x{:.3}", spec.scale);
        for (on, what) in [
            (spec.causal, " causal"),
            (spec.window > 0, " window"),
            (spec.softcap > 0.0, " softcap"),
            (bias.is_some(), " bias"),
            (qp.is_some(), " q-positions"),
            (kp.is_some(), " k-positions"),
            (spec.tokens_outside, " tokens outside"),
        ] {
            name += if on { what } else { "" };
        }
        name += &name_lengths;
        // Sums of values with random signs, weighted evenly at most.
        let heads_of_keys = kv_heads * batch * s * d;
        Case::new(
            name,
            inputs,
            out,
            move |session, inputs, out| {
                let view = |tensor: &Tensor| match spec.tokens_outside {
                    true => tensor.permute(&[0, 2, 1, 3]),
                    false => Ok(tensor.clone()),
                };
                let [q, k, v] = [view(&inputs[0])?, view(&inputs[1])?, view(&inputs[2])?];
                let out = view(out)?;
                let scratch = attention_scratch_shape(session.device(), q.shape(), k.shape());
                let scratch = match scratch {
                    Some(shape) => Some(Tensor::empty(session.device(), DType::F32, &shape)?),
                    None => None,
                };
                let own = Attention {
                    scale: spec.scale,
                    softcap: spec.softcap,
                    causal: spec.causal,
                    window: spec.window,
                    offset: spec.offset,
                    bias: bias.map(|at| &inputs[at]),
                    q_positions: qp.map(|at| &inputs[at]),
                    k_positions: kp.map(|at| &inputs[at]),
                    lengths: lengths.map(|at| &inputs[at]),
                };
                attention(session, &own, &q, &k, &v, scratch.as_ref(), &out)
            },
            move |inputs| spec.all(&operands(inputs, rest)),
        )
        .spread(move |inputs| {
            // Norm of the mean of all values in each output: chance may make outputs smaller.
            let v = &inputs[2].data;
            let mean = v.iter().map(|v| v * v).sum::<f64>() / heads_of_keys as f64;
            (mean / s as f64 * (batch * heads * t * d) as f64).sqrt()
        })
        .sample(move |inputs, at| {
            let (row, number) = (at / d, at % d);
            let (outer, inner) = match spec.tokens_outside {
                true => (row / heads, row % heads),
                false => (row / t, row % t),
            };
            let place = match spec.tokens_outside {
                true => [outer / t, inner, outer % t],
                false => [outer / heads, outer % heads, inner],
            };
            spec.one(&operands(inputs, rest), place)[number]
        })
        .flops(4.0 * (batch * heads * t * s * d) as f64)
    }
}

pub(super) fn cases() -> Vec<Case> {
    let (f, h, b) = (DType::F32, DType::F16, DType::Bf16);
    let mut all = Vec::new();
    // Head sizes, prefill and decode.
    for d in [1, 33, 40, 64, 72, 80, 96, 128, 160, 256, 512] {
        all.push(Of::new([1, 2, 2, 37, 45, d]));
        all.push(Of::new([2, 2, 1, 1, 300, d]).with(|of| of.spec.tokens_outside = true));
    }
    // Sizes at the edges of tiles.
    for (t, s) in [(1, 1), (2, 31), (3, 33), (5, 257), (31, 64), (64, 65), (65, 32), (130, 513)] {
        for tokens_outside in [false, true] {
            all.push(
                Of::new([2, 4, 2, t, s, 40]).with(|of| of.spec.tokens_outside = tokens_outside),
            );
        }
    }
    // Masks.
    for (t, s, offset) in [(50, 50, 0), (7, 60, 53), (1, 300, 299), (70, 40, 0), (4, 600, 500)] {
        let of = Of::new([2, 4, 2, t, s, 32]).with(|of| {
            of.spec.causal = true;
            of.spec.offset = offset;
        });
        all.push(of.clone());
        all.push(of.clone().with(|of| of.spec.window = 9));
        all.push(of.clone().with(|of| {
            of.spec.causal = false;
            of.spec.window = 20;
        }));
        all.push(of.clone().with(|of| of.k_positions = Some(true)));
        all.push(of.clone().with(|of| {
            of.q_positions = Some(true);
            of.k_positions = Some(true);
            of.spec.window = 100;
        }));
        all.push(of.with(|of| {
            of.q_positions = Some(false);
            of.spec.causal = false;
            of.k_positions = Some(false);
        }));
    }
    // Bias and soft-cap; T5 has no scale.
    for (bias, dtype) in [
        (&[1, 4, 37, 45][..], f),
        (&[4, 37, 45], h),
        (&[2, 1, 1, 45], f),
        (&[2, 4, 37, 45], b),
        (&[37, 45], f),
    ] {
        all.push(Of::new([2, 4, 4, 37, 45, 24]).with(|of| {
            of.bias = Some(Operand::new(dtype, bias).within(-4.0..1.0));
            of.spec.scale = 1.0;
            of.spec.softcap = 5.0;
        }));
    }
    all.push(Of::new([1, 4, 1, 2, 700, 64]).with(|of| {
        of.bias = Some(Operand::new(f, &[4, 2, 700]).within(-4.0..1.0));
        of.spec.softcap = 5.0;
    }));
    // Types.
    for types in [[h; 3], [b; 3], [f, h, f], [h, h, f], [f, b, h]] {
        for (t, s) in [(33, 70), (1, 500)] {
            all.push(Of::new([2, 4, 2, t, s, 64]).with(|of| of.types = types));
            all.push(Of::new([1, 4, 4, t, s, 40]).with(|of| {
                of.types = types;
                of.spec.tokens_outside = true;
            }));
        }
    }
    // Views.
    for layout in [Layout::Offset(3), Layout::Padded(5)] {
        for (t, s) in [(33, 70), (1, 300), (66, 66)] {
            for tokens_outside in [false, true] {
                all.push(Of::new([2, 4, 2, t, s, 40]).with(|of| {
                    of.layout = layout;
                    of.spec.tokens_outside = tokens_outside;
                }));
            }
        }
    }
    // Rings: not full, just full, gone round; empty; more queries than a tile; every type of cache.
    for kv in [f, h, b, DType::Q8_0] {
        for (t, s, lengths) in [
            (1, 40, vec![1.0, 40.0, 41.0]),
            (1, 600, vec![0.0, 700.0, 350.0]),
            (5, 70, vec![5.0, 60.0, 1000.0]),
            (33, 80, vec![33.0, 80.0, 131.0]),
        ] {
            let of = Of::new([3, 4, 2, t, s, 64]).with(|of| {
                of.types = [f, kv, f];
                of.spec.causal = true;
                of.lengths = Some(lengths);
            });
            all.push(of.clone());
            // Not more than a ring that has gone round still holds.
            all.push(of.clone().with(|of| of.spec.window = s - t));
            all.push(of.clone().with(|of| of.spec.tokens_outside = true));
            all.push(of.with(|of| {
                of.spec.causal = false;
                of.spec.softcap = 3.0;
                of.q_positions = Some(true);
            }));
        }
        let one = Of::new([1, 2, 1, 1, 300, 32]).with(|of| of.types = [h, kv, h]);
        all.push(one.with(|of| {
            of.spec.causal = true;
            of.lengths = Some(vec![299.0]);
            of.layout = Layout::Offset(if kv == DType::Q8_0 { 32 } else { 3 });
        }));
    }
    all.into_iter().map(Of::case).collect()
}

pub(super) fn benches() -> Vec<Case> {
    let h = DType::F16;
    let outside = |sizes| Of::new(sizes).with(|of| of.spec.tokens_outside = true);
    let causal = |sizes: [usize; 6]| {
        outside(sizes).with(|of| {
            of.spec.causal = true;
            of.spec.offset = sizes[4] - sizes[3];
        })
    };
    vec![
        // SD1.5: self and cross. SDXL. PixArt at 512 pixels: self and cross to T5.
        outside([2, 8, 8, 4096, 4096, 40]).case(),
        outside([2, 8, 8, 4096, 77, 40]).case(),
        outside([2, 8, 8, 1024, 1024, 80]).case(),
        outside([2, 20, 20, 1024, 1024, 64]).case(),
        outside([2, 20, 20, 1024, 1024, 64]).with(|of| of.types = [h; 3]).case(),
        outside([2, 16, 16, 1024, 1024, 72]).case(),
        outside([2, 16, 16, 1024, 120, 72]).case(),
        // T5, with its bias.
        outside([1, 64, 64, 120, 120, 64])
            .with(|of| of.bias = Some(Operand::new(DType::F32, &[64, 120, 120])))
            .case(),
        // A VAE's middle block.
        Of::new([1, 1, 1, 4096, 4096, 512]).case(),
        // Language models: prefill and decode.
        causal([1, 4, 1, 512, 512, 256]).case(),
        causal([1, 32, 8, 1024, 1024, 128]).case(),
        causal([1, 4, 1, 1, 2048, 256]).case(),
        causal([1, 32, 8, 1, 4096, 128]).case(),
        causal([1, 32, 8, 1, 4096, 128]).with(|of| of.types = [DType::F32, h, DType::F32]).case(),
        causal([1, 32, 8, 1, 4096, 128])
            .with(|of| {
                of.types = [DType::F32, DType::Q8_0, DType::F32];
                of.lengths = Some(vec![4096.0]);
            })
            .case(),
    ]
}
