//! Conversion: types by rule, scales, files that appear whole or not at all, checks that fail.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use common::*;
use regex::Regex;
use tintype::DType;
use tintype::weights::convert::{Item, Phase, Recipe, Rule, Target, convert, plan};
use tintype::weights::{Reason, WeightError, Weights};

fn tensor(name: &str, dtype: &str, shape: &[u64], start: usize, bytes: usize) -> String {
    let end = start + bytes;
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
}

/// Tensors of F32 ramps, one after the other.
fn ramps(tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, shape) in tensors {
        let count: u64 = shape.iter().product();
        entries.push(tensor(name, "F32", shape, data.len(), 4 * count as usize));
        data.extend((0..count).flat_map(|v| ((v % 97) as f32 - 48.0).to_le_bytes()));
    }
    safetensors(&format!("{{{}}}", entries.join(",")), &data)
}

fn model() -> Weights {
    let tensors: &[(&str, &[u64])] = &[
        ("blk.0.attn_v.weight", &[4, 256]),
        ("blk.0.ffn.weight", &[4, 256]),
        ("blk.0.norm.weight", &[256]),
        ("conv.weight", &[4, 4, 3, 3]),
    ];
    open("model", ramps(tensors)).unwrap()
}

fn rule(pattern: &str, dtype: DType) -> Rule {
    Rule { pattern: Regex::new(pattern).unwrap(), dtype }
}

fn run(weights: &Weights, to: &Path, recipe: &Recipe) -> Result<Weights, WeightError> {
    let target = if to.extension().unwrap() == "gguf" { Target::Gguf } else { Target::Safetensors };
    let plan = plan(weights, target, recipe, to)?;
    convert(weights, &plan, recipe, to, &mut |_| ControlFlow::Continue(()))?;
    Weights::open(to)
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_first_rule_that_matches_decides() {
    let weights = model();
    let recipe = Recipe {
        rules: vec![rule("attn_v", DType::Q6K), rule(r"^blk\.", DType::Q4_0)],
        dtype: Some(DType::Q8_0),
        ..Recipe::default()
    };
    let plan = plan(&weights, Target::Gguf, &recipe, Path::new("x.gguf")).unwrap();
    let found: Vec<_> = plan.items.iter().map(|i: &Item<'_>| (i.dtype, i.kept)).collect();
    let expected = [
        (DType::Q6K, None),
        (DType::Q4_0, None),
        (DType::Q4_0, None),
        (DType::F32, Some("rows that do not fill blocks")),
    ];
    assert_eq!(found, expected);
    // Without a rule for it, one dimension is kept.
    let recipe = Recipe { dtype: Some(DType::Q8_0), ..Recipe::default() };
    let plan = tintype::weights::convert::plan(&weights, Target::Gguf, &recipe, Path::new("x"));
    assert_eq!(plan.unwrap().items[2].kept, Some("fewer than two dimensions"));
    // What a rule asks for is done or refused.
    let recipe = Recipe { rules: vec![rule("conv", DType::Q4K)], ..Recipe::default() };
    let error = tintype::weights::convert::plan(&weights, Target::Gguf, &recipe, Path::new("x"));
    let error = error.unwrap_err();
    assert_eq!(error.tensor.as_deref(), Some("conv.weight"));
    assert!(matches!(error.reason, Reason::PartialBlocks { row: 3, dtype: DType::Q4K }), "{error}");
}

#[test]
fn names_that_llama_cpp_refuses_are_told() {
    let (fits, long) = ("n".repeat(63), "n".repeat(64));
    let weights = open("names", ramps(&[(&fits, &[2]), (&long, &[2])])).unwrap();
    let names = |target, file: &str| {
        let plan = plan(&weights, target, &Recipe::default(), Path::new(file)).unwrap();
        plan.long_names().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(Target::Gguf, "x.gguf"), [long]);
    assert!(names(Target::Safetensors, "x.safetensors").is_empty());
}

#[test]
fn every_type_reads_back_within_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let weights = model();
    let old = weights.get("blk.0.ffn.weight").unwrap().to_f32().unwrap();
    for dtype in tintype::quant::ENCODABLE {
        let recipe = Recipe { dtype: Some(*dtype), verify: true, ..Recipe::default() };
        let to = folder.path().join(format!("{dtype}.gguf"));
        let new = run(&weights, &to, &recipe).unwrap();
        let tensor = new.get("blk.0.ffn.weight").unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (*dtype, &[4, 256][..]));
        let new = tensor.to_f32().unwrap();
        let worst = old.iter().zip(&new).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Half a step of a range of 96, times what the block's own scales lose.
        let bits = [("Q2", 2), ("Q3", 3), ("Q4", 4), ("Q5", 5), ("Q6", 6), ("Q8", 8), ("BF", 8)];
        let bits = bits.iter().find(|(start, _)| dtype.name().starts_with(start));
        let bound = bits.map_or(0.0, |(_, bits)| 96.0 / f32::from((1u16 << bits) - 1) * 1.1);
        assert!(worst <= bound, "{dtype}: {worst} is over {bound}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let quantized = open("q.gguf", Gguf::sample().bytes()).unwrap();
    let to = folder.path().join("x.safetensors");
    let error = run(&quantized, &to, &Recipe::default()).unwrap_err();
    assert_eq!(error.tensor.as_deref(), Some("b.weight"));
    assert!(error.to_string().contains("safetensors cannot hold Q8_0"), "{error}");
    let recipe = Recipe { dtype: Some(DType::F16), ..Recipe::default() };
    let new = run(&quantized, &to, &recipe).unwrap();
    assert_eq!(new.get("b.weight").unwrap().dtype(), DType::F16);
    let header = format!("{{{}}}", tensor("m", "BOOL", &[2], 0, 2));
    let mask = open("mask", safetensors(&header, &[0, 1])).unwrap();
    let error = run(&mask, &folder.path().join("x.gguf"), &Recipe::default()).unwrap_err();
    assert!(error.to_string().contains("GGUF cannot hold BOOL"), "{error}");
    let header = format!("{{{}}}", tensor("m", "I8", &[1, 1, 1, 1, 1], 0, 1));
    let five = open("five", safetensors(&header, &[0])).unwrap();
    let error = run(&five, &folder.path().join("x.gguf"), &Recipe::default()).unwrap_err();
    assert!(error.to_string().contains("dimensions for GGUF"), "{error}");
}

#[test]
fn nothing_is_left_of_a_conversion_that_fails_or_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("m.gguf");
    std::fs::write(&to, "the old file").unwrap();
    let weights = model();
    let recipe = Recipe { dtype: Some(DType::Q8_0), ..Recipe::default() };
    let planned = plan(&weights, Target::Gguf, &recipe, &to).unwrap();
    let mut seen = Vec::new();
    let error = convert(&weights, &planned, &recipe, &to, &mut |progress| {
        assert_eq!(progress.phase, Phase::Writing);
        assert!(progress.done <= progress.total);
        seen.push(progress.done);
        if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap_err();
    assert!(matches!(error.reason, Reason::Cancelled), "{error}");
    assert!(seen[0] < seen[1]);
    assert_eq!(files(folder.path()), ["m.gguf"]);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "the old file");
    // A value that no weight should be.
    let mut bytes = ramps(&[("w", &[2, 32])]);
    let end = bytes.len();
    bytes[end - 8..end - 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = run(&open("nan", bytes).unwrap(), &to, &recipe).unwrap_err();
    assert_eq!((error.tensor.as_deref(), files(folder.path()).len()), (Some("w"), 1));
    assert!(error.to_string().contains("value 62 is NaN"), "{error}");
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "the old file");
    let weights = run(&weights, &to, &recipe).unwrap();
    assert_eq!(weights.tensors().len(), 4);
}

#[test]
fn verification_sees_a_source_that_changed_between() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.safetensors"), folder.path().join("m.gguf"));
    std::fs::write(&from, ramps(&[("w", &[4, 64])])).unwrap();
    let weights = Weights::open(&from).unwrap();
    let recipe = Recipe { dtype: Some(DType::Q8_0), verify: true, ..Recipe::default() };
    let planned = plan(&weights, Target::Gguf, &recipe, &to).unwrap();
    // After the writing, someone replaces the bytes that it was made from.
    let error = convert(&weights, &planned, &recipe, &to, &mut |progress| {
        if progress.done == progress.total && progress.phase == Phase::Writing {
            std::fs::write(&from, b"other").unwrap();
        }
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert!(matches!(error.reason, Reason::Changed { .. }), "{error}");
    assert!(!to.exists());
}

/// An E4M3 weight [2, 4] of 1.0, 2.0, … and a scale beside it.
fn scaled(
    scale: &str,
    shape: &[u64],
    factors: &[f32],
    extra: &str,
) -> Result<Weights, WeightError> {
    // 0x38 is 1, 0x40 is 2.
    let mut data: Vec<u8> = vec![0x38, 0x40, 0x38, 0x40, 0x38, 0x40, 0x38, 0x40];
    data.extend(factors.iter().flat_map(|f| f.to_le_bytes()));
    let header = format!(
        "{{{},{}{extra}}}",
        tensor("l.weight", "F8_E4M3", &[2, 4], 0, 8),
        tensor(scale, "F32", shape, 8, 4 * factors.len())
    );
    open("scaled", safetensors(&header, &data))
}

#[test]
fn scales_of_8_bit_floats_are_applied_or_refused() {
    let values = |weights: Weights| {
        assert_eq!(weights.tensors().len(), 1);
        weights.get("l.weight").unwrap().to_f32().unwrap()
    };
    let comfy = scaled("l.scale_weight", &[], &[0.5], "").unwrap();
    assert_eq!(values(comfy), [0.5, 1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 1.0]);
    let rows = scaled("l.weight_scale", &[2, 1], &[2.0, 4.0], "").unwrap();
    assert_eq!(values(rows), [2.0, 4.0, 2.0, 4.0, 4.0, 8.0, 4.0, 8.0]);
    let tiles = scaled("l.weight_scale_inv", &[2, 2], &[1.0, 2.0, 3.0, 4.0], "").unwrap();
    assert_eq!(values(tiles), [1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 4.0, 8.0]);
    let marker = format!(",{}", tensor("scaled_fp8", "F8_E4M3", &[0], 12, 0));
    let marked = scaled("l.scale_weight", &[1], &[0.5], &marker).unwrap();
    assert_eq!(marked.scale_tensors().len(), 2);
    // Activations' scales are no business of weights.
    let input = scaled("l.input_scale", &[], &[0.5], "").unwrap();
    assert_eq!(input.get("l.weight").unwrap().to_f32().unwrap()[0], 1.0);
    for (scale, shape, factors, words) in [
        ("l.weight_scale", &[3][..], &[1.0, 1.0, 1.0][..], "does not fit a weight"),
        ("l.weight_scale_inv", &[2, 3], &[1.0; 6], "3 factors along 4 values"),
        ("l.mystery_scale", &[], &[1.0], "no custom of scaled checkpoints"),
        ("l.weight_scale", &[], &[f32::NAN], "a factor of NaN"),
    ] {
        let error = scaled(scale, shape, factors, "").unwrap_err();
        assert_eq!(error.tensor.as_deref(), Some("l.weight"));
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains(scale), "{error}");
    }
}

#[test]
fn scales_go_with_the_weights_that_need_them() {
    let folder = tempfile::tempdir().unwrap();
    let weights = scaled("l.scale_weight", &[], &[0.5], "").unwrap();
    let copy = run(&weights, &folder.path().join("c.safetensors"), &Recipe::default()).unwrap();
    assert_eq!(copy.get("l.weight").unwrap().dtype(), DType::F8E4M3);
    assert_eq!(copy.get("l.weight").unwrap().to_f32().unwrap()[1], 1.0);
    let gguf = run(&weights, &folder.path().join("c.gguf"), &Recipe::default()).unwrap();
    assert_eq!(gguf.tensors().len(), 1);
    let tensor = gguf.get("l.weight").unwrap();
    assert_eq!((tensor.dtype(), tensor.to_f32().unwrap()[1]), (DType::Bf16, 1.0));
}

#[test]
fn copies_are_the_same_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1.gguf"), folder.path().join("2.gguf"));
    let weights = open("g", Gguf::sample().bytes()).unwrap();
    run(&weights, &first, &Recipe::default()).unwrap();
    run(&Weights::open(&first).unwrap(), &second, &Recipe::default()).unwrap();
    assert_eq!(std::fs::read(&first).unwrap(), Gguf::sample().bytes());
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
}

#[test]
fn a_pipeline_is_one_list_of_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("unet")).unwrap();
    std::fs::write(at("model_index.json"), MODEL_INDEX).unwrap();
    std::fs::write(at("unet/config.json"), r#"{"_class_name":"UNet2DConditionModel"}"#).unwrap();
    std::fs::write(
        at("unet/diffusion_pytorch_model.safetensors"),
        ramps(&[("conv_in.weight", &[2, 32])]),
    )
    .unwrap();
    let weights = Weights::open(folder.path()).unwrap();
    assert_eq!(weights.tensors()[0].name(), "unet.conv_in.weight");
    let guess = tintype::weights::inspect::architecture(&weights).unwrap();
    assert_eq!(guess.name, "StableDiffusionPipeline");
    assert_eq!(weights.configs()[1].0, "unet");
    let new = run(&weights, &at("all.gguf"), &Recipe::default()).unwrap();
    assert!(new.value("tintype.config.unet").unwrap().as_str().unwrap().contains("UNet2D"));
    std::fs::remove_dir_all(at("unet")).unwrap();
    let error = Weights::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("folder is missing"), "{error}");
}
