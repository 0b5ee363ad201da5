//! Statuses, the errors behind them, and the words kept for each thread. It must not know where an error
//! comes from.

use std::cell::RefCell;

use engine::image::{ImageError, PictureError, RegistryError};

/// How a call ended, or where a request stands.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The request is at work.
    Running = 1,
    /// There is nothing more to read.
    Nothing = 2,
    /// The time ran out; the request goes on.
    Timeout = 3,
    /// The work was asked to stop, and did.
    Cancelled = 4,
    /// A pointer or handle is null.
    Null = -1,
    /// The handle was freed before.
    Freed = -2,
    /// The handle was issued by another copy of the library, or by nobody.
    Foreign = -3,
    /// The handle names an object of another kind.
    WrongType = -4,
    /// An argument is out of its range, not UTF-8, or names nothing that is there.
    InvalidArgument = -5,
    /// The buffer is too short; the length that is needed was written.
    BufferTooSmall = -6,
    /// The request has no such result.
    NoResult = -7,
    /// The process is ending, and nothing was done.
    Closed = -8,
    /// The file or folder cannot be read or written.
    Io = -9,
    /// The file is damaged, or its parts do not fit one another.
    BadModel = -10,
    /// The file holds no model of a kind that is supported.
    Unsupported = -11,
    /// A device refused or failed, or there is none.
    Device = -12,
    /// The device has too little memory.
    OutOfMemory = -13,
    /// The device or the weights gave numbers that no sound model gives.
    Broken = -14,
    /// No object is tracked at this address.
    NotTracked = -15,
    /// The thread ends a call that it has not begun.
    NoCall = -16,
    /// A fault of the library; please report it.
    Internal = -17,
}

impl Status {
    const NAMES: [(Status, &'static str); 23] = [
        (Status::Ok, "ok\0"),
        (Status::Running, "running\0"),
        (Status::Nothing, "nothing\0"),
        (Status::Timeout, "timeout\0"),
        (Status::Cancelled, "cancelled\0"),
        (Status::Null, "null\0"),
        (Status::Freed, "freed\0"),
        (Status::Foreign, "foreign\0"),
        (Status::WrongType, "wrong type\0"),
        (Status::InvalidArgument, "invalid argument\0"),
        (Status::BufferTooSmall, "buffer too small\0"),
        (Status::NoResult, "no result\0"),
        (Status::Closed, "closed\0"),
        (Status::Io, "io\0"),
        (Status::BadModel, "bad model\0"),
        (Status::Unsupported, "unsupported\0"),
        (Status::Device, "device\0"),
        (Status::OutOfMemory, "out of memory\0"),
        (Status::Broken, "broken\0"),
        (Status::NotTracked, "not tracked\0"),
        (Status::NoCall, "no call\0"),
        (Status::Internal, "internal\0"),
        (Status::Internal, "unknown status\0"),
    ];

    /// Ends with a zero byte.
    pub(crate) fn name_of(status: i32) -> &'static str {
        let known = Self::NAMES[..22].iter().find(|(known, _)| *known as i32 == status);
        known.map_or(Self::NAMES[22].1, |(_, name)| name)
    }
}

/// A failed call: the status for programs, the words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, text)
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let status = match error {
            RegistryError::Closed => Status::Closed,
            RegistryError::Null => Status::Null,
            RegistryError::Foreign => Status::Foreign,
            RegistryError::Freed => Status::Freed,
            RegistryError::NotTracked => Status::NotTracked,
            RegistryError::WrongType => Status::WrongType,
            RegistryError::UnknownStage(_) => Status::InvalidArgument,
            RegistryError::NoCall => Status::NoCall,
            RegistryError::Hook(_) => Status::OutOfMemory,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        let status = match &error {
            ImageError::Cancelled(_) => Status::Cancelled,
            ImageError::Request { .. } | ImageError::Sampling(_) => Status::InvalidArgument,
            ImageError::Unsupported(_) => Status::Unsupported,
            ImageError::Weights(error) => match error.reason {
                engine::weights::Reason::Io(_) | engine::weights::Reason::NotAFile => Status::Io,
                engine::weights::Reason::UnknownFormat(_)
                | engine::weights::Reason::Unsupported(_) => Status::Unsupported,
                engine::weights::Reason::Cancelled => Status::Cancelled,
                _ => Status::BadModel,
            },
            ImageError::Model(_) | ImageError::Setting { .. } | ImageError::Tokenizer(_) => {
                Status::BadModel
            }
            ImageError::Compute { error: tintype_tensor::Error::Gpu(error), .. } => device(error),
            ImageError::Compute { .. } => Status::Device,
            ImageError::Broken { .. } => Status::Broken,
            ImageError::Registry(error) => Failure::from(*error).status,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

fn device(error: &tintype_gpu::Error) -> Status {
    match error {
        tintype_gpu::Error::OutOfMemory { .. } => Status::OutOfMemory,
        tintype_gpu::Error::BadSelector { .. } => Status::InvalidArgument,
        tintype_gpu::Error::Cancelled => Status::Cancelled,
        _ => Status::Device,
    }
}

impl From<tintype_gpu::Error> for Failure {
    fn from(error: tintype_gpu::Error) -> Self {
        Self::new(device(&error), error.to_string())
    }
}

impl From<PictureError> for Failure {
    fn from(error: PictureError) -> Self {
        let status = match &error {
            PictureError::Io { .. } => Status::Io,
            PictureError::Unreadable { .. } => Status::InvalidArgument,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

thread_local!(static LAST: RefCell<String> = const { RefCell::new(String::new()) });

/// Keeps the words of the calling thread's failed call. In a thread that is ending nobody asks.
pub(crate) fn keep_error(text: &str) {
    let _ending = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            text.clone_into(&mut last);
        }
    });
}

pub(crate) fn last_error() -> String {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_name() {
        for (at, (status, name)) in Status::NAMES[..22].iter().enumerate() {
            assert_eq!(Status::name_of(*status as i32), *name);
            assert!(name.ends_with('\0') && !Status::NAMES[..at].iter().any(|(_, o)| o == name));
        }
        assert_eq!(Status::name_of(99), "unknown status\0");
    }

    #[test]
    fn words_are_kept_for_each_thread() {
        keep_error("mine");
        std::thread::spawn(|| assert_eq!(last_error(), "")).join().unwrap();
        assert_eq!(last_error(), "mine");
    }
}
