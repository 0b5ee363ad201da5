//! Why the registry did nothing. Every refusal is typed and leaves everything as it was.
//! Owns the words; must not know how the refusal was found.

use std::error::Error;
use std::fmt;

/// Why a call of the registry had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// Teardown has begun and the calling thread runs it, or the process was forked off: nothing was done.
    Closed,
    /// A null object or handle.
    Null,
    /// The handle was issued by another copy of the library, or by nobody.
    Foreign,
    /// The object behind the handle or address was freed or untracked before.
    Freed,
    /// No object is tracked at this address.
    NotTracked,
    /// The handle's object is of another type.
    WrongType,
    /// A stage other than 0, 1 or 2.
    UnknownStage(u32),
    /// A call was ended that this thread had not begun.
    NoCall,
    /// The registry has issued all of its handles (2^44).
    Exhausted,
    /// The process's exit handlers could not be registered; the object would have crashed the exit.
    Hook(crate::hooks::HookError),
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the process is ending; nothing was done"),
            Self::Null => f.write_str("null is not an object"),
            Self::Foreign => f.write_str("this handle was not issued by this copy of the library"),
            Self::Freed => f.write_str("this object has been freed already"),
            Self::NotTracked => f.write_str("no object is tracked at this address"),
            Self::WrongType => f.write_str("this handle names an object of another type"),
            Self::UnknownStage(stage) => write!(f, "stage {stage} is none of 0, 1, 2"),
            Self::NoCall => f.write_str("this thread ends a call that it has not begun"),
            Self::Exhausted => f.write_str("all handles of this process are used up"),
            Self::Hook(error) => error.fmt(f),
        }
    }
}

impl Error for RegistryError {}

/// Why [`Registry::create`](crate::Registry::create) returned no handle.
#[derive(Debug)]
pub enum CreateError<E> {
    /// The registry refused; the object was not built, or was dropped again.
    Registry(RegistryError),
    /// The object could not be built.
    Build(E),
}

impl<E> From<RegistryError> for CreateError<E> {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl<E: fmt::Display> fmt::Display for CreateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for CreateError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Build(error) => Some(error),
        }
    }
}
