//! Round trips with Python `gguf`, `safetensors` and `torch`, in both directions, and the real
//! Gemma file. Skipped, with the reason printed, where these are missing; the variable
//! TINTYPE_TEST_PYTHON=required makes that a failure. `cargo xtask python` and
//! `cargo xtask fetch gemma3-270m` bring them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use tintype::DType;
use tintype::weights::convert::{Recipe, Target, convert, plan};
use tintype::weights::inspect::summarize;
use tintype::weights::{Format, Reason, Weights};

/// `$TINTYPE_CACHE`, else the user's cache folder, as `cargo xtask` has it.
fn cache() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    from("TINTYPE_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|p| p.join("tintype")))
        .or_else(|| from("HOME").map(|p| p.join(".cache/tintype")))
}

/// A path, or a skip that says what is missing.
fn need(path: Option<PathBuf>, what: &str, bring: &str) -> Option<PathBuf> {
    let found = path.filter(|path| path.exists());
    if found.is_none() {
        let required = std::env::var("TINTYPE_TEST_PYTHON").is_ok_and(|v| v == "required");
        assert!(!required, "{what} is missing, and TINTYPE_TEST_PYTHON=required");
        println!("skipped: {what}: not found; `{bring}` brings it");
    }
    found
}

fn python() -> Option<PathBuf> {
    let path = std::env::var_os("TINTYPE_PYTHON").map(PathBuf::from);
    let path = path.or_else(|| cache().map(|c| c.join("python-weights/bin/python")));
    need(path, "round trips with Python's gguf, safetensors and torch", "cargo xtask python")
}

fn script(python: &Path, arguments: &[&Path], task: &str) -> String {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/python/weights_roundtrip.py");
    let out = Command::new(python).arg(script).arg(task).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{task}: {}", text(&out.stderr));
    text(&out.stdout)
}

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
    script(&python, &[folder.path()], "make");

    // What Python wrote.
    for (file, format) in [
        ("types.gguf", Format::Gguf),
        ("plain.safetensors", Format::Safetensors),
        ("new.pt", Format::PytorchZip),
        ("old.ckpt", Format::PytorchLegacy),
    ] {
        let weights = Weights::open(at(file)).unwrap();
        assert_eq!(weights.format(), format);
        let count = same_as_dump(&weights, &at(&format!("{file}.d")));
        println!("{file}: {count} tensors equal, bit for bit");
    }
    for file in ["one_new.pt", "one_old.ckpt"] {
        assert_eq!(Weights::open(at(file)).unwrap().tensors()[0].shape(), [6, 8], "{file}");
    }
    for protocol in 3..=5 {
        let weights = Weights::open(at(&format!("protocol{protocol}.pt"))).unwrap();
        assert_eq!(weights.get("w").unwrap().shape(), [6, 8]);
    }
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

    // Pickles with code: refused, and not run.
    for file in ["evil.pt", "evil.ckpt"] {
        let error = Weights::open(at(file)).unwrap_err();
        assert!(matches!(error.reason, Reason::Code { .. }), "{error}");
    }
    assert!(!at("EXECUTED").exists());

    // What Rust writes.
    for dtype in tintype::quant::ENCODABLE {
        let to = at(&format!("rust_{}.gguf", dtype.name()));
        write(&at("source.safetensors"), &to, Some(*dtype));
    }
    write(&at("types.gguf"), &at("rust_types.gguf"), None);
    write(&at("new.pt"), &at("rust_new.safetensors"), None);
    write(&at("old.ckpt"), &at("rust_old.safetensors"), None);
    write(&at("plain.safetensors"), &at("rust_plain.safetensors"), None);
    let report = script(&python, &[folder.path()], "check");
    let errors: BTreeMap<String, f64> = serde_json::from_str(&report).unwrap();
    println!("relative errors as Python sees them: {errors:?}");
}

#[test]
fn the_real_gemma_dequantizes_as_gguf_does() {
    let file = cache().map(|c| c.join("models/gemma3-270m-q4_k_m.gguf"));
    let Some(file) = need(file, "the real Gemma 3 270M", "cargo xtask fetch gemma3-270m") else {
        return;
    };
    let Some(python) = python() else { return };
    let weights = Weights::open(&file).unwrap();
    let summary = summarize(&weights, None);
    assert_eq!(summary.architecture.unwrap().name, "gemma3");
    assert_eq!(summary.tokenizer.unwrap().tokens, Some(262_144));
    let mut types: Vec<_> = summary.dtypes.iter().map(|share| share.dtype).collect();
    types.sort_unstable();
    assert_eq!(types, ["F32", "Q4_K", "Q5_0", "Q6_K", "Q8_0"]);
    let folder = tempfile::tempdir().unwrap();
    script(&python, &[&file, &folder.path().join("d")], "dump");
    let count = same_as_dump(&weights, &folder.path().join("d"));
    println!("{}: {count} tensors, {} values equal", file.display(), summary.parameters);
    assert!(count > 200);
}
