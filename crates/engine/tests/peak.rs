//! What a conversion takes in memory: a few chunks, so less than one tensor, wherever its values lie.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

mod common;

use cap::Cap;
use tintype::DType;
use tintype::weights::Weights;
use tintype::weights::convert::{Recipe, Target, convert, plan};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const SIDE: usize = 2048;
/// Bytes of one tensor in single precision.
const TENSOR: usize = SIDE * SIDE * 4;

/// What a conversion may take: chunks of 2^20 values as they are read, decoded, encoded and
/// decoded again.
const LIMIT: usize = 14 << 20;

/// Converts a file to Q8_0 and verifies it. What does not fit below the limit aborts the test.
fn convert_within_limit(from: &Path) {
    let to = from.with_extension("gguf");
    let weights = Weights::open(from).unwrap();
    let recipe = Recipe { dtype: Some(DType::Q8_0), verify: true, ..Recipe::default() };
    let planned = plan(&weights, Target::Gguf, &recipe, &to).unwrap();
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + LIMIT).unwrap();
    convert(&weights, &planned, &recipe, &to, &mut |_| ControlFlow::Continue(())).unwrap();
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    assert_eq!(Weights::open(&to).unwrap().tensors().len(), weights.tensors().len());
}

/// A tensor of `torch.save` whose columns lie where rows do.
fn transposed() -> Vec<u8> {
    let side = (SIDE as u16).to_le_bytes();
    let mut opcodes = b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec();
    opcodes.extend(common::pickle_text("storage"));
    opcodes.extend(b"ctorch\nFloatStorage\n");
    opcodes.extend([common::pickle_text("0"), common::pickle_text("cpu")].concat());
    opcodes.extend([&b"J"[..], &((SIDE * SIDE) as u32).to_le_bytes(), b"tQK\0"].concat());
    opcodes.extend([&b"M"[..], &side, b"M", &side, b"\x86K\x01M", &side, b"\x86"].concat());
    opcodes.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    let mut file = common::legacy(&common::pickle_of(&opcodes), true);
    // Instead of the six floats at its end.
    file.truncate(file.len() - 8 - common::storage().len());
    file.extend(((SIDE * SIDE) as u64).to_le_bytes());
    file.resize(file.len() + TENSOR, 0);
    file
}

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

    const { assert!(LIMIT < TENSOR) };
    convert_within_limit(&from);
    let from = folder.path().join("m.pt");
    std::fs::write(&from, transposed()).unwrap();
    assert!(!Weights::open(&from).unwrap().tensors()[0].is_contiguous());
    convert_within_limit(&from);
}
