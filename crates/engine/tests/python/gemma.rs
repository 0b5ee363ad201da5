//! The real Gemma 3 270M: every tensor of it, dequantized as Python's `gguf` does.

use sha2::{Digest, Sha256};
use tintype::weights::inspect::summarize;

use super::*;

#[test]
fn the_real_gemma_dequantizes_as_gguf_does() {
    let bring = "`cargo xtask test --real` fetches it and sets that";
    let Some(file) = named("TINTYPE_TEST_GEMMA3", "the real Gemma 3 270M", bring) else { return };
    let Some(python) = python() else { return };
    let weights = Weights::open(&file).unwrap();
    let summary = summarize(&weights, None);
    assert_eq!(summary.architecture.unwrap().name, "gemma3");
    assert_eq!(summary.tokenizer.unwrap().tokens, Some(262_144));
    let mut types: Vec<_> = summary.dtypes.iter().map(|share| share.dtype).collect();
    types.sort_unstable();
    assert_eq!(types, ["F32", "Q4_K", "Q5_0", "Q6_K", "Q8_0"]);
    let theirs = script(&python, SCRIPT, "digest", &file);
    let theirs: BTreeMap<String, String> = serde_json::from_str(&theirs).unwrap();
    assert_eq!(theirs.len(), weights.tensors().len());
    for tensor in weights.tensors() {
        let mut hasher = Sha256::new();
        let hash = |_, values: &[f32]| {
            values.iter().for_each(|v| hasher.update(v.to_le_bytes()));
            Ok(())
        };
        tensor.for_each_chunk(1 << 20, hash).unwrap();
        let ours: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, theirs[tensor.name()], "{}", tensor.name());
    }
    let count = theirs.len();
    println!("{}: {count} tensors, {} values equal", file.display(), summary.parameters);
    assert!(count > 200);
}
