//! Opaque handles: a number that is only ever right or refused.
//! Owns their bits; must not know what they name.

use std::num::NonZeroU64;

use crate::RegistryError;

const SERIAL_BITS: u32 = 44;
const SERIAL_MASK: u64 = (1 << SERIAL_BITS) - 1;

/// Names one object for good: no later object ever gets the same handle.
///
/// High 20 bits: the issuing copy of the library (drawn when it first runs, never zero). Low 44 bits: the
/// object's serial number. A serial is a generation that never wraps, so a stale handle can not reach
/// a newer object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// The handle as a number, for a C caller.
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }

    /// A handle from a C caller's number, which may be anything; refused only if zero.
    pub fn from_raw(raw: u64) -> Result<Self, RegistryError> {
        NonZeroU64::new(raw).map(Self).ok_or(RegistryError::Null)
    }
}

/// Identifies one copy of the library in the handles it issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(NonZeroU64);

impl Tag {
    /// Draws a tag: different for each copy in a process but for a chance of 2^-20.
    pub(crate) fn draw() -> Self {
        Self::from_bits(random_bits())
    }

    fn from_bits(bits: u64) -> Self {
        let tag = bits & (u64::MAX >> SERIAL_BITS);
        Self(NonZeroU64::new(tag).unwrap_or(NonZeroU64::MIN))
    }

    /// The handle of the object with this serial; none are left beyond 2^44.
    pub(crate) fn seal(self, serial: u64) -> Result<Handle, RegistryError> {
        if serial > SERIAL_MASK {
            return Err(RegistryError::Exhausted);
        }
        Handle::from_raw(self.0.get() << SERIAL_BITS | serial)
    }

    /// The serial inside a handle that this copy issued.
    pub(crate) fn open(self, handle: Handle) -> Result<u64, RegistryError> {
        let raw = handle.to_raw();
        if raw >> SERIAL_BITS != self.0.get() {
            return Err(RegistryError::Foreign);
        }
        Ok(raw & SERIAL_MASK)
    }
}

#[cfg(not(loom))]
fn random_bits() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    // Two copies share the process, hence maybe std's random keys, but no address.
    static HERE: u8 = 0;
    hasher.write_usize(&raw const HERE as usize);
    hasher.finish()
}

/// Models must replay exactly.
#[cfg(loom)]
fn random_bits() -> u64 {
    1
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_tag_opens_only_what_it_sealed() {
        let (ours, theirs) = (Tag::from_bits(5), Tag::from_bits(6));
        let handle = ours.seal(77).unwrap();
        assert_eq!(ours.open(handle), Ok(77));
        assert_eq!(theirs.open(handle), Err(RegistryError::Foreign));
        assert_eq!(Handle::from_raw(handle.to_raw()), Ok(handle));
        assert_eq!(Handle::from_raw(0), Err(RegistryError::Null));
        assert_eq!(ours.open(Handle::from_raw(77).unwrap()), Err(RegistryError::Foreign));
    }

    #[test]
    fn serials_end_instead_of_wrapping() {
        let tag = Tag::from_bits(u64::MAX);
        assert!(tag.seal(SERIAL_MASK).is_ok());
        assert_eq!(tag.seal(SERIAL_MASK + 1), Err(RegistryError::Exhausted));
    }

    #[test]
    fn a_tag_is_never_zero() {
        assert_eq!(Tag::from_bits(0), Tag::from_bits(1));
        assert_eq!(Tag::from_bits(1 << 20), Tag::from_bits(1));
    }
}
