//! Weight files of every format the field ships, as one list of lazily converted tensors.
//! It must not know model families or devices, and it trusts no byte of a file.
//!
//! **Bounds.** Opening allocates at most 128 bytes for each byte of header (the part of a file that
//! is not tensor data) and 1 MiB beyond that; reading a tensor allocates the tensor. Lengths are
//! checked against the bytes that are there before anything is allocated. Nothing recurses
//! deeper than a fixed limit.

mod array;
pub mod convert;
mod cursor;
mod error;
mod folder;
mod gguf;
pub mod inspect;
mod map;
mod pairs;
mod printable;
mod pytorch;
mod safetensors;
mod scale;
mod tensor;
mod value;

use std::collections::HashMap;
use std::path::Path;

pub use array::Array;
pub use error::{Reason, Result, WeightError};
pub use folder::{parse_index, parse_model_index};
pub use map::{Access, Source};
pub use printable::printable;
pub use scale::Scale;
pub use tensor::Tensor;
pub use value::{Value, ValueType};

/// Where weights came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One safetensors file, or several with an index.
    Safetensors,
    /// A GGUF file.
    Gguf,
    /// `torch.save`, the archive of PyTorch 1.6 and later.
    PytorchZip,
    /// `torch.save` before that, a sequence of pickles.
    PytorchLegacy,
    /// A folder of components, as the diffusers library saves pipelines.
    Diffusers,
}

impl Format {
    /// Its name, for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Gguf => "gguf",
            Self::PytorchZip => "pytorch",
            Self::PytorchLegacy => "pytorch-legacy",
            Self::Diffusers => "diffusers",
        }
    }
}

/// How to open weights.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether files are mapped or read.
    pub access: Access,
    /// Which variant of a folder's files to take: `Some("fp16")` for `model.fp16.safetensors`.
    pub variant: Option<String>,
}

impl Default for OpenOptions {
    /// Mapped files, no variant.
    fn default() -> Self {
        Self { access: Access::Map, variant: None }
    }
}

/// Tensors and metadata of one model, from however many files.
#[derive(Debug)]
pub struct Weights {
    pub(crate) format: Format,
    pub(crate) version: Option<u32>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) configs: Vec<(String, serde_json::Value)>,
    pub(crate) files: Vec<Source>,
    pub(crate) scales: Vec<Tensor>,
    index: HashMap<String, usize>,
}

/// What a reader of one format hands over.
pub(crate) struct Parts {
    pub(crate) format: Format,
    pub(crate) version: Option<u32>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) configs: Vec<(String, serde_json::Value)>,
    pub(crate) files: Vec<Source>,
}

impl Parts {
    pub(crate) fn of(format: Format, source: &Source, tensors: Vec<Tensor>) -> Self {
        let files = vec![source.clone()];
        Self { format, version: None, tensors, metadata: Vec::new(), configs: Vec::new(), files }
    }
}

impl Weights {
    /// Opens a file, a shard index (`….index.json`) or a folder; mapped, without any variant.
    ///
    /// Only headers are read. Mapping is by consent: see [`Access::Map`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// Opens a file, a shard index or a folder.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::from_parts(folder::open(path, options)?);
        }
        if path.file_name().is_some_and(|n| n.to_string_lossy().ends_with(".index.json")) {
            return Self::from_parts(folder::open_index(path, options)?);
        }
        Self::from_source(Source::open(path, options.access)?)
    }

    /// Weights that are in memory or part of the program.
    pub fn from_source(source: Source) -> Result<Self> {
        Self::from_parts(read(&source)?)
    }

    pub(crate) fn from_parts(parts: Parts) -> Result<Self> {
        let Parts { format, version, mut tensors, metadata, configs, files } = parts;
        let used = scale::attach(&mut tensors)?;
        let (scales, tensors): (Vec<_>, Vec<_>) =
            tensors.into_iter().partition(|t| used.contains(&t.name));
        let mut index = HashMap::with_capacity(tensors.len());
        for (at, tensor) in tensors.iter().enumerate() {
            if index.insert(tensor.name.clone(), at).is_some() {
                let name = tensor.name.clone();
                return Err(tensor.fail(Reason::Duplicate { what: "the tensor", name }));
            }
        }
        Ok(Self { format, version, tensors, metadata, configs, files, scales, index })
    }

    /// Where they came from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The format's version, where it has one.
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// Every tensor, in file order. Scales that were given to their weights are not among them.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Tensors that are scales of 8-bit weights, and so were taken out of [`Weights::tensors`].
    pub fn scale_tensors(&self) -> &[Tensor] {
        &self.scales
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.index.get(name).map(|at| &self.tensors[*at])
    }

    /// The tensor of a name, or an error that names the file and it.
    pub fn require(&self, name: &str) -> Result<&Tensor> {
        let file = self.files.first().map_or(Path::new(""), Source::path);
        self.get(name).ok_or_else(|| WeightError::tensor(file, name, Reason::NoTensor))
    }

    /// Metadata, in file order.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }

    /// One metadata value.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// `config.json` of each component of a folder; the name is empty for the folder itself.
    pub fn configs(&self) -> &[(String, serde_json::Value)] {
        &self.configs
    }

    /// The files that are open.
    pub fn files(&self) -> &[Source] {
        &self.files
    }
}

/// Reads one file of whatever format its first bytes say; names are not looked at.
pub(crate) fn read(source: &Source) -> Result<Parts> {
    let bytes = source.bytes();
    let fail = |reason| Err(WeightError::new(source.path(), reason));
    let unsupported = |what: &str| fail(Reason::Unsupported(what.to_owned()));
    match bytes {
        [] => fail(Reason::UnknownFormat("the file is empty".to_owned())),
        [b'G', b'G', b'U', b'F', ..] => gguf::read(source),
        [b'F', b'U', b'G', b'G', ..] => fail(Reason::BigEndian("GGUF")),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => pytorch::read_zip(source),
        [0x80, 1..=5, ..] => pytorch::read_legacy(source),
        [b't' | b'l', b'j' | b'm', b'g', b'g', ..] | [b'f', b'm', b'g', b'g', ..] => {
            unsupported("a GGML file from before GGUF; convert it with a llama.cpp of 2023")
        }
        [0x89, b'H', b'D', b'F', ..] => unsupported("an HDF5 (Keras) file; export safetensors"),
        _ if bytes.get(257..262) == Some(b"ustar") => {
            unsupported("a tar archive, as PyTorch saved before 0.2; save it again with torch.save")
        }
        [_, _, _, _, _, _, _, _, b'{', ..] => safetensors::read(source),
        _ if bytes.starts_with(b"version https://git-lfs") => {
            unsupported("a Git LFS pointer, not the file itself; run `git lfs pull`")
        }
        [b'<', ..] => unsupported("a web page, not weights; the download went wrong"),
        _ => fail(Reason::UnknownFormat(format!(
            "neither safetensors, GGUF nor a PyTorch file (it starts with {:02x?})",
            &bytes[..bytes.len().min(8)]
        ))),
    }
}
