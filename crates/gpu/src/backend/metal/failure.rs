//! What the code of a failed command buffer means for the device and for the caller. Pure, so it is
//! tested on any system; numbers are those of `MTLCommandBufferError`.

/// Whom a failed command buffer concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The device is gone, or the system shut this process out of it: nothing on it works again.
    Lost,
    /// A kernel ran too long, or touched what it may not. Only its pass is harmed.
    Kernel,
    /// The pass's memory could not be made resident.
    Memory,
    /// The system refuses work for now: on iOS, of an app in the background.
    Refused,
    /// None of these.
    Other,
}

impl Failure {
    /// Reads an `NSError`'s code in the domain `MTLCommandBufferErrorDomain`.
    pub(super) fn of(code: isize) -> Failure {
        match code {
            // AccessRevoked (too many timeouts or hangs of this process), DeviceRemoved.
            4 | 11 => Failure::Lost,
            // Timeout, PageFault, InvalidResource, StackOverflow.
            2 | 3 | 9 | 12 => Failure::Kernel,
            // OutOfMemory.
            8 => Failure::Memory,
            // NotPermitted.
            7 => Failure::Refused,
            _ => Failure::Other,
        }
    }
}
