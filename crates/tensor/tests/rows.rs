//! What cases cannot say of operations on rows: queries that see nothing give 0; ids outside the table
//! give NaN.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::{DType, Device};
use tintype_tensor::Tensor;
use tintype_tensor::ops::argmax::argmax;
use tintype_tensor::ops::attention::{Attention, attention, attention_scratch_shape};
use tintype_tensor::ops::embedding::embedding;
use tintype_tensor::ops::expert_matmul::expert_matmul;
use tintype_tensor::ops::gather::gather;

fn random(device: &Device, shape: &[usize], random: &mut fastrand::Rng) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.f32() - 0.5).collect();
    Tensor::of(&device.buffer_from(shape, &values).unwrap()).unwrap()
}

fn attend(device: &Device, spec: &Attention<'_>, [q, k, v]: [&Tensor; 3]) -> Vec<f32> {
    let out = Tensor::empty(device, DType::F32, q.shape()).unwrap();
    let shape = attention_scratch_shape(device, q.shape(), k.shape());
    let scratch = shape.map(|shape| Tensor::empty(device, DType::F32, &shape).unwrap());
    let mut session = device.session().unwrap();
    attention(&mut session, spec, q, k, v, scratch.as_ref(), &out).unwrap();
    let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
    done.read(out.buffer()).unwrap()
}

#[test]
fn queries_that_see_nothing_give_0() {
    let mut rng = fastrand::Rng::with_seed(seed());
    for device in devices() {
        for (t, s) in [(2, 600), (70, 40)] {
            let q = random(&device, &[1, 2, t, 64], &mut rng);
            let k = random(&device, &[1, 2, s, 64], &mut rng);
            let nowhere = device.buffer_from(&[s], &vec![-1i32; s]).unwrap();
            let nowhere = Tensor::of(&nowhere).unwrap();
            let spec = Attention { k_positions: Some(&nowhere), ..Attention::new(0.1) };
            let out = attend(&device, &spec, [&q, &k, &k]);
            assert!(out.iter().all(|x| *x == 0.0), "{device:?} {t} {s}");
        }
    }
}

#[test]
fn ids_outside_give_nan() {
    for device in devices() {
        let table = device.buffer_from(&[3, 4], &[1.0f32; 12]).unwrap();
        let ids = device.buffer_from(&[4], &[2i32, 3, -1, 0]).unwrap();
        let [table, ids] = [table, ids].map(|buffer| Tensor::of(&buffer).unwrap());
        let out = Tensor::empty(&device, DType::F32, &[4, 4]).unwrap();
        let mut session = device.session().unwrap();
        embedding(&mut session, 1.0, &table, &ids, &out).unwrap();
        let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
        let out: Vec<f32> = done.read(out.buffer()).unwrap();
        let nan: Vec<bool> =
            out.chunks_exact(4).map(|row| row.iter().all(|x| x.is_nan())).collect();
        assert_eq!(nan, [false, true, true, false], "{device:?}: {out:?}");
        assert!(out[..4].iter().chain(&out[12..]).all(|x| *x == 1.0));

        let experts = device.buffer_from(&[3, 2, 4], &[1.0f32; 24]).unwrap();
        let ids = device.buffer_from(&[2, 2], &[2i32, 3, -1, 0]).unwrap();
        let x = device.buffer_from(&[2, 1, 4], &[1.0f32; 8]).unwrap();
        let [experts, x, ids] = [experts, x, ids].map(|buffer| Tensor::of(&buffer).unwrap());
        let out = Tensor::empty(&device, DType::F32, &[2, 2, 2]).unwrap();
        let mut session = device.session().unwrap();
        expert_matmul(&mut session, &experts, &x, &ids, &out).unwrap();
        let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
        let out: Vec<f32> = done.read(out.buffer()).unwrap();
        assert!(out[2..6].iter().all(|x| x.is_nan()), "{device:?}: {out:?}");
        assert!(out[..2].iter().chain(&out[6..]).all(|x| *x == 4.0), "{device:?}: {out:?}");
    }
}

#[test]
fn the_largest_is_never_nan_and_ids_outside_gather_nan() {
    for device in devices() {
        let nan = f32::NAN;
        let x = [nan, 2.0, nan, 7.0, nan, nan, nan, nan, 7.0, nan, 7.0, f32::INFINITY];
        let x = Tensor::of(&device.buffer_from(&[3, 4], &x).unwrap()).unwrap();
        let places = Tensor::empty(&device, DType::I32, &[3]).unwrap();
        let ids = Tensor::of(&device.buffer_from(&[3, 1], &[3i32, 4, -1]).unwrap()).unwrap();
        let picked = Tensor::empty(&device, DType::F32, &[3, 1]).unwrap();
        let mut session = device.session().unwrap();
        argmax(&mut session, &x, &places).unwrap();
        gather(&mut session, 1, &x, &ids, &picked).unwrap();
        let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
        assert_eq!(done.read::<i32>(places.buffer()).unwrap(), [3, -1, 3], "{device:?}");
        let picked: Vec<f32> = done.read(picked.buffer()).unwrap();
        assert!(
            picked[0] == 7.0 && picked[1..].iter().all(|x| x.is_nan()),
            "{device:?} {picked:?}"
        );
    }
}
