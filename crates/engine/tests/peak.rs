//! What a conversion takes in memory: one tensor at most, and in fact a few chunks.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::io::Write;
use std::ops::ControlFlow;

use cap::Cap;
use tintype::DType;
use tintype::weights::Weights;
use tintype::weights::convert::{Recipe, Target, convert, plan};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const SIDE: usize = 2048;
/// Bytes of one tensor in single precision.
const TENSOR: usize = SIDE * SIDE * 4;

/// One test, since the allocator counts for the whole process.
#[test]
fn converting_takes_less_than_one_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("m.safetensors");
    let entry = |n: usize| {
        let (start, end) = (n * TENSOR, (n + 1) * TENSOR);
        format!(
            r#""{n}.w":{{"dtype":"F32","shape":[{SIDE},{SIDE}],"data_offsets":[{start},{end}]}}"#
        )
    };
    let header = format!("{{{},{},{}}}", entry(0), entry(1), entry(2));
    let mut file = std::fs::File::create(&from).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    // The rest is a hole: zeros that take no room.
    file.set_len((8 + header.len() + 3 * TENSOR) as u64).unwrap();
    drop(file);

    let to = folder.path().join("m.gguf");
    let weights = Weights::open(&from).unwrap();
    let recipe = Recipe { dtype: Some(DType::Q8_0), verify: true, ..Recipe::default() };
    let planned = plan(&weights, Target::Gguf, &recipe, &to).unwrap();
    let before = ALLOCATOR.allocated();
    // What does not fit below this aborts the test.
    ALLOCATOR.set_limit(before + TENSOR).unwrap();
    convert(&weights, &planned, &recipe, &to, &mut |_| ControlFlow::Continue(())).unwrap();
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    println!("peak {} of {TENSOR} bytes of a tensor", ALLOCATOR.max_allocated() - before);
    assert_eq!(Weights::open(&to).unwrap().tensors().len(), 3);
}
