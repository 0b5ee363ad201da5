//! Hostile and damaged files: each is refused with an error that names file, tensor and reason.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod folders;
mod headers;
mod messages;
mod pickles;

use std::path::Path;

use common::*;
use tintype::weights::{Format, Reason, WeightError, Weights};

/// Refused, with the file's name, this tensor (or none) and these words.
#[track_caller]
fn refused(result: Result<Weights, WeightError>, tensor: Option<&str>, words: &str) -> Reason {
    let error = match result {
        Ok(weights) => panic!("opened, with {} tensors; wanted: {words}", weights.tensors().len()),
        Err(error) => error,
    };
    assert_eq!(error.file, Path::new("bad"), "{error}");
    assert_eq!(error.tensor.as_deref(), tensor, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("bad: "), "{text}");
    assert!(text.contains(words), "{text}\nlacks {words:?}");
    error.reason
}

#[track_caller]
fn gguf(change: impl FnOnce(&mut Gguf), tensor: Option<&str>, words: &str) -> Reason {
    let mut file = Gguf::sample();
    change(&mut file);
    refused(open("bad", file.bytes()), tensor, words)
}

#[track_caller]
fn header(header: &str, data: usize, tensor: Option<&str>, words: &str) -> Reason {
    refused(open("bad", safetensors(header, &vec![0; data])), tensor, words)
}

#[track_caller]
fn pickle(pickle: Vec<u8>, tensor: Option<&str>, words: &str) {
    refused(open("bad", zip(&pytorch_entries(pickle.clone()))), tensor, words);
    refused(open("bad", legacy(&pickle, true)), tensor, words);
}

#[test]
fn the_samples_are_good() {
    let file = open("good", Gguf::sample().bytes()).unwrap();
    assert_eq!((file.format(), file.version()), (Format::Gguf, Some(3)));
    assert_eq!(file.get("a.weight").unwrap().shape(), [2, 3]);
    assert_eq!(file.get("a.weight").unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let file = open("good", safetensors_sample()).unwrap();
    assert_eq!(file.get("w").unwrap().to_f32().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(file.get("i").unwrap().to_f32().unwrap(), [1.0, 2.0, -1.0]);
    for bytes in [pytorch_sample(), legacy_sample()] {
        let file = open("good", bytes).unwrap();
        assert_eq!(file.get("w").unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }
    let transposed = zip(&pytorch_entries(pickle_of(&tensor_opcodes(3, 2, (1, 3), 6))));
    let file = open("good", transposed).unwrap();
    let tensor = file.get("w").unwrap();
    assert!(!tensor.is_contiguous());
    assert_eq!(tensor.to_f32().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}

#[test]
fn other_files_are_named() {
    for (bytes, words) in [
        (&b"\x89HDF\r\n\x1a\n"[..], "HDF5"),
        (b"tjgg\x03\0\0\0", "before GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html>", "web page"),
        (b"hello, this is text", "neither safetensors"),
        (b"\x80\x04N.", "torch.save did not write"),
    ] {
        refused(open("bad", bytes), None, words);
    }
}

#[test]
fn a_mapped_file_that_changes_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    std::fs::write(&path, safetensors_sample()).unwrap();
    let weights = Weights::open(&path).unwrap();
    assert!(weights.get("w").unwrap().to_f32().is_ok());
    let mut longer = safetensors_sample();
    longer.push(0);
    std::fs::write(&path, longer).unwrap();
    let error = weights.get("w").unwrap().to_f32().unwrap_err();
    assert!(matches!(error.reason, Reason::Changed { .. }), "{error}");
}
