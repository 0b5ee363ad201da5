//! What `inspect` makes of headers: memory a device, tokenizers, trees.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use tintype::weights::Weights;
use tintype::weights::inspect::{Amount, forecast, needs, summarize, tree};

const MIB: u64 = 1 << 20;

/// A language model's header: 2 layers, 4 heads of 16 of which 2 are cached, 1 000 tokens.
fn language_model() -> Weights {
    let mut file = Gguf::sample();
    for (key, value) in [
        ("attention.head_count", 4u32),
        ("attention.head_count_kv", 2),
        ("embedding_length", 64),
        ("context_length", 1000),
    ] {
        file.pairs.push((format!("llama.{key}"), 4, value.to_le_bytes().to_vec()));
    }
    open("model", file.bytes()).unwrap()
}

#[test]
fn memory_is_counted_by_hand() {
    let weights = language_model();
    let found = needs(&weights, None);
    // F32 [2, 3] and two rows of one Q8_0 block.
    assert_eq!(found.weights_bytes, 6 * 4 + 2 * 34);
    assert_eq!(found.weights_f16_bytes, 2 * (6 + 64));
    // 2 layers, 2 heads, keys and values of 16, 2 bytes each.
    let a_token = 2 * 2 * (16 + 16) * 2;
    let context = found.context.unwrap();
    assert_eq!((context.tokens, context.cache_bytes), (1000, 1000 * a_token));
    assert_eq!(found.total_bytes, found.weights_bytes + 1000 * a_token);
    assert_eq!(needs(&weights, Some(10)).context.unwrap().cache_bytes, 10 * a_token);
    // Whole numbers stay as they are.
    let header = r#"{"i":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}}"#;
    let whole = open("whole", safetensors(header, &[0; 24])).unwrap();
    assert_eq!(needs(&whole, None).weights_f16_bytes, 24);
}

#[test]
fn each_device_is_forecast_by_its_own_memory_and_limits() {
    let weights = language_model();
    let needed = needs(&weights, None);
    let mut device = tintype_gpu::list().devices.into_iter().next().unwrap();
    device.memory.total = MIB;
    device.memory.free = needed.total_bytes;
    device.limits.max_binding_bytes = 68;
    device.limits.max_allocation_bytes = MIB;
    let found = forecast(&weights, &needed, &device);
    assert_eq!(found.selector, device.selector());
    assert_eq!((found.needed_bytes, found.total_bytes), (needed.total_bytes, MIB));
    assert!(found.fits && found.over_limit.is_none(), "{found:?}");
    device.memory.free -= 1;
    device.limits.max_binding_bytes = 67;
    let found = forecast(&weights, &needed, &device);
    assert!(!found.fits, "{found:?}");
    let over = found.over_limit.unwrap();
    assert_eq!((&over.tensor[..], over.bytes, over.limit_bytes), ("b.weight", 68, 67));
}

#[test]
fn tokens_of_special_meaning_have_their_text() {
    let mut file = Gguf::sample();
    let mut tokens = 8u32.to_le_bytes().to_vec();
    tokens.extend(3u64.to_le_bytes());
    tokens.extend(["<s>", "</s>", "a"].iter().flat_map(|t| text(t)));
    file.pairs.push(("tokenizer.ggml.model".into(), 8, text("llama")));
    file.pairs.push(("tokenizer.ggml.tokens".into(), 9, tokens));
    for (role, id) in [("eos", 1u32), ("bos", 0), ("unknown", 3)] {
        let key = format!("tokenizer.ggml.{role}_token_id");
        file.pairs.push((key, 4, id.to_le_bytes().to_vec()));
    }
    let weights = open("model", file.bytes()).unwrap();
    let found = summarize(&weights, None).tokenizer.unwrap();
    assert_eq!((&found.model[..], found.tokens), ("llama", Some(3)));
    let special: Vec<_> =
        found.special.iter().map(|s| (&s.role[..], s.id, s.text.as_deref())).collect();
    let expected = [("eos", 1, Some("</s>")), ("bos", 0, Some("<s>")), ("unknown", 3, None)];
    assert_eq!(special, expected);
}

/// Walking to each token anew took minutes.
#[test]
fn many_special_tokens_of_a_large_vocabulary_take_no_time() {
    const TOKENS: usize = 300_000;
    let mut file = Gguf::sample();
    let mut tokens = 8u32.to_le_bytes().to_vec();
    tokens.extend((TOKENS as u64).to_le_bytes());
    tokens.resize(tokens.len() + 8 * TOKENS, 0);
    file.pairs.push(("tokenizer.ggml.model".into(), 8, text("llama")));
    file.pairs.push(("tokenizer.ggml.tokens".into(), 9, tokens));
    for role in 0..60_000 {
        let (key, id) = (format!("tokenizer.ggml.{role}_token_id"), TOKENS as u32 - 1);
        file.pairs.push((key, 4, id.to_le_bytes().to_vec()));
    }
    let weights = open("hostile", file.bytes()).unwrap();
    let start = Instant::now();
    assert_eq!(summarize(&weights, None).tokenizer.unwrap().special.len(), 64);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn layers_that_look_alike_are_one_branch() {
    let entry = |name: &str, at: u64, dtype: &str| {
        let (shape, end) = (if dtype == "I8" { 8 } else { 4 }, at + 8);
        format!(r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{at},{end}]}}"#)
    };
    let header = format!(
        "{{{},{},{},{}}}",
        entry("l.10.w", 0, "F16"),
        entry("l.9.w", 8, "BF16"),
        entry("l.8.w", 16, "F16"),
        entry("l.12.w", 24, "I8")
    );
    let weights = open("layers", safetensors(&header, &[0; 32])).unwrap();
    let found = tree(&weights, true);
    assert_eq!((found.len(), &found[0].name[..]), (1, "l"));
    assert_eq!(found[0].amount, Amount { tensors: 4, parameters: 20, bytes: 32 });
    let layers: Vec<_> = found[0].branches.iter().map(|b| &b.name[..]).collect();
    assert_eq!(layers, ["8..10", "12"]);
    let joined = &found[0].branches[0];
    assert_eq!(joined.amount, Amount { tensors: 3, parameters: 12, bytes: 24 });
    assert_eq!(joined.branches[0].tensor.as_ref().unwrap().dtypes, ["F16", "BF16"]);
    assert_eq!(tree(&weights, false)[0].branches.len(), 4);
}
