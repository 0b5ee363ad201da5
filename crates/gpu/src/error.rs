//! Every way the compute core can refuse or fail, as one enum whose messages a person can act on.
//! It must not know operations or models.

use std::time::Duration;

use crate::hazard::Hazard;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the compute core refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device answers to the selector.
    #[error("no device matches {wanted:?}; available: {available}{}", hint.as_deref().map(|h| format!(" ({h})")).unwrap_or_default())]
    NoDevice {
        /// The selector as given.
        wanted: String,
        /// The devices that are there.
        available: String,
        /// Why a backend offered nothing, when that explains it.
        hint: Option<String>,
    },
    /// A selector that cannot be read.
    #[error(
        "cannot read device selector {given:?}: {reason}; use \"cpu\", \"vulkan\", \"vulkan:1\", \"metal\" or part of a device's name"
    )]
    BadSelector {
        /// The selector as given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A backend could not be started.
    #[error("{backend} is not usable here: {reason}")]
    BackendUnavailable {
        /// Which backend.
        backend: &'static str,
        /// The loader's or driver's own words.
        reason: String,
    },
    /// The device has too little memory for a request.
    #[error("out of memory on {device}: asked for {asked} bytes, {free} of {total} bytes free")]
    OutOfMemory {
        /// Device name.
        device: String,
        /// Bytes asked for.
        asked: u64,
        /// Bytes that were free.
        free: u64,
        /// Bytes the device has in all.
        total: u64,
    },
    /// A shape, size or count that cannot be represented.
    #[error("{what} is too large: {detail}")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// The numbers.
        detail: String,
    },
    /// A byte span outside of its buffer.
    #[error("span {start}..{end} lies outside buffer {buffer} of {len} bytes")]
    OutOfBounds {
        /// Name of the buffer.
        buffer: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Length of the buffer.
        len: u64,
    },
    /// A buffer read or written as a type that it does not hold.
    #[error("buffer {buffer}: {reason}")]
    TypeMismatch {
        /// Name of the buffer.
        buffer: String,
        /// What was expected and what was given.
        reason: String,
    },
    /// A write into memory that was imported read-only.
    #[error("buffer {buffer} is imported read-only memory and cannot be written")]
    ReadOnly {
        /// Name of the buffer.
        buffer: String,
    },
    /// An object of one device was given to another.
    #[error("{what} belongs to another device ({owner}) than this one ({device})")]
    ForeignDevice {
        /// Which object.
        what: String,
        /// Device that owns it.
        owner: String,
        /// Device that was asked.
        device: String,
    },
    /// The host asked for a buffer that a submission still uses.
    #[error("buffer {buffer} is in use by a submission that has not completed; wait for it first")]
    InFlight {
        /// Name of the buffer.
        buffer: String,
    },
    /// A submission asked for a buffer that the host has mapped.
    #[error(
        "buffer {buffer} is mapped by the host; drop the mapping before submitting work that uses it"
    )]
    Mapped {
        /// Name of the buffer.
        buffer: String,
    },
    /// A kernel's source does not parse, validate or translate.
    #[error("kernel {kernel}: {reason}")]
    BadKernel {
        /// Kernel name.
        kernel: String,
        /// The compiler's words.
        reason: String,
    },
    /// A dispatch whose bindings, parameters or size do not fit its kernel or device.
    #[error("dispatch {dispatch} of kernel {kernel}: {reason}")]
    BadDispatch {
        /// Label of the dispatch.
        dispatch: String,
        /// Kernel name.
        kernel: String,
        /// What does not fit, and what is allowed.
        reason: String,
    },
    /// Two dispatches touch the same bytes and nothing orders them.
    #[error(transparent)]
    Unordered(#[from] Box<Hazard>),
    /// The device or backend lacks something.
    #[error("{device} does not support {what}; {instead}")]
    Unsupported {
        /// Device name.
        device: String,
        /// The missing thing.
        what: String,
        /// What to do instead.
        instead: String,
    },
    /// A wait ran out of time; the work goes on.
    #[error("the work had not completed after {waited:?}")]
    Timeout {
        /// How long was waited.
        waited: Duration,
    },
    /// The submission was cancelled; its outputs are unspecified.
    #[error("the work was cancelled")]
    Cancelled,
    /// The device stopped answering. Everything on it is gone; other devices and the process go on.
    #[error("device {device} was lost: {reason}; open it again, or another one")]
    DeviceLost {
        /// Device name.
        device: String,
        /// The driver's words.
        reason: String,
    },
    /// A kernel failed: on the CPU with an error or panic, on a GPU by running too long or touching
    /// memory that it may not. The pass stopped, its outputs are unspecified.
    #[error("kernel {kernel} failed: {reason}")]
    KernelFailed {
        /// Kernel name.
        kernel: String,
        /// What happened.
        reason: String,
    },
    /// A driver call failed in a way that has no name of its own here.
    #[error("{backend} call {call} failed: {code}")]
    Driver {
        /// Which backend.
        backend: &'static str,
        /// Which call.
        call: &'static str,
        /// The driver's code.
        code: String,
    },
    /// The kernel cache folder could not be used; work goes on without it.
    #[error("kernel cache {path}: {reason}")]
    Cache {
        /// The file or folder.
        path: String,
        /// The system's words.
        reason: String,
    },
}
