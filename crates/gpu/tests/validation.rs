//! An outside judge: Khronos' synchronization validation is silent over ordered passes and speaks
//! when a barrier is taken out. Each case runs in a process of its own, with the layer switched on
//! by the environment as a user would.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::*;
use tintype_gpu::testing::validation_messages;
use tintype_gpu::{Backend, Device, Ordering, Session, SessionOptions};

const ROLE: &str = "TINTYPE_VALIDATION_ROLE";
const N: usize = 4096;

/// What a child process does, and which word of the layer's report is expected; `None` for silence.
const CASES: [(&str, Option<&str>); 5] = [
    ("ordered", None),
    ("ranged", None),
    ("replayed", None),
    ("read after write", Some("SYNC-HAZARD-READ-AFTER-WRITE")),
    ("write after read", Some("SYNC-HAZARD-WRITE-AFTER-READ")),
];

/// Skipped without the layer, unless the environment promises it.
#[test]
fn the_validation_layer_agrees_about_barriers() {
    if let Ok(role) = std::env::var(ROLE) {
        return child(&role);
    }
    let required = std::env::var("TINTYPE_TEST_VALIDATION").is_ok_and(|v| v == "required");
    for (role, expected) in CASES {
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_validation_layer_agrees_about_barriers", "--nocapture"])
            .env(ROLE, role)
            .env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
            .env("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")
            .env_remove("TINTYPE_VALIDATION_LOG")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned()
            + &String::from_utf8_lossy(&out.stderr);
        if text.contains("no-layer") {
            assert!(!required, "the validation layer is required: {text}");
            eprintln!("skipped: no Vulkan device with the Khronos validation layer");
            return;
        }
        assert!(out.status.success(), "{role}: {text}");
        let reports: Vec<&str> = text.lines().filter(|line| line.contains("REPORT")).collect();
        match expected {
            None => assert!(reports.is_empty(), "{role}: {reports:#?}"),
            Some(word) => assert!(
                reports.iter().any(|report| report.contains(word)),
                "{role}: the layer did not speak of {word}: {reports:#?}"
            ),
        }
    }
}

fn child(role: &str) {
    let vulkan = tintype_gpu::list().devices.into_iter().find(|d| d.backend == Backend::Vulkan);
    let Some(info) = vulkan.filter(|_| layer_is_there()) else {
        return println!("no-layer");
    };
    let device = Device::open(&info.selector().parse().unwrap(), Default::default()).unwrap();
    match role {
        "ordered" => chain(&device, Ordering::Checked, |session| session.barrier()),
        "ranged" => ranged(&device),
        "replayed" => replayed(&device),
        "read after write" => chain(&device, Ordering::Unchecked, |_| {}),
        "write after read" => write_after_read(&device),
        other => panic!("no role {other}"),
    }
    drop(device);
    for message in validation_messages() {
        println!("REPORT {}", message.replace('\n', " "));
    }
}

/// Whether the loader really loaded the layer: a missing one makes no instance, or, with some
/// loaders, none of its messages. A buffer used wrongly on purpose would be the surest sign; the
/// instance fails without the layer on every loader seen.
fn layer_is_there() -> bool {
    tintype_gpu::list().unavailable.iter().all(|(backend, _)| *backend != Backend::Vulkan)
}

fn unchecked(device: &Device) -> Session<'_> {
    let options = SessionOptions { ordering: Ordering::Unchecked, ..Default::default() };
    device.session_with(options).unwrap()
}

/// x → tmp → out → x (in place), with `between` after each step.
fn chain(device: &Device, ordering: Ordering, between: fn(&mut Session<'_>)) {
    let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
    let reverse = device.kernel(&REVERSE, &[]).unwrap();
    let in_place = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
    let x = device.buffer_from(&[N], &random(N, 1)).unwrap();
    let (tmp, out) = (poisoned(device, N), poisoned(device, N));
    let mut session = device.session_with(mode(ordering)).unwrap();
    for _ in 0..3 {
        session.dispatch(over(&scale, N, 2.0, 1.0).bind(x.read()).bind(tmp.write())).unwrap();
        between(&mut session);
        session.dispatch(over(&reverse, N, 0.0, 0.0).bind(tmp.read()).bind(out.write())).unwrap();
        between(&mut session);
        session.dispatch(over(&in_place, N, 0.5, 0.0).bind(out.write())).unwrap();
        between(&mut session);
    }
    let (_, done) = run(session);
    done.read::<f32>(&out).unwrap();
}

fn ranged(device: &Device) {
    let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
    let x = device.buffer_from(&[N], &random(N, 1)).unwrap();
    let (tmp, out) = (poisoned(device, N), poisoned(device, N));
    let mut session = device.session().unwrap();
    session.dispatch(over(&scale, N, 2.0, 1.0).bind(x.read()).bind(tmp.write())).unwrap();
    session.barrier_between(&[tmp.read()], &[out.write()]).unwrap();
    session.dispatch(over(&scale, N, 2.0, 1.0).bind(tmp.read()).bind(out.write())).unwrap();
    session.barrier_between(&[], &[x.write()]).unwrap();
    session.dispatch(over(&scale, N, 2.0, 1.0).bind(tmp.read()).bind(x.write())).unwrap();
    run(session);
}

/// Replays, copies and host access around them.
fn replayed(device: &Device) {
    let in_place = device.kernel(&SCALE_ADD_IN_PLACE, &[]).unwrap();
    let x = device.buffer_from(&[N], &random(N, 1)).unwrap();
    let mut session = device.session().unwrap();
    let id = session.dispatch(over(&in_place, N, 2.0, 1.0).bind(x.write())).unwrap();
    let (mut pass, mut done) = run(session);
    for at in 0..4 {
        done.read::<f32>(&x).unwrap();
        device.upload(&x.write(), &random(N, at)).unwrap();
        let params = Params { n: N as u32, scale: 1.5, offset: at as f32 };
        pass.set_immediates(id, &params).unwrap();
        (pass, done) = pass.run(PATIENCE).unwrap();
    }
    // Two passes in flight over one buffer: the queue orders them.
    let mut session = device.session().unwrap();
    session.dispatch(over(&in_place, N, 2.0, 1.0).bind(x.write())).unwrap();
    let second = session.finish().unwrap();
    let (first, second) = (pass.submit().unwrap(), second.submit().unwrap());
    second.wait(PATIENCE).unwrap();
    first.wait(PATIENCE).unwrap();
}

fn write_after_read(device: &Device) {
    let scale = device.kernel(&SCALE_ADD, &[]).unwrap();
    let one = device.buffer_from(&[N], &[1.0f32; N]).unwrap();
    let (x, out) = (poisoned(device, N), poisoned(device, N));
    let mut session = unchecked(device);
    session.dispatch(over(&scale, N, 1.0, 0.0).bind(x.read()).bind(out.write())).unwrap();
    session.dispatch(over(&scale, N, 5.0, 0.0).bind(one.read()).bind(x.write())).unwrap();
    run(session);
}
