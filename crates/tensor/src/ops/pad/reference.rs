//! What padding gives: each output's place looked up in the input.

use super::Pad;
use crate::ops::case::Values;

pub(super) fn pad(how: Pad, padding: &[[usize; 2]], a: &Values, out: &[usize]) -> Vec<f64> {
    let value = |at: usize| {
        let (mut rest, mut index, mut stride) = (at, 0, 1);
        let mut outside = false;
        for axis in (0..out.len()).rev() {
            let n = a.shape[axis] as i64;
            let mut place = (rest % out[axis]) as i64 - padding[axis][0] as i64;
            rest /= out[axis];
            match how {
                Pad::Constant(_) => outside |= place < 0 || place >= n,
                Pad::Reflect if place < 0 => place = -place,
                Pad::Reflect if place >= n => place = 2 * (n - 1) - place,
                Pad::Reflect => {}
                Pad::Replicate => place = place.clamp(0, n - 1),
            }
            index += if outside { 0 } else { place * stride };
            stride *= n;
        }
        match how {
            Pad::Constant(value) if outside => f64::from(value),
            _ => a.data[index as usize],
        }
    };
    (0..out.iter().product()).map(value).collect()
}
