//! Small weight files made byte by byte, so that tests can break each part of them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses its own part")]

use std::path::Path;

use tintype::weights::{Source, WeightError, Weights};

/// Opens bytes as a file named `name`.
pub(crate) fn open(name: &str, bytes: impl Into<Vec<u8>>) -> Result<Weights, WeightError> {
    Weights::from_source(Source::from_vec(name, bytes.into()))
}

/// A GGUF file in parts.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    pub(crate) pairs: Vec<(String, u32, Vec<u8>)>,
    /// Name, dimensions as written (fastest first), type, offset.
    pub(crate) tensors: Vec<(String, Vec<u64>, u32, u64)>,
    pub(crate) data: Vec<u8>,
}

impl Gguf {
    /// Two tensors, F32 [2, 3] and Q8_0 [2, 32], and two metadata pairs.
    pub(crate) fn sample() -> Self {
        let mut data: Vec<u8> = (0..6).flat_map(|v| (v as f32).to_le_bytes()).collect();
        data.resize(32, 0);
        data.extend((0..68).map(|v| v as u8));
        data.resize(128, 0);
        Self {
            version: 3,
            pairs: vec![
                ("general.architecture".into(), 8, text("llama")),
                ("llama.block_count".into(), 4, 2u32.to_le_bytes().to_vec()),
            ],
            tensors: vec![
                ("a.weight".into(), vec![3, 2], 0, 0),
                ("b.weight".into(), vec![32, 2], 8, 32),
            ],
            data,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.pairs {
            out.extend(text(key));
            out.extend(kind.to_le_bytes());
            out.extend(value);
        }
        for (name, dimensions, kind, offset) in &self.tensors {
            out.extend(text(name));
            out.extend((dimensions.len() as u32).to_le_bytes());
            dimensions.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

/// A GGUF text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

/// A safetensors file of a header and data.
pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// Two tensors, F32 [2, 2] and I8 [3], and metadata.
pub(crate) fn safetensors_sample() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"#,
        r#""i":{"dtype":"I8","shape":[3],"data_offsets":[16,19]}}"#
    );
    let mut data: Vec<u8> = (1..5).flat_map(|v| (v as f32).to_le_bytes()).collect();
    data.extend([1, 2, 255]);
    safetensors(header, &data)
}

/// Opcodes that push a tensor `[rows, columns]` of storage "0" that holds `count` floats.
pub(crate) fn tensor_opcodes(rows: u8, columns: u8, strides: (u8, u8), count: u8) -> Vec<u8> {
    let mut out = b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec();
    out.extend(pickle_text("storage"));
    out.extend(b"ctorch\nFloatStorage\n");
    out.extend(pickle_text("0"));
    out.extend(pickle_text("cpu"));
    out.extend([b'K', count, b't', b'Q', b'K', 0]);
    out.extend([b'K', rows, b'K', columns, 0x86, b'K', strides.0, b'K', strides.1, 0x86]);
    out.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    out
}

pub(crate) fn pickle_text(text: &str) -> Vec<u8> {
    let mut out = vec![b'X'];
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

/// A pickle of `{"w": value}`.
pub(crate) fn pickle_of(value: &[u8]) -> Vec<u8> {
    let mut out = b"\x80\x02}".to_vec();
    out.extend(pickle_text("w"));
    out.extend(value);
    out.extend(b"s.");
    out
}

/// Six floats.
pub(crate) fn storage() -> Vec<u8> {
    (0..6).flat_map(|v| (v as f32).to_le_bytes()).collect()
}

/// One entry of an archive: name, method (0 stored, 8 deflated), flags, size claimed, bytes.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) size: u32,
    pub(crate) bytes: Vec<u8>,
    /// Where the directory says that it is, if not where it is.
    pub(crate) place: Option<u32>,
}

pub(crate) fn entry(name: &str, bytes: Vec<u8>) -> Entry {
    let size = bytes.len() as u32;
    Entry { name: name.into(), method: 0, flags: 0, size, bytes, place: None }
}

/// The entries of a PyTorch archive with a pickle.
pub(crate) fn pytorch_entries(pickle: Vec<u8>) -> Vec<Entry> {
    vec![
        entry("m/data.pkl", pickle),
        entry("m/byteorder", b"little".to_vec()),
        entry("m/data/0", storage()),
        entry("m/version", b"3\n".to_vec()),
    ]
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for e in entries {
        let start = out.len() as u32;
        let mut fields = Vec::new();
        fields.extend(20u16.to_le_bytes());
        fields.extend(e.flags.to_le_bytes());
        fields.extend(e.method.to_le_bytes());
        fields.extend([0; 4]);
        fields.extend(crc(&e.bytes).to_le_bytes());
        fields.extend((e.bytes.len() as u32).to_le_bytes());
        fields.extend(e.size.to_le_bytes());
        fields.extend((e.name.len() as u16).to_le_bytes());
        fields.extend(0u16.to_le_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(e.name.as_bytes());
        out.extend(&e.bytes);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend(e.place.unwrap_or(start).to_le_bytes());
        directory.extend(e.name.as_bytes());
    }
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\x00\x00\x00\x00");
    out.extend((entries.len() as u16).to_le_bytes());
    out.extend((entries.len() as u16).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
        crc
    })
}

/// A file of before PyTorch 1.6, with a pickle and storage "0" of six floats.
pub(crate) fn legacy(pickle: &[u8], little: bool) -> Vec<u8> {
    let mut out = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    out.extend(b"\x80\x02}");
    out.extend(pickle_text("little_endian"));
    out.extend([if little { 0x88 } else { 0x89 }, b's', b'.']);
    out.extend(pickle);
    out.extend(b"\x80\x02]");
    out.extend(pickle_text("0"));
    out.extend(b"a.");
    out.extend(6u64.to_le_bytes());
    out.extend(storage());
    out
}

pub(crate) fn pytorch_sample() -> Vec<u8> {
    zip(&pytorch_entries(pickle_of(&tensor_opcodes(2, 3, (3, 1), 6))))
}

pub(crate) fn legacy_sample() -> Vec<u8> {
    legacy(&pickle_of(&tensor_opcodes(2, 3, (3, 1), 6)), true)
}

pub(crate) const INDEX: &str =
    r#"{"metadata":{"total_size":16},"weight_map":{"w":"a.safetensors"}}"#;

pub(crate) const MODEL_INDEX: &str = r#"{"_class_name":"StableDiffusionPipeline","unet":["diffusers","UNet2DConditionModel"],"safety_checker":[null,null],"requires_safety_checker":false}"#;

/// Everything that looking at a file does: every header, and the first values of every tensor.
pub(crate) fn exercise(kind: &str, bytes: &[u8]) {
    match kind {
        "index" => drop(tintype::weights::parse_index(Path::new("index"), bytes)),
        "model_index" => drop(tintype::weights::parse_model_index(Path::new("index"), bytes)),
        _ => {
            let Ok(weights) = open("mutant", bytes) else { return };
            let summary = tintype::weights::inspect::summarize(&weights, None);
            drop(tintype::weights::inspect::tree(&weights, true));
            drop(summary);
            for (_, value) in weights.metadata() {
                if let Some(array) = value.as_array() {
                    array.iter().take(16).for_each(drop);
                }
            }
            for tensor in weights.tensors() {
                let mut stop = 0;
                let _ = tensor.for_each_chunk(1024, |_, values| {
                    stop += values.len();
                    if stop > 4096 { Err(weights.require("").unwrap_err()) } else { Ok(()) }
                });
            }
        }
    }
}
