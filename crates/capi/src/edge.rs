//! The edge itself: panics stop here, and what callers give becomes values or failures. It must not know
//! what any function does.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tintype_registry::{Handle, Registry};

use crate::status::{Failure, Status, keep_error};

/// Names a model or a request. Zero names nothing.
pub type RawHandle = u64;

/// UTF-8 text and its length in bytes; a zero byte at the end is not needed. `{NULL, 0}` is no text.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// The first byte, or null.
    pub data: *const c_char,
    /// Bytes.
    pub length: usize,
}

pub(crate) fn registry() -> &'static Registry {
    Registry::global()
}

pub(crate) fn handle(raw: RawHandle) -> Result<Handle, Failure> {
    Ok(Handle::from_raw(raw)?)
}

/// Does the work of a function: a failure's words are kept for the thread, a panic is a failure.
pub(crate) fn call(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    status(catch(work))
}

/// As [`call`], for functions that answer with another good status than `Ok`.
pub(crate) fn call_for(work: impl FnOnce() -> Result<Status, Failure>) -> Status {
    match catch(work) {
        Ok(status) => status,
        Err(failure) => self::status(Err(failure)),
    }
}

/// A panic as a failure.
pub(crate) fn catch<R>(work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(|words| words.to_string());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let text = format!("a fault of Tintype, please report it: {words}");
        Err(Failure::new(Status::Internal, text))
    })
}

fn status(result: Result<(), Failure>) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(failure) => {
            keep_error(&failure.text);
            failure.status
        }
    }
}

/// The caller's text, or `None` for `{NULL, 0}`.
///
/// # Safety
/// `text.data` is null or has `text.length` bytes that do not change meanwhile.
pub(crate) unsafe fn text<'a>(what: &str, text: Text) -> Result<Option<&'a str>, Failure> {
    if text.data.is_null() {
        return match text.length {
            0 => Ok(None),
            _ => Err(Failure::new(Status::Null, format!("{what}: null has no bytes"))),
        };
    }
    // SAFETY: the caller's promise, as above.
    let bytes = unsafe { bytes(what, text.data.cast(), text.length) }?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Failure::invalid(format!("{what}: not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    Ok(Some(text))
}

/// # Safety
/// `data` has `length` bytes that do not change meanwhile.
pub(crate) unsafe fn bytes<'a>(
    what: &str,
    data: *const u8,
    length: usize,
) -> Result<&'a [u8], Failure> {
    if data.is_null() {
        return Err(Failure::new(Status::Null, format!("{what}: null has no bytes")));
    }
    if length > isize::MAX as usize {
        return Err(Failure::invalid(format!("{what}: {length} bytes cannot be")));
    }
    // SAFETY: not null, of a length that can be, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Writes one value where the caller wants it; a null place is refused.
///
/// # Safety
/// `place` is null or may be written.
pub(crate) unsafe fn put<T>(what: &str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::new(Status::Null, format!("{what}: there is no place to write to")));
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Copies bytes out: the length always, the bytes if there is room.
///
/// # Safety
/// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
pub(crate) unsafe fn put_bytes(
    bytes: &[u8],
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    if !length.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { length.write(bytes.len()) };
    }
    if buffer.is_null() && capacity == 0 && !length.is_null() {
        return Ok(());
    }
    if buffer.is_null() {
        return Err(Failure::new(Status::Null, "there is no buffer to write to"));
    }
    if capacity < bytes.len() {
        let text = format!("{} bytes do not fit into {capacity}", bytes.len());
        return Err(Failure::new(Status::BufferTooSmall, text));
    }
    // SAFETY: the buffer has room by the caller's promise, and is not ours.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(buffer, bytes.len()) };
    Ok(())
}

/// Copies text out, with a zero byte that `length` does not count.
///
/// # Safety
/// As [`put_bytes`].
pub(crate) unsafe fn put_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    let buffer = buffer.cast::<u8>();
    if !buffer.is_null() && capacity == text.len() {
        // No room for the zero byte.
        // SAFETY: the caller's promise; nothing is written to the buffer.
        unsafe { put_bytes(text.as_bytes(), buffer, 0, length) }?;
    }
    // SAFETY: the caller's promise.
    unsafe { put_bytes(text.as_bytes(), buffer, capacity, length) }?;
    if !buffer.is_null() {
        // SAFETY: the capacity is larger than the text.
        unsafe { buffer.add(text.len()).write(0) };
    }
    Ok(())
}

/// Text in a field of fixed length: cut at a character, and ended by a zero byte.
pub(crate) fn fixed<const N: usize>(text: &str) -> [c_char; N] {
    let end = text.floor_char_boundary(N - 1);
    let mut field = [0; N];
    for (place, byte) in field.iter_mut().zip(text[..end].bytes()) {
        *place = byte as c_char;
    }
    field
}
