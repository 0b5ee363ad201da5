//! A short deterministic fuzz of every reader, held to the memory bound that `weights` states.
//! `fuzz/` has the long one. The corpus is shared.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::alloc::System;
use std::path::Path;

use cap::Cap;
use common::exercise;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What `weights` says: 128 bytes for each byte of header and 1 MiB beyond. Here a whole file is
/// header; decoding the first values takes part of the same MiB, the test itself another.
fn bound(bytes: usize) -> usize {
    128 * bytes + (2 << 20)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers that break arithmetic.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7F,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 40,
    i64::MAX as u64,
    u64::MAX - 31,
    u64::MAX,
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = (1 << random.below(4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            4 => {
                let end = at + random.below((bytes.len() - at).min(64));
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            5 => {
                let end = at + random.below((bytes.len() - at).min(16));
                bytes.drain(at..end);
            }
            _ => bytes.insert(at, random.next() as u8),
        }
    }
}

/// Files that hold as many things in as few bytes as their formats allow.
/// (how they are read, what they hold, the file).
fn dense() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    const MANY: usize = 50_000;
    let pickle = |opcodes: &[u8]| {
        let mut pickle = b"\x80\x02](".to_vec();
        (0..10 * MANY).for_each(|_| pickle.extend(opcodes));
        pickle.extend(b"e.");
        common::legacy(&pickle, true)
    };
    let mut tensors = common::Gguf::sample();
    tensors.tensors = (0..MANY).map(|n| (format!("{n:x}"), vec![0], 24, 0)).collect();
    let mut pairs = common::Gguf::sample();
    pairs.pairs = (0..MANY).map(|n| (format!("{n:x}"), 8, common::text(""))).collect();
    let mut texts = common::Gguf::sample();
    let mut array = 8u32.to_le_bytes().to_vec();
    array.extend((MANY as u64).to_le_bytes());
    array.resize(array.len() + 8 * MANY, 0);
    texts.pairs.push(("texts".into(), 9, array));
    let entry = |n| format!(r#""{n:x}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}"#);
    let entries = (0..MANY).map(entry).collect::<Vec<_>>().join(",");
    let archive: Vec<_> =
        (0..20_000).map(|n| common::entry(&format!("{n:x}"), Vec::new())).collect();
    let mut memo = b"\x80\x02N".to_vec();
    (0..MANY as u32).for_each(|n| memo.extend([&b"r"[..], &n.to_le_bytes()].concat()));
    memo.push(b'.');
    let shards = (0..MANY).map(|n| format!(r#""{n:x}":"a""#)).collect::<Vec<_>>().join(",");
    let notes = (0..MANY).map(|n| format!(r#""{n:x}":"""#)).collect::<Vec<_>>().join(",");
    // Inside a pair of brackets that no component has.
    let json = |value: &str| format!(r#"{{"a":[{}]}}"#, vec![value; MANY].join(",")).into_bytes();
    let components = (0..MANY).map(|n| format!(r#""_{n:x}":[]"#)).collect::<Vec<_>>().join(",");
    vec![
        ("file", "lists", pickle(b"]")),
        ("file", "dictionaries", pickle(b"}")),
        ("file", "marks and tuples", pickle(b"(t")),
        ("file", "single items", pickle(b"N\x85")),
        ("file", "memo slots", common::legacy(&memo, true)),
        ("file", "GGUF tensors", tensors.bytes()),
        ("file", "GGUF pairs", pairs.bytes()),
        ("file", "GGUF texts", texts.bytes()),
        ("file", "safetensors", common::safetensors(&format!("{{{entries}}}"), &[])),
        ("file", "notes", common::safetensors(&format!(r#"{{"__metadata__":{{{notes}}}}}"#), &[])),
        ("file", "archive", common::zip(&archive)),
        ("index", "shards", format!(r#"{{"weight_map":{{{shards}}}}}"#).into_bytes()),
        ("model_index", "numbers", json("0")),
        ("model_index", "arrays", json("[]")),
        ("model_index", "objects", json("{}")),
        ("model_index", "texts", json(r#""a""#)),
        ("model_index", "settings", format!("{{{components}}}").into_bytes()),
    ]
}

/// One test, since the allocator counts for the whole process.
#[test]
fn no_mutant_panics_loops_or_takes_more_than_the_bound() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let rounds: usize =
        std::env::var("TINTYPE_MUTANTS").ok().and_then(|v| v.parse().ok()).unwrap_or(40_000);
    // Threads, tables and the like are set up before anything is counted.
    exercise("gguf", &common::Gguf::sample().bytes());
    for (kind, name, bytes) in dense() {
        let before = ALLOCATOR.allocated();
        ALLOCATOR.set_limit(before + bound(bytes.len())).unwrap();
        exercise(kind, &bytes);
        ALLOCATOR.set_limit(usize::MAX).unwrap();
        println!("{name}: {} bytes, within {}", bytes.len(), bound(bytes.len()));
    }
    for kind in ["gguf", "safetensors", "pytorch_zip", "pytorch_legacy", "index", "model_index"] {
        let mut seeds: Vec<_> =
            std::fs::read_dir(corpus.join(kind)).unwrap().map(|e| e.unwrap().path()).collect();
        seeds.sort();
        assert!(!seeds.is_empty(), "{kind} has no seeds");
        let seeds: Vec<Vec<u8>> = seeds.iter().map(|path| std::fs::read(path).unwrap()).collect();
        let mut random = Random(kind.len() as u64);
        for round in 0..rounds {
            let mut bytes = seeds[round % seeds.len()].clone();
            if round >= seeds.len() {
                mutate(&mut bytes, &mut random);
            }
            // What cannot be allocated aborts, with the limit in force.
            let limit = ALLOCATOR.allocated() + bound(bytes.len());
            ALLOCATOR.set_limit(limit).unwrap();
            exercise(kind, &bytes);
            ALLOCATOR.set_limit(usize::MAX).unwrap();
        }
    }
}

/// The fuzzers' seeds are these samples. `TINTYPE_UPDATE=1` writes them when a format's sample changes.
#[test]
fn the_fuzzers_seeds_are_up_to_date() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let text = common::tensor_opcodes(3, 2, (1, 3), 6);
    let seeds: [(&str, &str, Vec<u8>); 8] = [
        ("gguf", "sample", common::Gguf::sample().bytes()),
        ("safetensors", "sample", common::safetensors_sample()),
        ("pytorch_zip", "sample", common::pytorch_sample()),
        ("pytorch_zip", "strided", common::zip(&common::pytorch_entries(common::pickle_of(&text)))),
        ("pytorch_legacy", "sample", common::legacy_sample()),
        ("pytorch_legacy", "strided", common::legacy(&common::pickle_of(&text), true)),
        ("index", "sample", common::INDEX.into()),
        ("model_index", "sample", common::MODEL_INDEX.into()),
    ];
    for (kind, name, bytes) in seeds {
        let path = corpus.join(kind).join(name);
        if std::env::var_os("TINTYPE_UPDATE").is_some() {
            std::fs::create_dir_all(corpus.join(kind)).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{} is not up to date: run with TINTYPE_UPDATE=1", path.display());
    }
}
