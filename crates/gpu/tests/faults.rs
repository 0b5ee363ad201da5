//! A device that is lost or full: a typed error, everything freed, and the process goes on.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_gpu::testing::{Call, faulty_device};
use tintype_gpu::{DType, Device, DeviceOptions, Error, Placement, Pool, Selector};

/// A pass over fresh buffers on `device`, all the way to its result.
fn work(device: &Device) -> Result<Vec<f32>, Error> {
    let x = device.buffer_from(&[1000], &vec![1.0f32; 1000])?;
    let out = device.buffer(DType::F32, &[1000])?;
    let kernel = device.kernel(&SCALE_ADD, &[])?;
    let mut session = device.session()?;
    session.dispatch(over(&kernel, 1000, 3.0, 1.0).bind(x.read()).bind(out.write()))?;
    let (_, done) = session.finish()?.run(PATIENCE)?;
    done.read(&out)
}

fn selectors() -> Vec<Selector> {
    devices().iter().map(|device| device.info().selector().parse().unwrap()).collect()
}

#[test]
fn a_loss_at_any_call_is_an_error_and_another_device_works() {
    for selector in selectors() {
        for call in Call::ALL.into_iter().filter(|call| *call != Call::Drain) {
            let (device, faults) = faulty_device(&selector, DeviceOptions::default()).unwrap();
            assert_eq!(work(&device).unwrap(), vec![4.0; 1000]);
            faults.lose_on(call);
            let second = if call == Call::Compile {
                device.kernel(&REVERSE, &[]).map(drop)
            } else {
                work(&device).map(drop)
            };
            assert!(matches!(second, Err(Error::DeviceLost { .. })), "{call:?}: {second:?}");
            assert!(device.is_lost());
            // Lost stays lost, and says so everywhere.
            assert!(matches!(device.buffer(DType::F32, &[1]), Err(Error::DeviceLost { .. })));
            assert!(matches!(device.session().map(drop), Err(Error::DeviceLost { .. })));
            assert!(matches!(device.idle(PATIENCE), Err(Error::DeviceLost { .. })));
            assert_eq!(device.stats().allocations, 0, "{call:?} leaked");
            let fresh = Device::open(&selector, DeviceOptions::default()).unwrap();
            assert_eq!(work(&fresh).unwrap(), vec![4.0; 1000]);
        }
    }
}

#[test]
fn a_loss_with_work_in_flight_frees_what_the_work_used() {
    for selector in selectors() {
        let (device, faults) = faulty_device(&selector, DeviceOptions::default()).unwrap();
        let x = device.buffer_from(&[64], &[1.0f32; 64]).unwrap();
        let out = poisoned(&device, 64);
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let mut session = device.session().unwrap();
        session.dispatch(over(&kernel, 64, 1.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
        let submission = session.finish().unwrap().submit().unwrap();
        faults.lose_on(Call::Wait);
        drop((x, out));
        drop(submission);
        assert!(device.is_lost() || device.stats().allocations == 0);
        assert_eq!(device.stats().allocations, 0);
    }
}

#[test]
fn out_of_memory_says_what_was_asked_and_what_is_left() {
    for selector in selectors() {
        let options = DeviceOptions { memory_limit: Some(1 << 20), ..DeviceOptions::default() };
        let device = Device::open(&selector, options).unwrap();
        let held = device.buffer(DType::U8, &[700_000]).unwrap();
        let error = device.buffer(DType::U8, &[700_000]).unwrap_err();
        let Error::OutOfMemory { asked, free, total, .. } = error else { panic!("{error}") };
        assert_eq!((asked, free, total), (700_000, (1 << 20) - 700_000, 1 << 20));
        let memory = device.memory();
        assert!(memory.free <= memory.total);
        drop(held);
        assert!(device.buffer(DType::U8, &[700_000]).is_ok());
    }
}

#[test]
fn a_full_pool_lets_go_of_what_it_keeps_before_it_fails() {
    let (device, faults) =
        faulty_device(&"cpu".parse().unwrap(), DeviceOptions::default()).unwrap();
    let pool = Pool::new(&device, 1 << 20);
    drop(pool.buffer(DType::F32, &[100], Placement::Device).unwrap());
    assert_eq!(pool.stats().kept, 512);
    faults.allow_allocations(0);
    let error = pool.buffer(DType::F32, &[1000], Placement::Device).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!(pool.stats().kept, 0);
    assert_eq!(pool.stats().lent, 0);
}

#[test]
fn absurd_sizes_are_refused_before_any_driver_is_asked() {
    for device in devices() {
        for shape in [&[usize::MAX][..], &[usize::MAX, usize::MAX], &[1 << 40, 1 << 40]] {
            let error = device.buffer(DType::F32, shape).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. } | Error::OutOfMemory { .. }), "{error}");
        }
        let error = device.buffer(DType::U8, &[1 << 46]).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. } | Error::OutOfMemory { .. }), "{error}");
    }
}
