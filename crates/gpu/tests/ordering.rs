//! A producer and its consumer in one pass: right with a barrier, refused without one, and wrong on
//! every run when the check is off and the executor is hostile.

#![allow(clippy::unwrap_used)]

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

/// Runs `record` on the hostile executor without a check, and returns `out`.
fn hostile(
    device: &Device,
    seed: u64,
    out: &Buffer,
    record: impl FnOnce(&mut Session<'_>),
) -> Vec<f32> {
    let options = SessionOptions {
        ordering: Ordering::Unchecked,
        adversary: Some(seed),
        ..SessionOptions::default()
    };
    let mut session = device.session_with(options).unwrap();
    record(&mut session);
    let (_, done) = run(session);
    done.read(out).unwrap()
}

#[test]
fn a_hostile_executor_shows_all_three_hazards_on_every_run() {
    let device = cpu(1);
    let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
    let one = device.buffer_from(&[N], &[1.0f32; N]).unwrap();
    for seed in 0..50 {
        for barrier in [false, true] {
            let step = |session: &mut Session<'_>| {
                if barrier {
                    session.barrier();
                }
            };
            // Write after read: `out` takes 1 from `x` before `x` becomes 5.
            let (x, out) = (device.buffer_from(&[N], &[1.0f32; N]).unwrap(), poisoned(&device, N));
            let seen = hostile(&device, seed, &out, |s| {
                s.dispatch(over(&scale, N, 1.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
                step(s);
                s.dispatch(over(&scale, N, 5.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
            });
            assert_eq!(seen == [1.0; N], barrier, "write after read, seed {seed}");
            // Write after write: the later one stays.
            let seen = hostile(&device, seed, &x, |s| {
                s.dispatch(over(&scale, N, 2.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
                step(s);
                s.dispatch(over(&scale, N, 3.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
            });
            assert_eq!(seen == [3.0; N], barrier, "write after write, seed {seed}");
            // Read after write.
            let seen = hostile(&device, seed, &out, |s| {
                s.dispatch(over(&scale, N, 7.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
                step(s);
                s.dispatch(over(&scale, N, 1.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
            });
            assert_eq!(seen == [7.0; N], barrier, "read after write, seed {seed}");
        }
    }
}

#[test]
fn a_ranged_barrier_orders_its_range_and_nothing_else() {
    for device in devices() {
        let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
        let input = random(N, 21);
        let x = device.buffer_from(&[N], &input).unwrap();
        let (a, b, out) = (poisoned(&device, N), poisoned(&device, N), poisoned(&device, N));
        let mut session = device.session().unwrap();
        session.dispatch(over(&scale, N, 2.0, 0.0).bind(x.read()).bind(a.write())).unwrap();
        session.dispatch(over(&scale, N, 3.0, 0.0).bind(x.read()).bind(b.write())).unwrap();
        session.barrier_between(&[a.read()], &[out.write()]).unwrap();
        let from =
            |buffer: &Buffer| over(&scale, N, 1.0, 1.0).bind(buffer.read()).bind(out.write());
        assert!(matches!(session.dispatch(from(&b)), Err(Error::Unordered(_))));
        session.dispatch(from(&a)).unwrap();
        // `a` may be read, and not yet overwritten: the barrier named it for reading.
        let again = over(&scale, N, 9.0, 0.0).bind(x.read()).bind(a.write());
        let error = session.dispatch(again).unwrap_err();
        assert!(error.to_string().contains("hazard"), "{error}");
        let (_, done) = run(session);
        let wanted: Vec<f32> = input.iter().map(|x| x * 2.0 * 1.0 + 1.0).collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), wanted, "{device:?}");
    }
}

#[test]
fn a_ranged_barrier_over_the_wrong_range_is_wrong_on_every_hostile_run() {
    let device = cpu(1);
    let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
    let one = device.buffer_from(&[N], &[1.0f32; N]).unwrap();
    let half = (N as u64 / 2) * 4;
    for seed in 0..50 {
        for (end, right) in [(N as u64 * 4, true), (half, false)] {
            let (x, out) = (poisoned(&device, N), poisoned(&device, N));
            let seen = hostile(&device, seed, &out, |s| {
                s.dispatch(over(&scale, N, 7.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
                s.barrier_between(&[x.read_bytes(0, end).unwrap()], &[]).unwrap();
                s.dispatch(over(&scale, N, 1.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
            });
            assert_eq!(seen == [7.0; N], right, "seed {seed}");
        }
    }
}

#[test]
fn views_of_one_buffer_conflict_only_where_they_overlap() {
    for device in devices() {
        let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
        let whole = poisoned(&device, 1024).named("whole");
        let one = device.buffer_from(&[512], &[1.0f32; 512]).unwrap();
        let at = |start: u64| whole.view(start * 4, tintype_gpu::DType::F32, &[512]).unwrap();
        let mut session = device.session().unwrap();
        let fill =
            |to: &Buffer, value| over(&scale, 512, value, 0.0).bind(one.read()).bind(to.write());
        session.dispatch(fill(&at(0), 2.0)).unwrap();
        session.dispatch(fill(&at(512), 3.0)).unwrap();
        let Err(Error::Unordered(hazard)) = session.dispatch(fill(&at(256), 4.0)) else {
            panic!("an overlap went unseen")
        };
        assert_eq!(hazard.kind, HazardKind::WriteAfterWrite);
        let (_, done) = run(session);
        let seen: Vec<f32> = done.read(&whole).unwrap();
        assert!(seen[..512].iter().all(|&v| v == 2.0) && seen[512..].iter().all(|&v| v == 3.0));
    }
}
