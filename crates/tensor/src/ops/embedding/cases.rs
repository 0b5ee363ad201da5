//! Tables of every type, ids of one and two axes, views.

use tintype_gpu::DType;

use super::embedding;
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};
use crate::quant::TYPES;

fn rows(scale: f32, table: Operand, ids: Operand, out: Operand) -> Case {
    let (vocabulary, n) = (table.shape[0], table.shape[1]);
    let ids = ids.within(0.0..vocabulary as f32);
    Case::new(
        format!("embedding x{scale}"),
        vec![table, ids],
        out,
        move |session, inputs, out| embedding(session, scale, &inputs[0], &inputs[1], out),
        move |inputs| {
            let row = |id: &f64| inputs[0].data[*id as usize * n..][..n].to_vec();
            let all = inputs[1].data.iter().flat_map(row);
            all.map(|v| v * f64::from(scale)).collect()
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for table in NUMBERS.map(|number| number.dtype()).into_iter().chain(TYPES) {
        for out in NUMBERS.map(|number| number.dtype()) {
            let sizes = match table.block_elements() {
                256 => [(50, 768), (3, 256), (1, 512)],
                _ => [(50, 96), (3, 32), (1, 288)],
            };
            for (vocabulary, n) in sizes {
                for ids in [&[7][..], &[2, 5]] {
                    let shape = [ids, &[n]].concat();
                    let (table, out) =
                        (Operand::new(table, &[vocabulary, n]), Operand::new(out, &shape));
                    all.push(rows(1.0, table.clone(), Operand::new(DType::I32, ids), out.clone()));
                    let out = out.laid(Layout::Padded(3));
                    let ids = Operand::new(DType::U32, ids).laid(Layout::Stepped(1));
                    all.push(rows(13.5, table, ids, out));
                }
            }
        }
        if !table.is_quantized() {
            let table = Operand::new(table, &[9, 33]).laid(Layout::Padded(5));
            all.push(rows(
                1.0,
                table,
                Operand::new(DType::I32, &[4]),
                Operand::new(DType::F32, &[4, 33]),
            ));
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let of = |dtype, n, tokens| {
        rows(
            1.0,
            Operand::new(dtype, &[32_128, n]),
            Operand::new(DType::I32, &[tokens]),
            Operand::new(DType::F32, &[tokens, n]),
        )
    };
    vec![of(DType::F16, 4096, 120), of(DType::Q8_0, 4096, 120), of(DType::Q8_0, 640, 1)]
}
