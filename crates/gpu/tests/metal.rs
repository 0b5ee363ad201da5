//! What of the Metal backend can be tested without a Mac: the arguments of translated kernels against
//! what the backend binds, the meaning of failure codes, and how threads hear of an end.
#![allow(unreachable_pub, clippy::unwrap_used)]

mod common;

#[path = "../src/backend/metal/failure.rs"]
mod failure;
#[path = "../src/backend/metal/layout.rs"]
mod layout;
#[path = "../src/backend/metal/signal.rs"]
mod signal;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use failure::Failure;
use layout::Layout;
use signal::{Outcome, Signal};
use tintype_gpu::kernel::{KernelSource, Unit, UnitError, msl, parse};

fn nothing(_: &mut Unit<'_>) -> Result<(), UnitError> {
    Ok(())
}

fn source(wgsl: &'static str) -> KernelSource {
    KernelSource { name: "odd", wgsl, entry: "main", aliases: &[], cpu: nothing }
}

/// The Metal source of a kernel, and the layout by which the backend binds it.
fn translated(source: &KernelSource) -> (String, Layout) {
    let parsed = parse(source, &[]).unwrap();
    let layout = Layout::of(&parsed.module, &parsed.info, source.entry).unwrap();
    (msl(source, &parsed).unwrap().0, layout)
}

/// The members of the struct of array sizes, as slots: naga names a member after the position of the
/// variable, so names of arguments tell which slot it is.
fn size_members(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("struct _mslBufferSizes {") else { return Vec::new() };
    let (body, _) = rest.split_once("};").unwrap();
    let members = body.lines().filter_map(|line| line.trim().strip_prefix("uint "));
    members.map(|member| member.trim_end_matches(';').to_owned()).collect()
}

/// The entry point's arguments: type and name, and what binds them.
fn arguments(text: &str) -> Vec<(String, String)> {
    let (_, rest) = text.split_once("kernel void").unwrap();
    let (list, _) = rest.split_once(") {").unwrap();
    let (_, list) = list.split_once('(').unwrap();
    let argument = |line: &str| {
        let (what, binding) = line.split_once("[[").unwrap_or((line, ""));
        let what = what.trim().trim_start_matches(',').trim().to_owned();
        (what, binding.trim().trim_end_matches("]]").to_owned())
    };
    list.lines().map(str::trim).filter(|line| !line.is_empty()).map(argument).collect()
}

fn binding_of(text: &str, part: &str) -> String {
    let found = arguments(text).into_iter().find(|(what, _)| what.contains(part));
    found.unwrap_or_else(|| panic!("no argument {part} in {text}")).1
}

#[test]
fn buffers_come_first_then_immediates_then_sizes() {
    for (kernel, slots) in [(SCALE_ADD, 2), (SCALE_ADD_IN_PLACE, 1), (REVERSE, 2)] {
        let (text, layout) = translated(&kernel);
        assert_eq!(layout.sized, (0..slots).collect::<Vec<_>>());
        assert_eq!(layout.group_memory, []);
        assert_eq!(size_members(&text).len(), slots as usize);
        assert_eq!(binding_of(&text, "& a"), "buffer(0)");
        assert_eq!(binding_of(&text, "Params"), format!("buffer({slots})"));
        assert_eq!(binding_of(&text, "_mslBufferSizes"), format!("buffer({})", slots + 1));
    }
}

#[test]
fn sizes_follow_declaration_not_binding_and_skip_fixed_buffers() {
    let odd = source(
        "struct Tail { n: u32, rest: array<u32> }
         @group(0) @binding(2) var<storage, read_write> out: array<u32>;
         @group(0) @binding(0) var<storage, read> fixed: array<u32, 4>;
         @group(0) @binding(1) var<storage, read> tail: Tail;
         @compute @workgroup_size(1) fn main() {
             out[0] = fixed[0] + arrayLength(&tail.rest) + arrayLength(&out);
         }",
    );
    let (text, layout) = translated(&odd);
    assert_eq!(layout.sized, [2, 1]);
    // Members are named after the variables' positions: `out` is 0, `tail` is 2.
    assert_eq!(size_members(&text), ["size0", "size2"]);
    assert_eq!(binding_of(&text, "& tail"), "buffer(1)");
    assert_eq!(binding_of(&text, "& out"), "buffer(2)");
    // No immediates: their index stays free.
    assert_eq!(binding_of(&text, "_mslBufferSizes"), "buffer(4)");
    assert!(text.contains("_buffer_sizes.size2 - 4"), "{text}");
}

#[test]
fn sizes_are_bound_even_where_no_length_is_asked_for() {
    let odd = source(
        "@group(0) @binding(0) var<storage, read_write> out: array<u32>;
         @compute @workgroup_size(1) fn main() { out[0] = 7u; }",
    );
    let (text, layout) = translated(&odd);
    assert_eq!(layout.sized, [0]);
    assert_eq!(binding_of(&text, "_mslBufferSizes"), "buffer(2)");
    let fixed = source(
        "@group(0) @binding(0) var<storage, read_write> out: array<u32, 8>;
         @compute @workgroup_size(1) fn main() { out[0] = 7u; }",
    );
    let (text, layout) = translated(&fixed);
    assert_eq!(layout.sized, []);
    assert!(!text.contains("_mslBufferSizes"), "{text}");
}

#[test]
fn threadgroup_arguments_are_sized_in_order_and_rounded_up() {
    let odd = source(
        "var<workgroup> tile: array<f32, 65>;
         var<workgroup> unused: array<f32, 1024>;
         var<workgroup> flag: atomic<u32>;
         @group(0) @binding(0) var<storage, read_write> out: array<f32>;
         @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) at: u32) {
             tile[at] = out[at];
             atomicAdd(&flag, 1u);
             workgroupBarrier();
             out[at] = tile[at + 1u] + f32(atomicLoad(&flag));
         }",
    );
    let (text, layout) = translated(&odd);
    assert_eq!(layout.group_memory, [272, 16]);
    let threadgroup: Vec<_> =
        arguments(&text).into_iter().filter(|(what, _)| what.starts_with("threadgroup ")).collect();
    assert_eq!(threadgroup.len(), 2, "{text}");
    // Without an attribute, Metal numbers them in order.
    assert!(threadgroup[0].0.ends_with("tile") && threadgroup[0].1.is_empty(), "{text}");
    assert!(threadgroup[1].0.ends_with("flag") && threadgroup[1].1.is_empty(), "{text}");
}

#[test]
fn an_entry_point_that_is_not_there_has_no_layout() {
    let parsed = parse(&SCALE_ADD, &[]).unwrap();
    assert_eq!(Layout::of(&parsed.module, &parsed.info, "nobody"), None);
}

#[test]
fn failure_codes_tell_device_kernel_and_system_apart() {
    let cases = [
        (0, Failure::Other),
        (1, Failure::Other),
        (2, Failure::Kernel),
        (3, Failure::Kernel),
        (4, Failure::Lost),
        (7, Failure::Refused),
        (8, Failure::Memory),
        (9, Failure::Kernel),
        (10, Failure::Other),
        (11, Failure::Lost),
        (12, Failure::Kernel),
        (-1, Failure::Other),
    ];
    for (code, failure) in cases {
        assert_eq!(Failure::of(code), failure, "code {code}");
    }
}

#[test]
fn a_signal_wakes_waiters_keeps_its_outcome_and_times_out() {
    let signal = Arc::new(Signal::default());
    assert_eq!(signal.wait(Duration::from_millis(5)), None);
    assert!(!signal.has_ended());
    let waiter = signal.clone();
    let waiting = std::thread::spawn(move || waiter.wait(PATIENCE));
    let failed = Outcome::Failed { code: 3, reason: "page fault".into() };
    signal.end(failed.clone());
    assert_eq!(waiting.join().unwrap(), Some(failed.clone()));
    assert_eq!(signal.wait(Duration::ZERO), Some(failed));
    assert!(signal.has_ended());
    let done = Signal::default();
    done.end(Outcome::Completed);
    assert_eq!(done.wait(Duration::MAX), Some(Outcome::Completed));
}
