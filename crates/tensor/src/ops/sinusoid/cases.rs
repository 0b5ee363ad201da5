//! Timesteps whole and fractional, odd numbers of frequencies, every type, views.

use tintype_gpu::DType;

use super::{frequencies, reference, sinusoid};
use crate::number::NUMBERS;
use crate::ops::case::{Case, LAYOUTS, Layout, ODD_SIZES, Operand};

fn of(cosines_first: bool, x: Operand, frequencies: Operand, dtype: DType, layout: Layout) -> Case {
    let shape = [&x.shape[..], &[2 * frequencies.shape[0]]].concat();
    Case::new(
        if cosines_first { "cosines, sines" } else { "sines, cosines" },
        vec![x, frequencies],
        Operand::new(dtype, &shape).laid(layout),
        move |session, inputs, out| sinusoid(session, cosines_first, &inputs[0], &inputs[1], out),
        move |inputs| reference::sinusoid(cosines_first, &inputs[0], &inputs[1]),
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let f = DType::F32;
    for dtype in NUMBERS.map(|number| number.dtype()) {
        for half in ODD_SIZES {
            let by = Operand::new(f, &[half]).within(1e-4..1.0);
            let x = Operand::new(f, &[3]).within(0.0..1000.0);
            all.push(of(half % 2 == 0, x, by, dtype, Layout::Dense));
        }
        for layout in LAYOUTS {
            let by = Operand::new(f, &[67]).within(1e-4..1.0).laid(Layout::Offset(3));
            let x = Operand::new(f, &[2, 5]).within(-1000.0..1000.0).laid(layout);
            // Rows of an output lie one after another.
            let to = if layout == Layout::Transposed { Layout::Offset(1) } else { layout };
            all.push(of(false, x, by, dtype, to));
        }
    }
    // A model's own.
    let by = Operand::new(f, &[160]).holding(frequencies(160, 10_000.0, 0.0));
    let x = Operand::new(f, &[4]).holding(vec![0.0, 1.0, 999.0, 512.5]);
    all.push(of(true, x, by, f, Layout::Dense));
    all
}

pub(super) fn benches() -> Vec<Case> {
    let by = Operand::new(DType::F32, &[160]).within(1e-4..1.0);
    let x = Operand::new(DType::F32, &[2]).within(0.0..1000.0);
    vec![of(true, x, by, DType::F32, Layout::Dense)]
}
