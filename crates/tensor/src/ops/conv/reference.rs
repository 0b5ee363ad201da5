//! Convolution in double precision, tap by tap. It must not share code with the kernels.

use super::{Conv, Direction};
use crate::ops::case::Values;

/// Output values, bias added and activation applied, of x `[n, c, h, w]` and weights of four axes.
pub(super) fn conv(
    x: &Values,
    weights: &Values,
    bias: Option<&Values>,
    conv: &Conv,
    direction: Direction,
    out: [usize; 4],
) -> Vec<f64> {
    let mut all = sums(x, weights, conv, direction, out, |x, w| x * w);
    let pixels = out[2] * out[3];
    let activation = conv.activation.reference();
    for (at, value) in all.iter_mut().enumerate() {
        *value += bias.map_or(0.0, |bias| bias.data[at / pixels % out[1]]);
        *value = activation(*value, 0.0, 0.0);
    }
    all
}

/// Norm of the output if its terms' signs were independent.
pub(super) fn spread(
    x: &Values,
    weights: &Values,
    conv: &Conv,
    direction: Direction,
    out: [usize; 4],
) -> f64 {
    sums(x, weights, conv, direction, out, |x, w| (x * w).powi(2)).iter().sum::<f64>().sqrt()
}

fn sums(
    x: &Values,
    weights: &Values,
    conv: &Conv,
    direction: Direction,
    [n, o, oh, ow]: [usize; 4],
    term: fn(f64, f64) -> f64,
) -> Vec<f64> {
    let ([c, h, w], [kh, kw]) =
        ([x.shape[1], x.shape[2], x.shape[3]], [weights.shape[2], weights.shape[3]]);
    let (ins, outs) = (c / conv.groups, o / conv.groups);
    let mut all = vec![0.0; n * o * oh * ow];
    let mut add = |image: usize, filter: usize, at: [i64; 2], value: f64| {
        if (0..oh as i64).contains(&at[0]) && (0..ow as i64).contains(&at[1]) {
            all[((image * o + filter) * oh + at[0] as usize) * ow + at[1] as usize] += value;
        }
    };
    for image in 0..n {
        for channel in 0..c {
            let group = channel / ins;
            for filter in 0..outs {
                for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                    let weight = match direction {
                        Direction::Forward => {
                            ((group * outs + filter) * ins + channel % ins) * kh + ky
                        }
                        Direction::Transposed => (channel * outs + filter) * kh + ky,
                    };
                    let weight = weights.data[weight * kw + kx];
                    for (y, x_at) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
                        let value =
                            term(x.data[((image * c + channel) * h + y) * w + x_at], weight);
                        let tap = [ky * conv.dilation[0], kx * conv.dilation[1]];
                        let from = [y, x_at];
                        let place = |axis: usize| {
                            let (stride, pad) =
                                (conv.stride[axis] as i64, conv.padding[axis][0] as i64);
                            let (from, tap) = (from[axis] as i64, tap[axis] as i64);
                            match direction {
                                // from = to·stride + tap − pad
                                Direction::Forward => {
                                    let scaled = from - tap + pad;
                                    if scaled.rem_euclid(stride) == 0 {
                                        scaled / stride
                                    } else {
                                        -1
                                    }
                                }
                                Direction::Transposed => from * stride + tap - pad,
                            }
                        };
                        add(image, group * outs + filter, [place(0), place(1)], value);
                    }
                }
            }
        }
    }
    all
}
