//! Sinusoids in float64.

use crate::ops::case::Values;

pub(super) fn sinusoid(cosines_first: bool, x: &Values, frequencies: &Values) -> Vec<f64> {
    let row = |x: &f64| {
        let angles = || frequencies.data.iter().map(move |frequency| x * frequency);
        let (sines, cosines) = (angles().map(f64::sin), angles().map(f64::cos));
        match cosines_first {
            true => cosines.chain(sines).collect::<Vec<_>>(),
            false => sines.chain(cosines).collect(),
        }
    };
    x.data.iter().flat_map(row).collect()
}
