//! The fault the field met: a slow Q6_K output head over a vocabulary of 262 144, then a soft-cap in
//! place. Without its barrier the soft-cap reads logits that are not there yet.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::hazard::HazardKind;
use tintype_gpu::{DType, Device, Error, Ordering, Session, SessionOptions};
use tintype_tensor::ops::quant_matmul::quant_matmul;
use tintype_tensor::ops::softcap::softcap_in_place;
use tintype_tensor::{Tensor, quant};

const VOCABULARY: usize = 262_144;
const K: usize = 256;
const CAP: f32 = 30.0;

struct Head {
    weights: Vec<u8>,
    x: Vec<f32>,
}

impl Head {
    fn random() -> Head {
        let mut random = fastrand::Rng::with_seed(seed());
        let weights = random_blocks(DType::Q6K, VOCABULARY * K, &mut random);
        Head { weights, x: (0..K).map(|_| random.f32() * 2.0 - 1.0).collect() }
    }

    /// In double precision.
    fn logits(&self) -> Vec<f64> {
        let row = |bytes: &[u8]| {
            let values = quant::reference::decode(DType::Q6K, bytes).unwrap();
            let logit: f64 = values.iter().zip(&self.x).map(|(w, x)| w * f64::from(*x)).sum();
            f64::from(CAP) * (logit / f64::from(CAP)).tanh()
        };
        self.weights.chunks_exact(210).map(row).collect()
    }

    fn on(&self, device: &Device) -> OnDevice {
        let weights =
            device.buffer_from_bytes(DType::Q6K, &[VOCABULARY, K], &self.weights).unwrap();
        let x = device.buffer_from(&[K], &self.x).unwrap();
        let out = device.buffer_from(&[VOCABULARY], &vec![f32::NAN; VOCABULARY]).unwrap();
        let of = |buffer, name| Tensor::of(&tintype_gpu::Buffer::named(buffer, name)).unwrap();
        OnDevice { weights: of(weights, "head"), x: of(x, "x"), logits: of(out, "logits") }
    }
}

struct OnDevice {
    weights: Tensor,
    x: Tensor,
    logits: Tensor,
}

impl OnDevice {
    fn record(&self, session: &mut Session<'_>, barrier: bool) -> tintype_tensor::Result<()> {
        quant_matmul(session, &self.weights, &self.x, &self.logits)?;
        if barrier {
            session.barrier();
        }
        softcap_in_place(session, CAP, &self.logits)
    }
}

#[test]
fn right_and_the_same_a_hundred_times_and_refused_without_its_barrier() {
    let head = Head::random();
    let right = head.logits();
    for device in devices() {
        let on = head.on(&device);
        let mut session = device.session().unwrap();
        on.record(&mut session, true).unwrap();
        let mut pass = session.finish().unwrap();
        let mut first = Vec::new();
        for run in 0..100 {
            let (again, done) = pass.run(PATIENCE).unwrap();
            pass = again;
            let bytes = bytes_of(&done, on.logits.buffer());
            if run == 0 {
                let logits: Vec<f32> = done.read(on.logits.buffer()).unwrap();
                let logits: Vec<f64> = logits.into_iter().map(f64::from).collect();
                compare(&logits, &right, 0.0, 1e-5).unwrap();
                first = bytes;
            } else {
                assert!(bytes == first, "{device:?}: run {run} gave other bytes");
            }
        }
        let mut session = device.session().unwrap();
        let error = on.record(&mut session, false).unwrap_err();
        let tintype_tensor::Error::Gpu(Error::Unordered(hazard)) = &error else {
            panic!("{error}")
        };
        assert_eq!(hazard.kind, HazardKind::ReadAfterWrite);
        let named = (hazard.earlier.as_str(), hazard.later.as_str(), hazard.buffer.as_str());
        assert_eq!(named, ("quant_matmul", "softcap", "logits"));
    }
    assert_eq!(tintype_gpu::testing::validation_messages(), Vec::<String>::new());
}

#[test]
fn without_its_barrier_a_hostile_executor_is_wrong_on_every_run() {
    let head = Head::random();
    let device = cpu(2);
    let run = |seed: u64, barrier: bool| -> Vec<u8> {
        let on = head.on(&device);
        let ordering = if barrier { Ordering::Checked } else { Ordering::Unchecked };
        let options = SessionOptions { ordering, adversary: Some(seed), ..Default::default() };
        let mut session = device.session_with(options).unwrap();
        on.record(&mut session, barrier).unwrap();
        let (_, done) = session.finish().unwrap().run(PATIENCE).unwrap();
        bytes_of(&done, on.logits.buffer())
    };
    let right = run(0, true);
    for seed in 1..9 {
        assert!(run(seed, true) == right, "seed {seed}");
        assert!(run(seed, false) != right, "seed {seed}");
    }
}
