//! What operations refuse, and that their messages name the operation and the shapes.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::{DType, Device, Session};
use tintype_tensor::ops::argmax::argmax;
use tintype_tensor::ops::attention::{Attention, attention};
use tintype_tensor::ops::copy::copy;
use tintype_tensor::ops::cumsum::cumsum;
use tintype_tensor::ops::embedding::embedding;
use tintype_tensor::ops::gather::gather;
use tintype_tensor::ops::kv_copy::kv_copy;
use tintype_tensor::ops::matmul::{linear, matmul};
use tintype_tensor::ops::pointwise::{Binary, binary};
use tintype_tensor::ops::quant_matmul::quant_matmul;
use tintype_tensor::ops::reduce::{Fold, reduce};
use tintype_tensor::ops::softcap::softcap_in_place;
use tintype_tensor::{Result, Tensor};

fn tensor(device: &Device, dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::empty(device, dtype, shape).unwrap()
}

#[test]
fn refusals_name_the_operation_and_the_shapes() {
    let device = cpu(1);
    let f = |shape: &[usize]| tensor(&device, DType::F32, shape);
    let i = |shape: &[usize]| tensor(&device, DType::I32, shape);
    let mut session = device.session().unwrap();
    let s = &mut session;
    let weights = tensor(&device, DType::Q8_0, &[4, 64]);
    let (one, two) = (i(&[1]), i(&[2]));
    let three = |heads: usize, n: usize| f(&[1, heads, 1, n]);
    fn lengths(of: &Tensor) -> Attention<'_> {
        Attention { lengths: Some(of), ..Attention::new(1.0) }
    }
    fn both(of: &Tensor) -> Attention<'_> {
        Attention { k_positions: Some(of), ..lengths(of) }
    }
    let attend = |s: &mut Session<'_>, spec: Attention<'_>, q: &Tensor, kv: &Tensor| {
        let k = f(&[1, kv.shape()[1], 1, q.shape()[3]]);
        attention(s, &spec, q, &k, &k, None, q)
    };
    let shared = f(&[3]).broadcast_to(&[2, 3]).unwrap();
    let refusals: Vec<(Result<()>, [&str; 2])> = vec![
        (binary(s, Binary::Add, &f(&[3]), &f(&[4]), &f(&[3])), ["add", "[4]"]),
        (binary(s, Binary::Add, &weights, &f(&[64]), &f(&[4, 64])), ["add", "Q8_0 [4, 64]"]),
        (copy(s, &f(&[2, 3]), &shared), ["copy", "share memory"]),
        (copy(s, &weights, &f(&[4, 64])), ["copy", "Q8_0 [4, 64]"]),
        (matmul(s, &f(&[2, 3]), &f(&[4, 5]), &f(&[2, 5])), ["matmul", "[2, 3]"]),
        (linear(s, &f(&[2, 3]), &f(&[5, 3]), &f(&[2, 4])), ["matmul", "[2, 4]"]),
        (matmul(s, &f(&[3]), &f(&[3, 3]), &f(&[3])), ["matmul", "two axes"]),
        (quant_matmul(s, &weights, &f(&[32]), &f(&[4])), ["quant_matmul", "F32 [32]"]),
        (quant_matmul(s, &f(&[4, 64]), &f(&[64]), &f(&[4])), ["quant_matmul", "Q8_0"]),
        (softcap_in_place(s, -1.0, &f(&[5])), ["softcap", "positive"]),
        (softcap_in_place(s, f32::NAN, &f(&[5])), ["softcap", "NaN"]),
        (reduce(s, Fold::Sum, &f(&[2, 3]), &[2], None, &f(&[2])), ["sum", "[2, 3]"]),
        (reduce(s, Fold::Sum, &f(&[2, 3]), &[1], None, &f(&[3])), ["sum", "[2]"]),
        (reduce(s, Fold::Max, &f(&[2, 0]), &[1], None, &f(&[2])), ["max", "no maximum"]),
        (kv_copy(s, &f(&[1, 2, 5, 8]), &i(&[5]), &f(&[1, 2, 4, 8])), ["kv_copy", "more tokens"]),
        (kv_copy(s, &f(&[1, 2, 3, 8]), &i(&[2]), &f(&[1, 2, 4, 8])), ["kv_copy", "I32 [2]"]),
        (kv_copy(s, &f(&[1, 1, 1, 64]), &f(&[1]), &f(&[1, 1, 4, 64])), ["kv_copy", "F32 [1]"]),
        (embedding(s, 1.0, &weights, &f(&[2]), &f(&[2, 64])), ["embedding", "F32 [2]"]),
        (embedding(s, 1.0, &weights, &i(&[2]), &f(&[2, 32])), ["embedding", "[2, 32]"]),
        (gather(s, 1, &f(&[2, 3]), &i(&[2, 4]), &f(&[3, 4])), ["gather", "[3, 4]"]),
        (gather(s, 0, &f(&[2, 3]), &i(&[2, 4]), &f(&[5, 3])), ["gather", "ids repeat"]),
        (gather(s, 0, &weights, &i(&[1]), &f(&[1, 64])), ["gather", "Q8_0"]),
        (argmax(s, &f(&[2, 3]), &i(&[3])), ["argmax", "I32 [3]"]),
        (argmax(s, &f(&[2, 3]), &f(&[2])), ["argmax", "F32 [2]"]),
        (argmax(s, &f(&[2, 0]), &i(&[2])), ["argmax", "has elements"]),
        (cumsum(s, &f(&[2, 3]), &f(&[3, 2])), ["cumsum", "[3, 2]"]),
        (cumsum(s, &i(&[3]), &f(&[3])), ["cumsum", "I32 [3]"]),
        (attend(s, lengths(&two), &three(2, 40), &three(2, 8)), ["attention", "not I32 [2]"]),
        (attend(s, both(&one), &three(2, 40), &three(2, 8)), ["attention", "exclude"]),
        (attend(s, Attention::new(1.0), &three(3, 40), &three(2, 8)), ["attention", "evenly"]),
        (reduce(s, Fold::Sum, &f(&[100_000]), &[0], None, &f(&[])), ["sum", "scratch"]),
    ];
    for (refusal, wanted) in refusals {
        let message = refusal.unwrap_err().to_string();
        assert!(wanted.iter().all(|part| message.contains(part)), "{message:?} lacks {wanted:?}");
    }
    assert_eq!(session.dispatches(), 0);
}

#[test]
fn nothing_of_nothing_records_nothing() {
    let device = cpu(1);
    let f = |shape: &[usize]| tensor(&device, DType::F32, shape);
    let mut session = device.session().unwrap();
    let s = &mut session;
    binary(s, Binary::Add, &f(&[0]), &f(&[1]), &f(&[0])).unwrap();
    copy(s, &f(&[2, 0, 3]), &f(&[2, 0, 3])).unwrap();
    matmul(s, &f(&[0, 3]), &f(&[3, 4]), &f(&[0, 4])).unwrap();
    reduce(s, Fold::Max, &f(&[0, 3]), &[1], None, &f(&[0])).unwrap();
    assert_eq!(session.dispatches(), 0);
}
