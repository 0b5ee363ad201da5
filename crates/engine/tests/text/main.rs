//! Language models against llama.cpp, with the real Gemma 3 270M: what `xtask/python/text_goldens.py`
//! and `text_reference_goldens.py` wrote is the measure. Without the file the tests are skipped by name.
#![allow(clippy::unwrap_used, reason = "a test")]

mod greedy;
mod tokens;

use std::path::PathBuf;

use serde::de::DeserializeOwned;

/// The real file, or a skip that says how to bring it.
fn gemma3() -> Option<PathBuf> {
    let path = std::env::var_os("TINTYPE_TEST_GEMMA3").map(PathBuf::from);
    if path.is_none() {
        println!(
            "skipped: text with the real Gemma 3 270M: TINTYPE_TEST_GEMMA3 is not set; `cargo xtask \
             test --real` fetches it and sets that"
        );
    }
    path
}

/// What llama.cpp gave.
fn golden<T: DeserializeOwned>(name: &str) -> T {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/text");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}
