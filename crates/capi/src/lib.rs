//! The C ABI: `libtintype`. Every function here checks what it is given, catches panics at the edge and
//! answers with a status. It must not know how anything is computed.
//!
//! `include/tintype.h` is made from these sources.

pub mod device;
pub mod edge;
pub mod exit;
pub mod image;
mod log;
pub mod model;
pub mod request;
mod ring;
pub mod status;
mod structure;

use std::ffi::c_char;

use edge::{RawHandle, put_text};
use status::Status;

/// The version of the interface: that of the header which a program was compiled with must be the same.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_abi_version() -> u32 {
    1
}

/// The library's version, as "0.1.0": text that lives as long as the process and ends with a zero byte.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What a status is called, as "cancelled": text that lives as long as the process and ends with a zero
/// byte.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_status_name(status: i32) -> *const c_char {
    Status::name_of(status).as_ptr().cast()
}

/// Why the calling thread's latest failed call failed, in words for a person. Empty if none has. A call
/// that succeeds does not change it.
///
/// `length` receives the text's bytes; the text and a zero byte go to `buffer` if it has room for them.
/// Without room the status is TINTYPE_STATUS_BUFFER_TOO_SMALL and nothing is written to `buffer`.
///
/// # Safety
/// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_last_error(
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    // Not through `edge::call`, which would store this call's own failure over what is asked for.
    let text = status::last_error();
    // SAFETY: the caller's promise, as above.
    match unsafe { put_text(&text, buffer, capacity, length) } {
        Ok(()) => Status::Ok,
        Err(failure) => failure.status,
    }
}

/// Frees a model or a request, and stops its work first; a request's model, if it was not taken, goes
/// with it. Never waits for work. Returns TINTYPE_STATUS_FREED the second time.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_free(handle: RawHandle) -> Status {
    edge::call(|| Ok(edge::registry().free(edge::handle(handle)?)?))
}

/// As tintype_free, in the form that finalizers of managed languages call: the handle is in the pointer's
/// bits. Any number of times, on any thread. 64-bit systems only.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_finalize(handle: *mut std::ffi::c_void) {
    // A finalizer has nobody to tell.
    let _freed = tintype_free(handle as usize as RawHandle);
}

/// Asks the work of a request to stop, or what a model is doing now or is asked next. Kept if it comes
/// before the work begins. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn tintype_cancel(handle: RawHandle) -> Status {
    edge::call(|| Ok(edge::registry().cancel(edge::handle(handle)?)?))
}
