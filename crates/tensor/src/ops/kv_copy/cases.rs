//! Caches of every type: inside, around the ring's end, some tokens left out, views.

use tintype_gpu::DType;

use super::{kv_copy, reference};
use crate::Tensor;
use crate::number::NUMBERS;
use crate::ops::case::{Case, Layout, Operand};

/// Sizes: batch, heads, tokens, capacity, numbers. `first` is each sequence's first position; `outside`:
/// the cache is `[batch, capacity, heads, n]` in memory.
fn of(
    [rows, cache]: [DType; 2],
    [batch, heads, tokens, capacity, n]: [usize; 5],
    first: &[i32],
    layout: Layout,
) -> Case {
    let batched = first.len() > 1;
    let line = |first: &i32| (0..tokens as i32).map(|t| (first + t) as f32).collect::<Vec<_>>();
    let positions: Vec<f32> = first.iter().flat_map(line).collect();
    let shape = if batched { vec![batch, tokens] } else { vec![tokens] };
    let cache_operand = Operand::new(cache, &[batch, heads, capacity, n]);
    let case = Case::new(
        format!("kv_copy {first:?}"),
        vec![
            Operand::new(rows, &[batch, heads, tokens, n]).laid(layout),
            Operand::new(DType::I32, &shape).holding(positions),
            cache_operand.clone(),
        ],
        cache_operand,
        |session, inputs, out: &Tensor| kv_copy(session, &inputs[0], &inputs[1], out),
        move |inputs| reference::kv_copy(cache, &inputs[0], &inputs[1], &inputs[2]),
    )
    .in_place(2);
    // A scale or a step may fall on the other side of a tie.
    if cache == DType::Q8_0 || cache != rows { case } else { case.exact() }
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for rows in NUMBERS.map(|number| number.dtype()) {
        for cache in [DType::F32, DType::F16, DType::Bf16, DType::Q8_0] {
            let types = [rows, cache];
            all.push(of(types, [1, 1, 1, 5, 32], &[3], Layout::Dense));
            all.push(of(types, [2, 3, 4, 7, 96], &[5, 0], Layout::Dense));
            all.push(of(types, [3, 2, 1, 9, 64], &[8, -1, 20], Layout::Padded(5)));
            all.push(of(types, [2, 2, 6, 6, 32], &[-2, 1000], Layout::Offset(3)));
            all.push(of(types, [2, 4, 5, 8, 64], &[6], Layout::Dense));
            if cache != DType::Q8_0 {
                all.push(of(types, [2, 3, 4, 11, 33], &[9, 2], Layout::Offset(1)));
            }
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let (f, h, q) = (DType::F32, DType::F16, DType::Q8_0);
    vec![
        of([f, h], [1, 8, 1, 4096, 128], &[4095], Layout::Dense),
        of([f, h], [1, 8, 512, 4096, 128], &[3900], Layout::Dense),
        of([f, q], [1, 8, 512, 4096, 128], &[3900], Layout::Dense),
    ]
}
