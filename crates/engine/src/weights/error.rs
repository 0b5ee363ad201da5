//! What can be wrong with a weight file: every error names the file, the tensor if one is at
//! fault, and the fact. It must not know how the error is shown.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use super::printable::Printable;
use crate::DType;
use crate::quant::QuantError;

/// A weight file that cannot be used, and why.
#[derive(Debug)]
pub struct WeightError {
    /// The file at fault.
    pub file: PathBuf,
    /// The tensor at fault, if it is one.
    pub tensor: Option<String>,
    /// The fact.
    pub reason: Reason,
}

impl WeightError {
    /// An error about the file as a whole.
    pub fn new(file: &Path, reason: impl Into<Reason>) -> Self {
        Self { file: file.to_owned(), tensor: None, reason: reason.into() }
    }

    /// An error about one tensor.
    pub fn tensor(file: &Path, tensor: &str, reason: impl Into<Reason>) -> Self {
        Self { file: file.to_owned(), tensor: Some(tensor.to_owned()), reason: reason.into() }
    }
}

impl fmt::Display for WeightError {
    /// One line that cannot steer a terminal or flood it, whatever the file says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Printable::new(f, MESSAGE_LIMIT);
        write!(out, "{}: ", self.file.display())?;
        if let Some(tensor) = &self.tensor {
            write!(out, "tensor {:?}: ", Short(tensor))?;
        }
        write!(out, "{}", self.reason)
    }
}

/// It has no source: the message tells the whole reason, and a chain would tell it twice.
impl std::error::Error for WeightError {}

/// Longest message, in characters.
const MESSAGE_LIMIT: usize = 2000;

/// A name from a file, cut so that a hostile one cannot flood a terminal.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(120) {
            Some((cut, _)) => write!(f, "{:?}…", &self.0[..cut]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The fact that makes a file unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A folder, a device, a pipe.
    #[error("not a regular file")]
    NotAFile,
    /// The file was changed while it was open.
    #[error("the file changed while it was open ({was} bytes, now {now}); open it again")]
    Changed {
        /// Bytes when it was opened.
        was: u64,
        /// Bytes now.
        now: u64,
    },
    /// None of the formats read here.
    #[error("{0}")]
    UnknownFormat(String),
    /// A known format in a version or variant that is not read.
    #[error("{0}")]
    Unsupported(String),
    /// The file ends too early.
    #[error("truncated: {what} at byte {at} needs {need} bytes, {have} are left; fetch it again")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts.
        at: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes that are left.
        have: u64,
    },
    /// Numbers are in the byte order of big-endian machines.
    #[error("big-endian {0}; only little-endian files are read, convert it where it was made")]
    BigEndian(&'static str),
    /// More than any real file has.
    #[error("{what}: {count} is over the limit of {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much is claimed.
        count: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// Something that the format does not allow.
    #[error("at byte {at}: {what}")]
    Malformed {
        /// Where.
        at: u64,
        /// What.
        what: String,
    },
    /// Two tensors or metadata keys of one name.
    #[error("{what} {name:?} appears twice", name = Short(.name))]
    Duplicate {
        /// Tensor, key, entry.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Two tensors share bytes.
    #[error("its bytes {start}..{end} overlap those of {other:?}", other = Short(.other))]
    Overlap {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// The other tensor.
        other: String,
    },
    /// A tensor reaches past the end of its file or storage.
    #[error("its {bytes} bytes at {start} reach past the end at {end}; truncated or damaged")]
    OutOfRange {
        /// First byte.
        start: u64,
        /// How many.
        bytes: u64,
        /// Where the file or storage ends.
        end: u64,
    },
    /// A product of dimensions that no machine can hold.
    #[error("shape {0:?} overflows")]
    ShapeOverflow(Vec<u64>),
    /// Shape, type and bytes do not agree.
    #[error("shape {shape:?} of {dtype} takes {need} bytes, the file gives it {have}")]
    SizeMismatch {
        /// The shape.
        shape: Vec<u64>,
        /// The type.
        dtype: DType,
        /// Bytes that these take.
        need: u64,
        /// Bytes in the file.
        have: u64,
    },
    /// Rows do not fill whole blocks.
    #[error("rows of {row} values do not fill {dtype} blocks of {}", .dtype.block_elements())]
    PartialBlocks {
        /// Values in a row.
        row: u64,
        /// The type.
        dtype: DType,
    },
    /// An element type that is not read.
    #[error("element type {0} is not supported")]
    UnknownDType(String),
    /// A pickle that calls or builds something other than tensors and plain containers.
    #[error(
        "the pickle at byte {at} wants {name:?}, which is code; nothing was run. Save the plain state_dict with torch.save, or as safetensors",
        name = Short(.name)
    )]
    Code {
        /// Where in the pickle.
        at: u64,
        /// The callable, `module.name`.
        name: String,
    },
    /// An archive entry that is compressed or encrypted.
    #[error(
        "entry {entry:?} is {how}; PyTorch stores weights plain, so this may be a bomb",
        entry = Short(.entry)
    )]
    Packed {
        /// Its name.
        entry: String,
        /// Compressed, encrypted.
        how: &'static str,
    },
    /// A file that an index names, or that lies in a folder, and that is somewhere else.
    #[error("{shard:?} is not read: {why}", shard = Short(.shard))]
    ShardPath {
        /// Its name.
        shard: String,
        /// What is wrong with it.
        why: String,
    },
    /// A shard lacks a tensor that the index puts there.
    #[error("the index puts it in {shard:?}, which does not have it", shard = Short(.shard))]
    NotInShard {
        /// The shard.
        shard: String,
    },
    /// A scaled 8-bit tensor whose scale cannot be applied.
    #[error("its scale {scale:?} cannot be applied: {why}", scale = Short(.scale))]
    Scale {
        /// Name of the scale tensor.
        scale: String,
        /// What is wrong.
        why: String,
    },
    /// Bytes that cannot become numbers, or numbers that cannot become blocks.
    #[error("{0}")]
    Quant(#[from] QuantError),
    /// There is no tensor of this name.
    #[error("no such tensor")]
    NoTensor,
    /// The host asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// A written file did not read back as it was meant.
    #[error("verification failed: {0}; the file was not kept")]
    Verify(String),
}

/// What most functions here return.
pub type Result<T, E = WeightError> = std::result::Result<T, E>;
