//! Blocks decode as Python `gguf` decodes them (`data/make_quant_golden.py`), by the float64 oracle
//! and by the kernels, which are given unit vectors.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::DType;
use tintype_tensor::ops::quant_matmul::quant_matmul;
use tintype_tensor::{Tensor, quant};

struct Golden {
    dtype: DType,
    blocks: Vec<u8>,
    values: Vec<f32>,
}

fn goldens() -> Vec<Golden> {
    let mut rest: &[u8] = include_bytes!("data/quant_golden.bin");
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n);
        rest = tail;
        head
    };
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let mut all = Vec::new();
    for _ in quant::TYPES {
        let len = word(take(4));
        let name = std::str::from_utf8(take(len)).unwrap();
        let dtype = *DType::ALL.iter().find(|dtype| dtype.name() == name).unwrap();
        let [count, size, elements] = [word(take(4)), word(take(4)), word(take(4))];
        assert_eq!((size as u64, elements as u64), (dtype.block_bytes(), dtype.block_elements()));
        let blocks = take(count * size).to_vec();
        let values = take(count * elements * 4).chunks_exact(4);
        let values = values.map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        all.push(Golden { dtype, blocks, values });
    }
    assert!(rest.is_empty(), "the file holds more types than the loop reads");
    all
}

#[test]
fn the_oracle_decodes_as_gguf_does() {
    for golden in goldens() {
        let ours = quant::reference::decode(golden.dtype, &golden.blocks).unwrap();
        assert_eq!(ours.len(), golden.values.len());
        for (at, (ours, theirs)) in ours.iter().zip(&golden.values).enumerate() {
            let theirs = f64::from(*theirs);
            // gguf rounds its product to f32.
            assert!((ours - theirs).abs() <= theirs.abs() * 1.2e-7, "{} {at}", golden.dtype);
        }
    }
}

#[test]
fn kernels_decode_as_gguf_does() {
    for device in devices() {
        for golden in goldens() {
            let k = golden.dtype.block_elements() as usize;
            let rows = golden.values.len() / k;
            let weights =
                device.buffer_from_bytes(golden.dtype, &[rows, k], &golden.blocks).unwrap();
            let mut unit = vec![0.0f32; k * k];
            (0..k).for_each(|at| unit[at * k + at] = 1.0);
            let x = device.buffer_from(&[k, k], &unit).unwrap();
            let out = device.buffer(DType::F32, &[k, rows]).unwrap();
            let [weights, x, out] = [weights, x, out].map(|buffer| Tensor::of(&buffer).unwrap());
            let mut session = device.session().unwrap();
            quant_matmul(&mut session, &weights, &x, &out).unwrap();
            let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
            let got: Vec<f32> = done.read(out.buffer()).unwrap();
            for row in 0..rows {
                for at in 0..k {
                    let (ours, theirs) = (got[at * rows + row], golden.values[row * k + at]);
                    let near = (ours - theirs).abs() <= theirs.abs() * 1.2e-7;
                    assert!(near, "{device:?} {} {row} {at}: {ours} {theirs}", golden.dtype);
                }
            }
        }
    }
}

#[test]
fn a_batch_gives_bit_for_bit_what_its_vectors_give_alone() {
    let mut random = fastrand::Rng::with_seed(seed());
    for device in devices() {
        for dtype in quant::TYPES {
            // On GPUs up to 16; on the CPU any number.
            let m = if device.info().limits.threads > 0 { 45 } else { 15 };
            let (rows, k) = (301, 768);
            let weights = random_blocks(dtype, rows * k, &mut random);
            let x: Vec<f32> = (0..m * k).map(|_| random.f32() - 0.5).collect();
            let run = |x: &[f32]| -> Vec<f32> {
                let m = x.len() / k;
                let weights = device.buffer_from_bytes(dtype, &[rows, k], &weights).unwrap();
                let x = device.buffer_from(&[m, k], x).unwrap();
                let out = device.buffer(DType::F32, &[m, rows]).unwrap();
                let [weights, x, out] = [weights, x, out].map(|b| Tensor::of(&b).unwrap());
                let mut session = device.session().unwrap();
                quant_matmul(&mut session, &weights, &x, &out).unwrap();
                let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
                done.read(out.buffer()).unwrap()
            };
            let alone: Vec<f32> = x.chunks_exact(k).flat_map(run).collect();
            assert!(run(&x) == alone, "{device:?} {dtype}");
        }
    }
}
