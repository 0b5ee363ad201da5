//! Buffers, views, spans, pools, mappings and imports.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use tintype_gpu::{Buffer, DType, Device, Error, Placement, Pool};

#[test]
fn what_is_uploaded_comes_back_at_odd_sizes_and_offsets() {
    for device in devices() {
        for n in [1, 2, 3, 63, 64, 65, 1000, 70_001] {
            let data = random(n, n as u64);
            let buffer = device.buffer_from(&[n], &data).unwrap();
            let done = device.idle(PATIENCE).unwrap();
            assert_eq!(done.read::<f32>(&buffer).unwrap(), data);
            let (from, to) = (n / 3, n - n / 4);
            let part = buffer.read_bytes(from as u64 * 4, to as u64 * 4).unwrap();
            let mut bytes = vec![0u8; (to - from) * 4];
            done.read_into(&part, &mut bytes).unwrap();
            assert_eq!(bytes, bytemuck::cast_slice::<f32, u8>(&data[from..to]));
            let span = buffer.write_bytes(from as u64 * 4, to as u64 * 4).unwrap();
            device.upload(&span, &vec![0.5f32; to - from]).unwrap();
            let mut expected = data.clone();
            expected[from..to].fill(0.5);
            assert_eq!(done.read::<f32>(&buffer).unwrap(), expected);
        }
    }
}

#[test]
fn empty_buffers_are_buffers() {
    for device in devices() {
        let empty = device.buffer(DType::F32, &[3, 0]).unwrap();
        device.upload::<f32>(&empty.write(), &[]).unwrap();
        assert_eq!(device.idle(PATIENCE).unwrap().read::<f32>(&empty).unwrap(), [0f32; 0]);
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let mut session = device.session().unwrap();
        let refused = session.dispatch(over(&kernel, 1, 1.0, 0.0).bind(empty.write()));
        assert!(matches!(refused, Err(Error::BadDispatch { .. })));
    }
}

#[test]
fn spans_views_and_types_are_checked() {
    for device in devices() {
        let buffer = device.buffer(DType::F32, &[10]).unwrap().named("ten");
        let error = buffer.read_bytes(4, 41).unwrap_err();
        assert!(error.to_string().contains("ten"), "{error}");
        assert!(buffer.write_bytes(8, 4).is_err());
        assert!(buffer.view(4, DType::F32, &[10]).is_err());
        assert!(buffer.view(u64::MAX, DType::F32, &[1]).is_err());
        assert!(buffer.reshape(&[3, 4]).is_err());
        let view = buffer.view(8, DType::F16, &[2, 2]).unwrap();
        assert_eq!((view.offset(), view.bytes()), (8, 8));
        let done = device.idle(PATIENCE).unwrap();
        assert!(matches!(done.read::<f32>(&view), Err(Error::TypeMismatch { .. })));
        assert!(matches!(device.buffer(DType::Q6K, &[2, 100]), Err(Error::TypeMismatch { .. })));
        assert_eq!(device.buffer(DType::Q6K, &[2, 256]).unwrap().bytes(), 420);
        assert!(device.upload(&buffer.write(), &[1.0f32; 9]).is_err());
    }
}

#[test]
fn objects_of_another_device_are_refused_by_name() {
    let (one, two) = (cpu(1), cpu(1));
    let foreign = poisoned(&one, 64);
    let kernel = two.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
    let mut session = two.session().unwrap();
    let refused = session.dispatch(over(&kernel, 64, 1.0, 0.0).bind(foreign.write()));
    assert!(matches!(refused, Err(Error::ForeignDevice { .. })));
    let mut other = one.session().unwrap();
    let refused = other.dispatch(over(&kernel, 64, 1.0, 0.0).bind(foreign.write()));
    assert!(matches!(refused, Err(Error::ForeignDevice { .. })));
    assert!(session.barrier_between(&[foreign.read()], &[]).is_err());
    assert!(two.upload(&foreign.write(), &[0.0f32; 64]).is_err());
    assert!(two.idle(PATIENCE).unwrap().read::<f32>(&foreign).is_err());
}

#[test]
fn a_mapping_keeps_submissions_away_until_it_ends() {
    for device in devices() {
        let buffer = device.buffer_in(DType::F32, &[64], Placement::Host).unwrap();
        if !buffer.is_mappable() {
            continue;
        }
        let mut mapped = buffer.map_write::<f32>().unwrap();
        mapped.fill(2.0);
        assert!(matches!(buffer.map_write::<f32>().map(drop), Err(Error::Mapped { .. })));
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let record = || {
            let mut session = device.session().unwrap();
            session.dispatch(over(&kernel, 64, 3.0, 0.0).bind(buffer.write())).unwrap();
            session.finish().unwrap()
        };
        assert!(matches!(record().submit().map(drop), Err(Error::Mapped { .. })));
        drop(mapped);
        let (_, done) = record().run(PATIENCE).unwrap();
        let seen = done.map::<f32>(&buffer).unwrap();
        assert_eq!(*seen, [6.0; 64]);
        // Reading on both sides is no conflict; writing is.
        assert!(matches!(record().submit().map(drop), Err(Error::Mapped { .. })));
    }
}

#[test]
fn a_mapped_file_is_read_in_place_and_never_written() {
    for device in devices().into_iter().filter(|d| d.info().features.import_host) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytemuck::cast_slice(&random(4096, 9))).unwrap();
        // SAFETY: the file is this test's own and nothing writes it while it is mapped.
        let host = Arc::new(unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap());
        let imported = device.import(DType::F32, &[4096], host.clone()).unwrap();
        assert!(imported.is_read_only());
        let out = poisoned(&device, 4096);
        let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
        let mut session = device.session().unwrap();
        session
            .dispatch(over(&kernel, 4096, 2.0, 0.0).bind(imported.read()).bind(out.write()))
            .unwrap();
        let (_, done) = run(session);
        let doubled: Vec<f32> = random(4096, 9).iter().map(|x| x * 2.0).collect();
        assert_eq!(done.read::<f32>(&out).unwrap(), doubled, "{device:?}");
        let upload = device.upload(&imported.write(), &[0.0f32; 4096]);
        assert!(matches!(upload, Err(Error::ReadOnly { .. })));
        let mut session = device.session().unwrap();
        let in_place = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        let refused = session.dispatch(over(&in_place, 4096, 1.0, 0.0).bind(imported.write()));
        assert!(matches!(refused, Err(Error::ReadOnly { .. })));
        let too_long = device.import(DType::F32, &[1 << 20], host);
        assert!(matches!(too_long.map(drop), Err(Error::OutOfBounds { .. })));
    }
}

#[test]
fn everything_is_given_back_when_a_recording_is_dropped() {
    for device in devices() {
        let kernel = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
        for step in 0..4 {
            let x = poisoned(&device, 64);
            let mut session = device.session().unwrap();
            session.dispatch(over(&kernel, 64, 1.0, 0.0).bind(x.write())).unwrap();
            drop(x);
            assert_eq!(device.stats().allocations, 1, "the recording keeps what it uses");
            match step {
                0 => drop(session),
                1 => session.reset(),
                2 => drop(session.finish().unwrap()),
                _ => drop(session.finish().unwrap().submit().unwrap()),
            }
            assert_eq!(device.stats().allocations, 0, "step {step} on {device:?}");
        }
    }
}

#[test]
fn pools_reuse_what_came_back_and_keep_to_their_bound() {
    for device in devices() {
        let pool = Pool::new(&device, 4096);
        let first = pool.buffer(DType::F32, &[200], Placement::Device).unwrap();
        assert_eq!(pool.stats().lent, 1024);
        drop(first);
        let again = pool.buffer(DType::F16, &[500], Placement::Device).unwrap();
        assert_eq!((pool.stats().hits, pool.stats().misses), (1, 1));
        let large = pool.buffer(DType::U8, &[5000], Placement::Device).unwrap();
        drop((again, large));
        let stats = pool.stats();
        assert_eq!((stats.kept, stats.lent, stats.evictions), (1024, 0, 1));
        assert_eq!(stats.peak_lent, 1024 + 8192);
        pool.trim();
        assert_eq!(pool.stats().kept, 0);
        // A buffer may outlive its pool.
        let orphan = pool.buffer(DType::F32, &[4], Placement::Device).unwrap();
        drop(pool);
        device.upload(&orphan.write(), &[1.0f32; 4]).unwrap();
        drop(orphan);
        assert_eq!(device.stats().allocations, 0);
    }
}

fn shared<T: Send + Sync>() {}

#[test]
fn devices_buffers_and_kernels_are_shared_between_threads() {
    shared::<Device>();
    shared::<Buffer>();
    shared::<Pool>();
    shared::<tintype_gpu::Kernel>();
    for device in devices() {
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let device = device.clone();
                scope.spawn(move || {
                    let input = random(500, seed);
                    let kernel = device.kernel(&SCALE_ADD, &[]).unwrap();
                    for _ in 0..10 {
                        let x = device.buffer_from(&[500], &input).unwrap();
                        let out = poisoned(&device, 500);
                        let mut session = device.session().unwrap();
                        session
                            .dispatch(over(&kernel, 500, 2.0, 0.0).bind(x.read()).bind(out.write()))
                            .unwrap();
                        let (_, done) = run(session);
                        let wanted: Vec<f32> = input.iter().map(|x| x * 2.0).collect();
                        assert_eq!(done.read::<f32>(&out).unwrap(), wanted);
                    }
                });
            }
        });
        assert_eq!(device.stats().allocations, 0);
        assert_eq!(device.stats().kernels, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_pool_never_keeps_more_than_its_bound(
        bound in 0u64..20_000,
        steps in prop::collection::vec((1usize..9000, any::<bool>()), 1..40),
    ) {
        let device = cpu(1);
        let pool = Pool::new(&device, bound);
        let mut held = Vec::new();
        for (size, free) in steps {
            held.push(pool.buffer(DType::U8, &[size], Placement::Device).unwrap());
            if free {
                held.remove(held.len() / 2);
            }
            let stats = pool.stats();
            prop_assert!(stats.kept <= bound);
            prop_assert!(stats.lent <= stats.peak_lent);
            let lent: u64 = held.iter().map(|b| b.bytes().max(256).next_power_of_two()).sum();
            prop_assert_eq!(stats.lent, lent);
        }
    }
}
