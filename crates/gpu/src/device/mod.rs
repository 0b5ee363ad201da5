//! Devices: listing, choosing, opening, and the state they share. It must not know what a backend
//! does behind its contract.

mod info;
mod select;
mod shared;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub use info::{Backend, CoopShape, DeviceInfo, DeviceKind, Features, Limits, MemoryInfo};
pub use select::{Listing, Selector, list};
pub(crate) use shared::DeviceShared;

use crate::backend::{BackendDevice, Placement};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::kernel::{DiskCache, Kernel, KernelSource};
use crate::memory::{Allocation, Buffer, HostMemory, WriteSpan, byte_len};
use crate::session::{Done, Session, SessionOptions};

/// Allocations are at least this long and a multiple of it, so that every kernel may load whole
/// 16-byte vectors at the end of a buffer.
const ALLOCATION_UNIT: u64 = 16;

/// How to open a device.
#[derive(Debug, Clone, Default)]
pub struct DeviceOptions {
    /// Where compiled kernels are kept between runs. `None` keeps none.
    pub cache: Option<DiskCache>,
    /// Worker threads of the CPU backend; 0 for all cores.
    pub threads: usize,
    /// Allocations beyond this many bytes in all are refused, if given.
    pub memory_limit: Option<u64>,
}

impl DeviceOptions {
    /// Options with the platform's kernel cache, all cores, no limit.
    pub fn with_default_cache() -> Self {
        DeviceOptions { cache: DiskCache::default_folder().map(DiskCache::new), ..Self::default() }
    }
}

/// Memory and objects of one open device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceStats {
    /// Live allocations.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: u64,
    /// Compiled kernels kept.
    pub kernels: u64,
    /// Submissions started.
    pub submitted: u64,
    /// Submissions known to have completed.
    pub completed: u64,
}

/// An open device. Clones share it; it closes when the last clone and everything made from it are
/// gone. `Send + Sync`.
#[derive(Clone)]
pub struct Device {
    shared: Arc<DeviceShared>,
}

impl Device {
    /// Opens the device that `selector` names.
    pub fn open(selector: &Selector, options: DeviceOptions) -> Result<Device> {
        select::open(selector, options)
    }

    /// Opens the device that `TINTYPE_DEVICE` names, or the best one if it is unset.
    pub fn from_env(options: DeviceOptions) -> Result<Device> {
        Device::open(&Selector::from_env()?, options)
    }

    /// Opens the CPU backend, which is always there.
    pub fn cpu(options: DeviceOptions) -> Result<Device> {
        Device::open(&Selector::Backend(Backend::Cpu, None), options)
    }

    pub(crate) fn start(backend: Box<dyn BackendDevice>, options: DeviceOptions) -> Device {
        Device { shared: Arc::new(DeviceShared::new(backend, options)) }
    }

    pub(crate) fn shared(&self) -> &Arc<DeviceShared> {
        &self.shared
    }

    /// What it is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.shared.info()
    }

    /// Total and free bytes now; `free` never exceeds `total`.
    pub fn memory(&self) -> MemoryInfo {
        self.shared.memory()
    }

    /// Counters now.
    pub fn stats(&self) -> DeviceStats {
        self.shared.stats()
    }

    /// Whether the device was lost. It stays lost; open another.
    pub fn is_lost(&self) -> bool {
        self.shared.check().is_err()
    }

    /// Allocates a buffer. Contents are unspecified but initialised.
    pub fn buffer(&self, dtype: DType, shape: &[usize]) -> Result<Buffer> {
        self.buffer_in(dtype, shape, Placement::Device)
    }

    /// Allocates a buffer in a chosen place.
    pub fn buffer_in(&self, dtype: DType, shape: &[usize], placement: Placement) -> Result<Buffer> {
        let bytes = byte_len(dtype, shape)?;
        let whole = bytes.max(1).next_multiple_of(ALLOCATION_UNIT);
        let memory = self.shared.allocate(whole, placement)?;
        let shared = self.shared.clone();
        let allocation = Allocation::new(shared, memory, whole, placement, false, Weak::new());
        Ok(Buffer::whole(allocation, dtype, shape, bytes))
    }

    /// Allocates a buffer and copies `data` into it.
    pub fn buffer_from<T: Element>(&self, shape: &[usize], data: &[T]) -> Result<Buffer> {
        let buffer = self.buffer(T::DTYPE, shape)?;
        self.upload(&buffer.write(), data)?;
        Ok(buffer)
    }

    /// Allocates a buffer of any type, quantized ones included, from its bytes.
    pub fn buffer_from_bytes(&self, dtype: DType, shape: &[usize], data: &[u8]) -> Result<Buffer> {
        let buffer = self.buffer(dtype, shape)?;
        self.upload(&buffer.write(), data)?;
        Ok(buffer)
    }

    /// A read-only buffer over host memory, without a copy, where the device can see it: always on
    /// the CPU, and where `features.import_host` says so.
    pub fn import(
        &self,
        dtype: DType,
        shape: &[usize],
        host: Arc<dyn HostMemory>,
    ) -> Result<Buffer> {
        let bytes = byte_len(dtype, shape)?;
        let len = host.bytes().len() as u64;
        if bytes > len || bytes == 0 {
            return Err(Error::OutOfBounds {
                buffer: "(import)".into(),
                start: 0,
                end: bytes,
                len,
            });
        }
        self.shared.check()?;
        let memory = self.shared.note(self.shared.backend().import(host))?;
        let allocation =
            Allocation::new(self.shared.clone(), memory, len, Placement::Host, true, Weak::new());
        Ok(Buffer::whole(allocation, dtype, shape, bytes))
    }

    /// Copies `data` into a span of exactly its length. Refused while a submission uses the buffer.
    pub fn upload<T: bytemuck::NoUninit>(&self, span: &WriteSpan, data: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let allocation = &span.0.allocation;
        if allocation.device().number() != self.shared.number() {
            return Err(Error::ForeignDevice {
                what: format!("buffer {}", allocation.name()),
                owner: allocation.device().describe(),
                device: self.shared.describe(),
            });
        }
        if bytes.len() as u64 != span.len() {
            return Err(Error::OutOfBounds {
                buffer: allocation.name().to_string(),
                start: span.start(),
                end: span.start().saturating_add(bytes.len() as u64),
                len: span.0.end,
            });
        }
        self.shared.check()?;
        let _host = allocation.begin_host(true)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.shared.note(self.shared.backend().upload(allocation.backend(), span.start(), bytes))
    }

    /// The compiled kernel for a source and override values; compiled on the first request.
    pub fn kernel(&self, source: &KernelSource, overrides: &[(&str, f64)]) -> Result<Kernel> {
        self.shared.kernel(source, overrides)
    }

    /// Starts recording with hazards checked.
    pub fn session(&self) -> Result<Session<'_>> {
        self.session_with(SessionOptions::default())
    }

    /// Starts recording.
    pub fn session_with(&self, options: SessionOptions) -> Result<Session<'_>> {
        Session::new(self, options)
    }

    /// Waits until everything submitted so far has completed, and returns the proof that host reads
    /// ask for.
    pub fn idle(&self, timeout: Duration) -> Result<Done> {
        self.shared.drain(timeout)?;
        Ok(Done::idle(self.shared.clone()))
    }

    /// Writes what the driver compiled to the kernel cache. Also done when the device closes.
    pub fn save_cache(&self) -> Result<()> {
        self.shared.backend().save_cache()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.shared.describe())
    }
}
