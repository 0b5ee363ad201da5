//! Faults on purpose, for tests of how this crate and its users meet them: a device whose next calls
//! fail as a lost or exhausted one's would. Not part of the public promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::backend::{
    self, BackendDevice, BackendMemory, BackendPass, BackendPipeline, Command, Compiled,
    DispatchTime, EncodeOptions, Placement,
};
use crate::device::{Device, DeviceInfo, DeviceOptions, MemoryInfo, Selector, list};
use crate::error::{Error, Result};
use crate::memory::HostMemory;

/// What Vulkan's validation layer has reported since the last call, when it is switched on by
/// `VK_INSTANCE_LAYERS`. Empty on systems without Vulkan.
pub fn validation_messages() -> Vec<String> {
    #[cfg(not(any(target_os = "macos", target_os = "ios")))]
    return backend::vulkan::validation_messages();
    #[cfg(any(target_os = "macos", target_os = "ios"))]
    Vec::new()
}

/// A call of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    Allocate,
    Compile,
    Encode,
    Submit,
    Wait,
    Upload,
    Download,
    Drain,
}

impl Call {
    /// Every call.
    pub const ALL: [Call; 8] = [
        Call::Allocate,
        Call::Compile,
        Call::Encode,
        Call::Submit,
        Call::Wait,
        Call::Upload,
        Call::Download,
        Call::Drain,
    ];
}

/// The switchboard of a faulty device.
#[derive(Debug, Default)]
pub struct Faults {
    lost: [AtomicBool; Call::ALL.len()],
    /// Allocations that still succeed; negative for no limit.
    allocations_left: AtomicI64,
}

impl Faults {
    /// From now on `call` finds the device lost.
    pub fn lose_on(&self, call: Call) {
        self.lost[call as usize].store(true, Ordering::SeqCst);
    }

    /// After `count` more allocations the driver has no memory.
    pub fn allow_allocations(&self, count: u32) {
        self.allocations_left.store(count.into(), Ordering::SeqCst);
    }

    fn check(&self, call: Call) -> Result<()> {
        if self.lost[call as usize].load(Ordering::SeqCst) {
            return Err(Error::DeviceLost {
                device: "faulty".into(),
                reason: format!("a test asked for it ({call:?})"),
            });
        }
        Ok(())
    }

    fn allocation(&self) -> bool {
        let left = self.allocations_left.load(Ordering::SeqCst);
        if left > 0 {
            self.allocations_left.fetch_sub(1, Ordering::SeqCst);
        }
        left != 0
    }
}

/// Opens a device that fails when told to.
pub fn faulty_device(selector: &Selector, options: DeviceOptions) -> Result<(Device, Arc<Faults>)> {
    let listing = list();
    let info = &listing.devices[selector.choose(&listing)?];
    let faults = Arc::new(Faults::default());
    faults.allocations_left.store(-1, Ordering::SeqCst);
    let inner = backend::open(info, &options)?;
    let device = Device::start(Box::new(Faulty { inner, faults: faults.clone() }), options);
    Ok((device, faults))
}

struct Faulty {
    inner: Box<dyn BackendDevice>,
    faults: Arc<Faults>,
}

impl BackendDevice for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn memory(&self) -> MemoryInfo {
        self.inner.memory()
    }

    fn allocate(&self, bytes: u64, placement: Placement) -> Result<Box<dyn BackendMemory>> {
        self.faults.check(Call::Allocate)?;
        if !self.faults.allocation() {
            let MemoryInfo { total, .. } = self.memory();
            let device = self.info().name.clone();
            return Err(Error::OutOfMemory { device, asked: bytes, free: 0, total });
        }
        self.inner.allocate(bytes, placement)
    }

    fn import(&self, host: Arc<dyn HostMemory>) -> Result<Box<dyn BackendMemory>> {
        self.inner.import(host)
    }

    fn compile(&self, source: &Compiled<'_>) -> Result<Box<dyn BackendPipeline>> {
        self.faults.check(Call::Compile)?;
        self.inner.compile(source)
    }

    fn encode(
        &self,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Box<dyn BackendPass>> {
        self.faults.check(Call::Encode)?;
        let inner = self.inner.encode(commands, options)?;
        Ok(Box::new(FaultyPass { inner, faults: self.faults.clone() }))
    }

    fn upload(&self, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()> {
        self.faults.check(Call::Upload)?;
        self.inner.upload(memory, offset, bytes)
    }

    fn download(&self, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.faults.check(Call::Download)?;
        self.inner.download(memory, offset, bytes)
    }

    fn drain(&self, timeout: Duration) -> Result<bool> {
        self.faults.check(Call::Drain)?;
        self.inner.drain(timeout)
    }
}

struct FaultyPass {
    inner: Box<dyn BackendPass>,
    faults: Arc<Faults>,
}

impl BackendPass for FaultyPass {
    fn submit(&mut self) -> Result<()> {
        self.faults.check(Call::Submit)?;
        self.inner.submit()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if let Err(lost) = self.faults.check(Call::Wait) {
            // A really lost device has stopped; this one must stop before its memory goes.
            while !self.inner.wait(Duration::from_secs(1))? {}
            return Err(lost);
        }
        self.inner.wait(timeout)
    }

    fn cancel(&self) {
        self.inner.cancel();
    }

    fn timings(&mut self) -> Result<Option<Vec<DispatchTime>>> {
        self.inner.timings()
    }
}
