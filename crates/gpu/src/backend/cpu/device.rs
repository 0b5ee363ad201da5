//! The host processor as a device: its memory, its threads, its queue.

use std::sync::Arc;
use std::time::Duration;

use super::encoder::CpuPass;
use super::memory::CpuMemory;
use super::pipeline::CpuPipeline;
use super::submit::QueueHandle;
use crate::backend::{
    BackendDevice, BackendMemory, BackendPass, BackendPipeline, Command, Compiled, EncodeOptions,
    Placement,
};
use crate::device::{Backend, DeviceInfo, DeviceKind, DeviceOptions, Features, Limits, MemoryInfo};
use crate::error::{Error, Result};
use crate::memory::HostMemory;

/// The one CPU device.
pub(crate) fn enumerate() -> Vec<DeviceInfo> {
    vec![describe(cores())]
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn describe(threads: usize) -> DeviceInfo {
    DeviceInfo {
        backend: Backend::Cpu,
        index: 0,
        name: processor_name(),
        kind: DeviceKind::Cpu,
        driver: format!("tintype {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH),
        memory: system_memory(),
        limits: Limits {
            max_binding_bytes: isize::MAX as u64,
            max_allocation_bytes: isize::MAX as u64,
            max_bindings: 64,
            max_immediate_bytes: 128,
            max_groups: [u32::MAX; 3],
            max_group_size: [1024; 3],
            max_group_threads: 1024,
            max_group_memory: u32::MAX,
            binding_alignment: 1,
            subgroup_size: (1, 1),
            threads: threads as u32,
        },
        features: Features {
            f16: true,
            i16: true,
            subgroups: true,
            integer_dot: true,
            coop_f16: Vec::new(),
            timestamps: true,
            unified_memory: true,
            import_host: true,
        },
    }
}

/// The processor's own name, from the system; its architecture if the system does not tell.
fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| {
            line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim())
        })
        .filter(|name| !name.is_empty())
        .map_or_else(|| format!("{} processor", std::env::consts::ARCH), str::to_owned)
}

/// Physical memory and what can still be had, bounded by the control group's limit where one is
/// set. On systems without `/proc` both are "unbounded": allocation itself then tells.
fn system_memory() -> MemoryInfo {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    };
    let unknown = isize::MAX as u64;
    let total = field("MemTotal").map_or(unknown, |kib| kib << 10);
    let free = field("MemAvailable").map_or(total, |kib| kib << 10);
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = number("/sys/fs/cgroup/memory.max")
        .map(|limit| (limit, number("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    let (total, free) = match group {
        Some((limit, used)) => (total.min(limit), free.min(limit.saturating_sub(used))),
        None => (total, free),
    };
    MemoryInfo { total, free: free.min(total) }
}

/// The open CPU device.
pub(crate) struct CpuDevice {
    info: DeviceInfo,
    queue: Arc<QueueHandle>,
}

impl CpuDevice {
    pub(crate) fn open(options: &DeviceOptions) -> Result<Self> {
        let threads = if options.threads == 0 { cores() } else { options.threads.min(1024) };
        let queue = QueueHandle::start(threads).map_err(|reason| Error::BackendUnavailable {
            backend: "cpu",
            reason: format!("threads could not be started: {reason}"),
        })?;
        Ok(CpuDevice { info: describe(threads), queue })
    }
}

fn memory_of(memory: &dyn BackendMemory) -> Result<&CpuMemory> {
    memory.as_any().downcast_ref().ok_or(Error::Driver {
        backend: "cpu",
        call: "memory",
        code: "memory of another backend".into(),
    })
}

impl BackendDevice for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> MemoryInfo {
        system_memory()
    }

    fn allocate(&self, bytes: u64, _placement: Placement) -> Result<Box<dyn BackendMemory>> {
        let memory = usize::try_from(bytes).ok().and_then(CpuMemory::allocate);
        match memory {
            Some(memory) => Ok(Box::new(memory)),
            None => {
                let MemoryInfo { total, free } = self.memory();
                let device = self.info.name.clone();
                Err(Error::OutOfMemory { device, asked: bytes, free, total })
            }
        }
    }

    fn import(&self, host: Arc<dyn HostMemory>) -> Result<Box<dyn BackendMemory>> {
        Ok(Box::new(CpuMemory::Imported(host)))
    }

    fn compile(&self, source: &Compiled<'_>) -> Result<Box<dyn BackendPipeline>> {
        Ok(Box::new(CpuPipeline { run: source.source.cpu }))
    }

    fn encode(
        &self,
        commands: &[Command],
        options: &EncodeOptions,
    ) -> Result<Box<dyn BackendPass>> {
        Ok(Box::new(CpuPass::encode(self.queue.clone(), commands, options)?))
    }

    fn upload(&self, memory: &dyn BackendMemory, offset: u64, bytes: &[u8]) -> Result<()> {
        let memory = memory_of(memory)?;
        // SAFETY: the front checked the range and that nothing else uses the allocation.
        unsafe {
            let target = memory.pointer().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        Ok(())
    }

    fn download(&self, memory: &dyn BackendMemory, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let memory = memory_of(memory)?;
        // SAFETY: the front checked the range and that no submission writes the allocation.
        unsafe {
            let source = memory.pointer().add(offset as usize);
            std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    fn drain(&self, timeout: Duration) -> Result<bool> {
        Ok(self.queue.drain(timeout))
    }
}
