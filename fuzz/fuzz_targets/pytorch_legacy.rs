//! Any bytes, as far as they begin like this format; see `mutation.rs` of the engine's tests.
#![no_main]

#[path = "../../crates/engine/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| common::exercise("pytorch_legacy", bytes));
