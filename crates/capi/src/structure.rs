//! Structures that begin with their size, so that older programs and newer libraries, and the other way
//! round, understand each other. It must not know their fields.

use std::mem::{MaybeUninit, size_of};

use crate::status::{Failure, Status};

/// A C structure whose first field is its size in bytes.
///
/// # Safety
/// `repr(C)`, begins with a `usize`, and every bit pattern, zeros included, is a value of it.
pub(crate) unsafe trait Structure: Copy {
    /// Its name in messages.
    const NAME: &'static str;
    /// Its size in the first version of the interface.
    const OLDEST: usize = size_of::<Self>();

    /// The structure that a program gives: what it does not know yet is zero, what we do not know must
    /// be.
    ///
    /// # Safety
    /// `from` is null or begins with its size and has so many bytes.
    unsafe fn read(from: *const Self) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let size = unsafe { declared::<Self>(from) }?;
        // SAFETY: as many bytes as the caller says are there.
        let given = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
        if given.iter().skip(size_of::<Self>()).any(|&byte| byte != 0) {
            let text = format!("{}: a field is set that this library does not know", Self::NAME);
            return Err(Failure::invalid(text));
        }
        let mut value = MaybeUninit::<Self>::zeroed();
        let known = size.min(size_of::<Self>());
        // SAFETY: both have `known` bytes.
        unsafe { given.as_ptr().copy_to_nonoverlapping(value.as_mut_ptr().cast(), known) };
        // SAFETY: every bit pattern is a value.
        Ok(unsafe { value.assume_init() })
    }

    /// Fills a program's structure as far as it reaches; its size stays.
    ///
    /// # Safety
    /// `to` is null or begins with its size, has so many bytes and may be written.
    unsafe fn write(self, to: *mut Self) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        let size = unsafe { declared::<Self>(to) }?;
        let known = size.min(size_of::<Self>());
        let skip = size_of::<usize>();
        let from = (&raw const self).cast::<u8>();
        // SAFETY: both have `known` bytes, which are more than the size field's.
        unsafe { from.add(skip).copy_to_nonoverlapping(to.cast::<u8>().add(skip), known - skip) };
        Ok(())
    }
}

/// Far larger than any structure will be: a size beyond it is garbage.
const LARGEST: usize = 1 << 16;

/// # Safety
/// `at` is null or begins with its size.
unsafe fn declared<T: Structure>(at: *const T) -> Result<usize, Failure> {
    if at.is_null() {
        return Err(Failure::new(Status::Null, format!("{}: null", T::NAME)));
    }
    // SAFETY: not null, and the caller's promise.
    let size = unsafe { at.cast::<usize>().read_unaligned() };
    if !(T::OLDEST..=LARGEST).contains(&size) {
        let text = format!(
            "{}: its struct_size is {size}; set it to sizeof({0}), which is {} here",
            T::NAME,
            size_of::<T>()
        );
        return Err(Failure::invalid(text));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Two {
        struct_size: usize,
        a: u64,
        b: u64,
    }

    // SAFETY: integers only, the first is the size.
    unsafe impl Structure for Two {
        const NAME: &'static str = "two";
        const OLDEST: usize = 16;
    }

    fn read(words: &[u64]) -> Result<Two, Failure> {
        // SAFETY: tests give as many bytes as they say.
        unsafe { Two::read(words.as_ptr().cast()) }
    }

    #[test]
    fn programs_of_any_age_are_understood() {
        assert_eq!(read(&[16, 7]).unwrap(), Two { struct_size: 16, a: 7, b: 0 });
        assert_eq!(read(&[24, 7, 8]).unwrap(), Two { struct_size: 24, a: 7, b: 8 });
        assert_eq!(read(&[32, 7, 8, 0]).unwrap(), Two { struct_size: 32, a: 7, b: 8 });
        assert_eq!(read(&[32, 7, 8, 9]).unwrap_err().status, Status::InvalidArgument);
        for garbage in [0, 8, 15, u64::MAX] {
            assert_eq!(read(&[garbage, 0, 0]).unwrap_err().status, Status::InvalidArgument);
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Two::read(std::ptr::null()) }.unwrap_err().status, Status::Null);
    }

    #[test]
    fn nothing_is_written_beyond_what_a_program_has() {
        for (size, expected) in [(16, [16, 1, 99, 99]), (24, [24, 1, 2, 99]), (32, [32, 1, 2, 99])]
        {
            let mut words: [u64; 4] = [size, 99, 99, 99];
            let two = Two { struct_size: 0, a: 1, b: 2 };
            // SAFETY: the array has the bytes that it says.
            unsafe { two.write(words.as_mut_ptr().cast()) }.unwrap();
            assert_eq!(words, expected);
        }
    }
}
