//! Round trips with Python's own packages as judge, in both directions: `gguf` and `safetensors`
//! here, `torch` in `torch.rs`, the real Gemma file in `gemma.rs`. What is missing is skipped with its
//! name, unless the environment promises it (`TINTYPE_TEST_PYTHON=required`, as `cargo xtask test`
//! sets it).
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod gemma;
mod torch;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use tintype::DType;
use tintype::weights::convert::{Recipe, Target, convert, plan};
use tintype::weights::{Format, Weights};

/// A path that a variable names, or a skip that says what is missing.
fn named(variable: &str, what: &str, bring: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        println!("skipped: {what}: {variable} is not set; {bring}");
    }
    path
}

/// The interpreter that has `gguf` and `safetensors`.
fn python() -> Option<PathBuf> {
    let bring = "`cargo xtask test` sets it, `cargo xtask python` prints it";
    let found = named("TINTYPE_PYTHON", "round trips with Python's gguf and safetensors", bring);
    let required = std::env::var("TINTYPE_TEST_PYTHON").is_ok_and(|v| v == "required");
    assert!(found.is_some() || !required, "TINTYPE_TEST_PYTHON=required, but no TINTYPE_PYTHON");
    found
}

/// Runs one of `xtask/python`; returns what it printed.
fn script(python: &Path, name: &str, task: &str, path: &Path) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/python");
    let out = Command::new(python).arg(scripts.join(name)).arg(task).arg(path).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{name} {task}: {}", text(&out.stderr));
    text(&out.stdout)
}

/// The script that writes, reads and judges GGUF and safetensors files.
const SCRIPT: &str = "weights_roundtrip.py";

/// Every tensor of `file` equals, bit for bit, what Python dumped of it; returns how many.
fn same_as_dump(weights: &Weights, dump: &Path) -> usize {
    let mut names: Vec<String> = std::fs::read_dir(dump)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut ours: Vec<&str> = weights.tensors().iter().map(|t| t.name()).collect();
    ours.sort_unstable();
    assert_eq!(ours, names);
    for name in &names {
        let bytes = std::fs::read(dump.join(name)).unwrap();
        let (theirs, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        let ours = weights.get(name).unwrap().to_f32().unwrap();
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            let theirs = f32::from_le_bytes(*theirs);
            let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
            assert!(same, "{name}[{at}]: {ours} is not {theirs}");
        }
    }
    names.len()
}

fn write(from: &Path, to: &Path, dtype: Option<DType>) {
    let weights = Weights::open(from).unwrap();
    let target = if to.extension().unwrap() == "gguf" { Target::Gguf } else { Target::Safetensors };
    let recipe = Recipe { dtype, verify: true, ..Recipe::default() };
    let plan = plan(&weights, target, &recipe, to).unwrap();
    convert(&weights, &plan, &recipe, to, &mut |_| ControlFlow::Continue(())).unwrap();
}

#[test]
fn python_and_rust_read_each_other() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    script(&python, SCRIPT, "make", folder.path());

    // What Python wrote.
    for (file, format) in [("types.gguf", Format::Gguf), ("plain.safetensors", Format::Safetensors)]
    {
        let weights = Weights::open(at(file)).unwrap();
        assert_eq!(weights.format(), format);
        let count = same_as_dump(&weights, &at(&format!("{file}.d")));
        println!("{file}: {count} tensors equal, bit for bit");
    }
    every_type_is_listed(&at("types.json"));
    let value = |key: &str| {
        let weights = Weights::open(at("types.gguf")).unwrap();
        serde_json::to_string(weights.value(key).unwrap()).unwrap()
    };
    for (key, text) in [
        ("general.architecture", "\"llama\""),
        ("t.u8", "200"),
        ("t.i8", "-5"),
        ("t.u16", "60000"),
        ("t.i16", "-30000"),
        ("t.u32", "4000000000"),
        ("t.i32", "-2000000000"),
        ("t.u64", "9223372036854775808"),
        ("t.i64", "-4611686018427387904"),
        ("t.f32", "0.25"),
        ("t.f64", "1e+300"),
        ("t.bool", "true"),
        ("t.strings", "[\"a\",\"ü\",\"\"]"),
        ("t.numbers", "[1,-2,3]"),
    ] {
        assert_eq!(value(key), text, "{key}");
    }

    // What Rust writes.
    for dtype in tintype::quant::ENCODABLE {
        let to = at(&format!("rust_{}.gguf", dtype.name()));
        write(&at("source.safetensors"), &to, Some(*dtype));
    }
    write(&at("types.gguf"), &at("rust_types.gguf"), None);
    write(&at("plain.safetensors"), &at("rust_plain.safetensors"), None);
    let report = script(&python, SCRIPT, "check", folder.path());
    let errors: BTreeMap<String, f64> = serde_json::from_str(&report).unwrap();
    println!("relative errors as Python sees them: {errors:?}");
}

/// Every type that Python knows by number, as a tensor of one block in a file of ours.
fn every_type_is_listed(types: &Path) {
    let types = std::fs::read(types).unwrap();
    let types: Vec<(String, u32, u64, u64)> = serde_json::from_slice(&types).unwrap();
    assert!(types.len() >= 34, "{types:?}");
    for (name, number, elements, bytes) in types {
        // Python still has the size of before ggml's change from two singles to two halves.
        let bytes = if name == "Q8_1" { 36 } else { bytes };
        let mut file = common::Gguf::sample();
        file.tensors = vec![(name.clone(), vec![elements], number, 0)];
        file.data = vec![0; bytes as usize];
        let weights = common::open("one", file.bytes()).unwrap();
        let tensor = weights.get(&name).unwrap();
        assert_eq!((tensor.dtype().name(), tensor.byte_len()), (&name[..], bytes));
        // One byte less is too little: the size is no accident.
        file.data.pop();
        assert!(common::open("one", file.bytes()).is_err(), "{name}");
    }
}
