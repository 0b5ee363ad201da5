//! A pass recorded once and submitted again: new inputs, new immediates, new buffers, timings,
//! timeouts, cancellation, and kernels that fail.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::*;
use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::{DeviceOptions, Dispatch, Error, SessionOptions};

const N: usize = 777;

#[test]
fn replays_see_new_inputs_immediates_and_buffers() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let x = device.buffer_from(&[N], &[1.0f32; N]).unwrap();
        let out = poisoned(&device, N);
        let mut session = device.session().unwrap();
        let id =
            session.dispatch(over(&kernel, N, 2.0, 1.0).bind(x.read()).bind(out.write())).unwrap();
        let (mut pass, mut done) = run(session);
        assert_eq!(done.read::<f32>(&out).unwrap(), [3.0; N]);

        for input in [5.0f32, 7.0] {
            device.upload(&x.write(), &[input; N]).unwrap();
            (pass, done) = pass.run(PATIENCE).unwrap();
            assert_eq!(done.read::<f32>(&out).unwrap(), [input * 2.0 + 1.0; N]);
        }

        let params = Params { n: N as u32, scale: -1.0, offset: 0.5 };
        pass.set_immediates(id, &params).unwrap();
        (pass, done) = pass.run(PATIENCE).unwrap();
        assert_eq!(done.read::<f32>(&out).unwrap(), [-6.5; N]);

        let other = poisoned(&device, N);
        pass.set_binding(id, 1, other.write()).unwrap();
        (_, done) = pass.run(PATIENCE).unwrap();
        assert_eq!(done.read::<f32>(&other).unwrap(), [-6.5; N]);
    }
}

#[test]
fn a_rebinding_that_makes_a_hazard_is_refused_and_undone() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let x = device.buffer_from(&[N], &[1.0f32; N]).unwrap();
        let (a, b) = (poisoned(&device, N).named("a"), poisoned(&device, N).named("b"));
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, N, 2.0, 0.0).bind(x.read()).bind(a.write())).unwrap();
        let second =
            session.dispatch(over(&kernel, N, 3.0, 0.0).bind(x.read()).bind(b.write())).unwrap();
        let mut pass = session.finish().unwrap();
        let error = pass.set_binding(second, 0, a.read()).unwrap_err();
        assert!(matches!(error, Error::Unordered(_)), "{error}");
        assert!(matches!(pass.set_binding(second, 9, a.read()), Err(Error::BadDispatch { .. })));
        assert!(matches!(pass.set_binding(second, 0, a.write()), Err(Error::BadDispatch { .. })));
        assert!(matches!(pass.set_immediates(second, &1u32), Err(Error::BadDispatch { .. })));
        let (_, done) = pass.run(PATIENCE).unwrap();
        assert_eq!(done.read::<f32>(&a).unwrap(), [2.0; N]);
        assert_eq!(done.read::<f32>(&b).unwrap(), [3.0; N]);
    }
}

#[test]
fn five_hundred_dispatches_are_the_same_on_every_replay() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let start = random(N, 11);
        let x = device.buffer_from(&[N], &start).unwrap();
        let mut session = device.session().unwrap();
        for _ in 0..500 {
            session.dispatch(over(&kernel, N, 0.99, 0.01).bind(x.write())).unwrap();
            session.barrier();
        }
        let (mut pass, done) = run(session);
        let first: Vec<f32> = done.read(&x).unwrap();
        for _ in 0..5 {
            device.upload(&x.write(), &start).unwrap();
            let (again, done) = pass.run(PATIENCE).unwrap();
            pass = again;
            assert_eq!(done.read::<f32>(&x).unwrap(), first);
        }
    }
}

#[test]
fn timestamps_name_each_dispatch_in_order() {
    for device in devices().into_iter().filter(|d| d.info().features.timestamps) {
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let x = poisoned(&device, N);
        let options = SessionOptions { timestamps: true, ..SessionOptions::default() };
        let mut session = device.session_with(options).unwrap();
        for name in ["first", "second"] {
            let dispatch = over(&kernel, N, 1.0, 1.0).label(name).bind(x.write());
            session.dispatch(dispatch).unwrap();
            session.barrier();
        }
        let (_, done) = run(session);
        let timings = done.timings();
        assert_eq!(timings.len(), 2, "{device:?}");
        assert_eq!((&*timings[0].label, &*timings[1].label), ("first", "second"));
        assert!(timings.iter().all(|t| t.start <= t.end && t.end < Duration::from_secs(60)));
        assert!(timings[0].start <= timings[1].start);
    }
}

/// Opens the gate that [`GATED`] waits at.
static OPEN: AtomicBool = AtomicBool::new(false);

fn gated(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !OPEN.load(SeqCst) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    unit.write::<f32>(0)?.fill(1.0);
    Ok(())
}

const GATED: KernelSource = KernelSource { name: "gated", cpu: gated, ..SCALE_ADD_IN_PLACE };

#[test]
fn a_wait_times_out_the_host_is_kept_away_and_the_work_goes_on() {
    let device = cpu(2);
    let kernel = device.kernel(&GATED, &[]).unwrap();
    let x = poisoned(&device, 64);
    let before = device.idle(PATIENCE).unwrap();
    let mut session = device.session().unwrap();
    session.dispatch(over(&kernel, 64, 0.0, 0.0).bind(x.write())).unwrap();
    let mut submission = session.finish().unwrap().submit().unwrap();
    assert!(!submission.is_done().unwrap());
    let unfinished = submission.wait(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(unfinished.error, Error::Timeout { .. }));
    let in_flight = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::InFlight { .. })), "{result:?}");
    };
    in_flight(device.upload(&x.write(), &[0.0f32; 64]));
    in_flight(before.read::<f32>(&x).map(drop));
    in_flight(before.map::<f32>(&x).map(drop));
    in_flight(x.map_write::<f32>().map(drop));
    assert!(matches!(device.idle(Duration::from_millis(5)), Err(Error::Timeout { .. })));
    OPEN.store(true, SeqCst);
    let (_, done) = unfinished.submission.unwrap().wait(PATIENCE).unwrap();
    assert_eq!(done.read::<f32>(&x).unwrap(), [1.0; 64]);
}

fn slow(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    std::thread::sleep(Duration::from_millis(2));
    unit.write::<f32>(0)?.fill(1.0);
    Ok(())
}

const SLOW: KernelSource = KernelSource { name: "slow", cpu: slow, ..SCALE_ADD_IN_PLACE };

#[test]
fn a_cancelled_pass_ends_early_and_a_dropped_one_too() {
    let device = cpu(2);
    let kernel = device.kernel(&SLOW, &[]).unwrap();
    let n = 64 * 5000;
    let x = poisoned(&device, n);
    for drop_it in [false, true] {
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, n, 0.0, 0.0).bind(x.write())).unwrap();
        let submission = session.finish().unwrap().submit().unwrap();
        let started = Instant::now();
        if drop_it {
            drop(submission);
        } else {
            submission.cancel();
            let error = submission.wait(PATIENCE).unwrap_err();
            assert!(matches!(error.error, Error::Cancelled), "{error:?}");
        }
        // Whole, it takes five seconds.
        assert!(started.elapsed() < Duration::from_secs(3));
        assert!(device.upload(&x.write(), &vec![0.0f32; n]).is_ok());
    }
}

fn failing(_: &mut Unit<'_>) -> Result<(), UnitError> {
    Err(UnitError::Kernel("on purpose".into()))
}

fn panicking(_: &mut Unit<'_>) -> Result<(), UnitError> {
    panic!("out of cheese")
}

#[test]
fn a_failing_kernel_ends_its_pass_and_not_the_device() {
    let device = tintype_gpu::Device::cpu(DeviceOptions::default()).unwrap();
    let x = poisoned(&device, 64);
    for (cpu, word) in [(failing as fn(&mut Unit<'_>) -> _, "on purpose"), (panicking, "cheese")] {
        let source = KernelSource { name: "broken", cpu, ..SCALE_ADD_IN_PLACE };
        let kernel = device.kernel(&source, &[]).unwrap();
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, 64, 0.0, 0.0).bind(x.write())).unwrap();
        let error = session.finish().unwrap().run(PATIENCE).unwrap_err();
        assert!(matches!(&error, Error::KernelFailed { reason, .. } if reason.contains(word)));
        assert!(!device.is_lost());
    }
    let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
    device.upload(&x.write(), &[2.0f32; 64]).unwrap();
    let mut session = device.session().unwrap();
    session.dispatch(over(&kernel, 64, 2.0, 0.0).bind(x.write())).unwrap();
    let (_, done) = run(session);
    assert_eq!(done.read::<f32>(&x).unwrap(), [4.0; 64]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let n = 100_003;
    let input = random(n, 5);
    let outcome = |threads| {
        let device = cpu(threads);
        let x = device.buffer_from(&[n], &input).unwrap();
        let out = poisoned(&device, n);
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, n, 1.7, -0.3).bind(x.read()).bind(out.write())).unwrap();
        let (_, done) = run(session);
        done.read::<f32>(&out).unwrap()
    };
    let one = outcome(1);
    assert!([2, 3, 8].into_iter().all(|threads| outcome(threads) == one));
}

#[test]
fn a_dispatch_in_no_workgroups_is_refused() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let x = poisoned(&device, 64);
        let mut session = device.session().unwrap();
        let params = Params { n: 64, scale: 1.0, offset: 0.0 };
        let none = Dispatch::new(&kernel).bind(x.write()).immediates(&params).groups([0, 1, 1]);
        assert!(matches!(session.dispatch(none), Err(Error::BadDispatch { .. })));
    }
}
