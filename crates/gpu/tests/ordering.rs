//! A producer and its consumer in one pass: right with a barrier, refused without one, and wrong on
//! every run when the check is off and the executor is hostile.

mod common;

use common::*;
use tintype_gpu::hazard::HazardKind;
use tintype_gpu::{Buffer, Device, Error, Ordering, Session, SessionOptions};

const N: usize = 10_007;
const REPEATS: usize = 16;

/// x → tmp → out, `REPEATS` times over buffers of their own.
struct Chain {
    input: Vec<f32>,
    x: Buffer,
    tmp: Vec<Buffer>,
    out: Vec<Buffer>,
}

impl Chain {
    fn new(device: &Device, seed: u64) -> Self {
        let input = random(N, seed);
        Chain {
            x: device.buffer_from(&[N], &input).unwrap().named("x"),
            tmp: (0..REPEATS).map(|_| poisoned(device, N).named("tmp")).collect(),
            out: (0..REPEATS).map(|_| poisoned(device, N).named("out")).collect(),
            input,
        }
    }

    fn record(&self, session: &mut Session<'_>, barriers: bool) -> Result<(), Error> {
        let device = session.device();
        let producer = device.kernel(&SCALE_ADD, &[])?;
        let consumer = device.kernel(&REVERSE, &[])?;
        for at in 0..REPEATS {
            let make = over(&producer, N, 2.0, at as f32)
                .label(format!("producer {at}"))
                .bind(self.x.read())
                .bind(self.tmp[at].write());
            session.dispatch(make)?;
            if barriers {
                session.barrier();
            }
            let take = over(&consumer, N, 0.0, 0.0)
                .label(format!("consumer {at}"))
                .bind(self.tmp[at].read())
                .bind(self.out[at].write());
            session.dispatch(take)?;
        }
        Ok(())
    }

    /// Outputs that are wrong, of all repeats.
    fn wrong(&self, done: &tintype_gpu::Done) -> usize {
        let mut wrong = 0;
        for at in 0..REPEATS {
            let got: Vec<f32> = done.read(&self.out[at]).unwrap();
            let right = |i: usize| self.input[N - 1 - i] * 2.0 + at as f32;
            wrong += (0..N).filter(|&i| got[i].to_bits() != right(i).to_bits()).count();
        }
        wrong
    }
}

#[test]
fn barriers_make_sixteen_chains_right_on_every_device() {
    for device in devices() {
        let chain = Chain::new(&device, 1);
        let mut session = device.session().unwrap();
        chain.record(&mut session, true).unwrap();
        let (pass, done) = run(session);
        assert_eq!(chain.wrong(&done), 0, "{device:?}");
        assert_eq!((pass.dispatches(), pass.barriers()), (32, 16));
    }
}

#[test]
fn a_missing_barrier_is_refused_by_name() {
    for device in devices() {
        let chain = Chain::new(&device, 2);
        let mut session = device.session().unwrap();
        let error = chain.record(&mut session, false).unwrap_err();
        let Error::Unordered(hazard) = &error else { panic!("{error}") };
        assert_eq!(hazard.kind, HazardKind::ReadAfterWrite);
        assert_eq!((hazard.earlier.as_str(), hazard.later.as_str()), ("producer 0", "consumer 0"));
        assert_eq!((hazard.buffer.as_str(), hazard.start, hazard.end), ("tmp", 0, N as u64 * 4));
        assert!(error.to_string().contains("barrier"), "{error}");
        // The refusal left the session usable.
        session.barrier();
        assert_eq!(session.dispatches(), 1);
    }
}

#[test]
fn automatic_ordering_inserts_what_is_missing_and_no_more() {
    for device in devices() {
        let chain = Chain::new(&device, 3);
        let mut session = device.session_with(mode(Ordering::Automatic)).unwrap();
        chain.record(&mut session, false).unwrap();
        assert_eq!(session.automatic_barriers(), REPEATS);
        let (_, done) = run(session);
        assert_eq!(chain.wrong(&done), 0, "{device:?}");
    }
}

#[test]
fn a_hostile_executor_shows_a_missing_barrier_on_every_run() {
    let device = cpu(2);
    for seed in 0..50 {
        for (barriers, ordering) in [(true, Ordering::Checked), (false, Ordering::Unchecked)] {
            let chain = Chain::new(&device, seed);
            let options =
                SessionOptions { ordering, adversary: Some(seed), ..SessionOptions::default() };
            let mut session = device.session_with(options).unwrap();
            chain.record(&mut session, barriers).unwrap();
            let (_, done) = run(session);
            assert_eq!(chain.wrong(&done) == 0, barriers, "seed {seed}, barriers {barriers}");
        }
    }
}
