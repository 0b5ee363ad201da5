//! The compute core of Tintype: devices, buffers, kernels, and passes whose dispatches run
//! concurrently and whose ordering is checked.
//!
//! A [`Session`] records dispatches; only barriers order them, and a dispatch that conflicts with an
//! earlier one without a barrier between is refused. Finishing gives a [`Pass`] that is submitted as
//! often as wanted; waiting for a [`Submission`] gives the [`Done`] that host reads ask for.
//!
//! This crate knows neither operations nor models. Drivers are reached only through `backend`.

pub mod hazard;
pub mod kernel;

#[doc(hidden)]
pub mod testing;

mod backend;
mod device;
mod dtype;
mod error;
mod memory;
mod session;

pub use backend::Placement;
pub use device::{
    Backend, CoopShape, Device, DeviceInfo, DeviceKind, DeviceOptions, DeviceStats, Features,
    Limits, Listing, MemoryInfo, Selector, list,
};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use kernel::{DiskCache, Kernel, KernelSource};
pub use memory::{
    Binding, Buffer, HostMemory, MappedRead, MappedWrite, Pool, PoolStats, ReadSpan, WriteSpan,
    byte_len,
};
pub use session::{
    CpuGrid, Dispatch, DispatchId, Done, Ordering, Pass, Session, SessionOptions, Split,
    StillRunning, Submission, Timing,
};
