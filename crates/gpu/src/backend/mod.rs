//! The contract between the safe front and a driver, barriers included: five traits, the same file
//! names in every backend (`device`, `memory`, `pipeline`, `encoder`, `submit`).
//! A backend trusts that commands were checked (bounds, alignment, hazards); it must not check
//! ordering itself, and it must not know what kernels compute.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::device::{Backend, DeviceInfo, DeviceOptions, MemoryInfo};
use crate::error::{Error, Result};
use crate::kernel::{DiskCache, Kernel, KernelSource, Parsed, Reflection};
use crate::memory::{Allocation, HostMemory};
use crate::session::CpuGrid;

pub(crate) mod cpu;
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(crate) mod metal;
#[cfg(not(any(target_os = "macos", target_os = "ios")))]
pub(crate) mod vulkan;

/// Where an allocation should live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Fastest for kernels; uploads and downloads may go through a staging copy.
    #[default]
    Device,
    /// Visible to the host: can be mapped. On unified memory the same as `Device`.
    Host,
}

/// A live device of one backend. Dropping it releases the driver's objects; everything made from
/// it is already gone by then (the front holds a reference for each).
pub(crate) trait BackendDevice: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;
    /// Total and free bytes now.
    fn memory(&self) -> MemoryInfo;
    /// Memory that holds initialised bytes of any value. Zero-byte requests do not arrive.
    fn allocate(&self, bytes: u64, placement: Placement) -> Result<Box<dyn BackendMemory>>;
    /// Read-only device view of host memory, without a copy.
    fn import(&self, host: Arc<dyn HostMemory>) -> Result<Box<dyn BackendMemory>>;
    /// Makes a kernel runnable.
    fn compile(&self, source: &Compiled<'_>) -> Result<Box<dyn BackendPipeline>>;
    /// Encodes a whole pass. Everything before the pass on this device is ordered before it.
    fn encode(&self, commands: &[Command], options: &EncodeOptions)
    -> Result<Box<dyn BackendPass>>;
    /// Copies host bytes into memory no submission uses, and returns when they are there.
    fn upload(&self, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Copies bytes of memory that no submission writes to the host.
    fn download(&self, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Waits up to `timeout` until everything submitted to the device so far has completed; tells
    /// whether it has.
    fn drain(&self, timeout: Duration) -> Result<bool>;
    /// Called when the kernel cache should be written out; errors are reported, not fatal.
    fn save_cache(&self) -> Result<()> {
        Ok(())
    }
}

/// One allocation.
pub(crate) trait BackendMemory: Send + Sync + Any {
    /// Start of the host mapping, valid for the allocation's life, if the host can see it.
    fn host_pointer(&self) -> Option<*mut u8>;
    /// For the backend's own downcast.
    fn as_any(&self) -> &dyn Any;
}

/// One runnable kernel.
pub(crate) trait BackendPipeline: Send + Sync + Any {
    /// For the backend's own downcast.
    fn as_any(&self) -> &dyn Any;
}

/// What a backend compiles: the checked module with overrides already resolved.
pub(crate) struct Compiled<'a> {
    /// Kernel name, for messages and debuggers.
    pub name: &'a str,
    /// Entry point.
    pub entry: &'a str,
    /// Validated module.
    pub parsed: &'a Parsed,
    /// Where it came from; its `cpu` is what the CPU backend runs.
    pub source: &'a KernelSource,
    /// Bindings, immediates, workgroup size.
    pub reflection: &'a Reflection,
    /// Hash of source, variation, translator and driver: the disk cache's key.
    pub key: [u8; 32],
    /// Where compiled code may be kept, if anywhere.
    pub cache: Option<&'a DiskCache>,
}

/// A span bound to a kernel's slot.
#[derive(Clone)]
pub(crate) struct Bound {
    /// The allocation, kept alive by the pass.
    pub memory: Arc<Allocation>,
    /// Exact bytes that are accessed. Backends bind from the aligned byte at or below the start.
    pub range: Range<u64>,
    /// Whether it is bound for writing.
    pub write: bool,
}

/// One dispatch, checked.
pub(crate) struct DispatchCommand {
    /// Label, for debuggers, timings and errors.
    pub label: Arc<str>,
    /// The kernel.
    pub kernel: Kernel,
    /// Spans in slot order.
    pub bindings: Vec<Bound>,
    /// Immediates, exactly as long as the kernel declares.
    pub immediates: Vec<u8>,
    /// Workgroups along x, y, z; none is zero.
    pub groups: [u32; 3],
    /// How the CPU backend cuts the dispatch.
    pub cpu: CpuGrid,
}

/// A byte range of an allocation in a ranged barrier.
#[derive(Clone)]
pub(crate) struct BarrierRange {
    /// The allocation.
    pub memory: Arc<Allocation>,
    /// Bytes.
    pub range: Range<u64>,
    /// True: orders every earlier access before every later one. False: earlier writes before
    /// later reads.
    pub full: bool,
}

/// One step of a pass.
pub(crate) enum Command {
    /// Runs a kernel, concurrently with other dispatches up to the next barrier.
    Dispatch(DispatchCommand),
    /// Orders every earlier access of the pass before every later one.
    Barrier,
    /// Orders accesses of these ranges only.
    BarrierBetween(Vec<BarrierRange>),
}

/// How a pass is encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct EncodeOptions {
    /// Name of the pass, for debuggers.
    pub label: String,
    /// Record a timestamp before and after each dispatch.
    pub timestamps: bool,
    /// CPU only: run dispatches between barriers in a hostile order drawn from this seed.
    pub adversary: Option<u64>,
}

/// Start and end of one dispatch, since the start of the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DispatchTime {
    /// When its first workgroup may have begun.
    pub start: Duration,
    /// When its last workgroup had ended.
    pub end: Duration,
}

/// An encoded pass. The front calls `submit` only when the pass is not in flight, and keeps the
/// commands' memory alive until `wait` has returned true or the device is lost.
pub(crate) trait BackendPass: Send {
    /// Starts it and returns.
    fn submit(&mut self) -> Result<()>;
    /// Waits up to `timeout` (zero: just looks) and tells whether the last submission completed.
    fn wait(&mut self, timeout: Duration) -> Result<bool>;
    /// Asks work in flight to stop early, where the backend can.
    fn cancel(&self) {}
    /// Per-dispatch times of the last completed submission, if they were asked for.
    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>>;
}

/// The devices of one backend, without opening them for good.
pub(crate) fn enumerate(backend: Backend) -> Result<Vec<DeviceInfo>> {
    match backend {
        Backend::Cpu => Ok(cpu::enumerate()),
        #[cfg(not(any(target_os = "macos", target_os = "ios")))]
        Backend::Vulkan => vulkan::enumerate(),
        #[cfg(any(target_os = "macos", target_os = "ios"))]
        Backend::Metal => metal::enumerate(),
        #[allow(unreachable_patterns)]
        other => Err(absent(other)),
    }
}

/// Opens the device that `info` describes.
pub(crate) fn open(info: &DeviceInfo, options: &DeviceOptions) -> Result<Box<dyn BackendDevice>> {
    match info.backend {
        Backend::Cpu => Ok(Box::new(cpu::CpuDevice::open(options)?)),
        #[cfg(not(any(target_os = "macos", target_os = "ios")))]
        Backend::Vulkan => vulkan::open(info, options),
        #[cfg(any(target_os = "macos", target_os = "ios"))]
        Backend::Metal => metal::open(info, options),
        #[allow(unreachable_patterns)]
        other => Err(absent(other)),
    }
}

fn absent(backend: Backend) -> Error {
    Error::BackendUnavailable {
        backend: backend.name(),
        reason: "it is not part of the build for this system".into(),
    }
}
