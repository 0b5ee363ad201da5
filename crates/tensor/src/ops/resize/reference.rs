//! Resizing in double precision, by PyTorch's formulas.

use super::Resize;
use crate::ops::case::Values;

pub(super) fn resize(how: Resize, x: &Values, out: [usize; 4]) -> Vec<f64> {
    let (h, w) = (x.shape[2], x.shape[3]);
    let [n, c, oh, ow] = out;
    let mut all = Vec::with_capacity(n * c * oh * ow);
    for plane in 0..n * c {
        let pixel = |y: usize, z: usize| x.data[(plane * h + y.min(h - 1)) * w + z.min(w - 1)];
        for y in 0..oh {
            for z in 0..ow {
                let (y, z) = (place(how, y, h, oh), place(how, z, w, ow));
                let ([y0, z0], [fy, fz]) = ([y.0, z.0], [y.1, z.1]);
                let upper = pixel(y0, z0) * (1.0 - fz) + pixel(y0, z0 + 1) * fz;
                let lower = pixel(y0 + 1, z0) * (1.0 - fz) + pixel(y0 + 1, z0 + 1) * fz;
                all.push(upper * (1.0 - fy) + lower * fy);
            }
        }
    }
    all
}

/// The pixel before, and how far beyond it.
fn place(how: Resize, at: usize, from: usize, to: usize) -> (usize, f64) {
    let (at, ratio) = (at as f64, from as f64 / to as f64);
    // Exact fractions lie on or between pixels; a rounding error must not push one below its pixel.
    let whole = |place: f64| ((place + 1e-9).floor().min(from as f64 - 1.0) as usize, 0.0);
    let between = |place: f64| {
        let place = place.max(0.0);
        let floor = (place + 1e-9).floor();
        (floor as usize, (place - floor).max(0.0))
    };
    match how {
        Resize::Nearest => whole(at * ratio),
        Resize::NearestExact => whole((at + 0.5) * ratio),
        Resize::Bilinear => between((at + 0.5) * ratio - 0.5),
        Resize::BilinearCorners if to == 1 => (0, 0.0),
        Resize::BilinearCorners => between(at * (from as f64 - 1.0) / (to as f64 - 1.0)),
    }
}
