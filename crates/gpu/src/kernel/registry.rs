//! Compiles each kernel once a device and keeps it. It must not know what kernels compute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use super::{DiskCache, KernelSource, Reflection, parse};
use crate::backend::{BackendDevice, BackendPipeline, Compiled};
use crate::error::{Error, Result};
use crate::memory::lock;

/// Raised whenever translation changes, so that kept code of older versions is not used.
const TRANSLATOR: &str = concat!("tintype-gpu ", env!("CARGO_PKG_VERSION"), " naga 30.0.2 r2");

/// A compiled kernel of one device. Clones share it.
#[derive(Clone)]
pub struct Kernel(Arc<KernelInner>);

struct KernelInner {
    source: KernelSource,
    reflection: Reflection,
    pipeline: Box<dyn BackendPipeline>,
    device: u64,
}

impl Kernel {
    /// The source's name.
    pub fn name(&self) -> &'static str {
        self.0.source.name
    }

    /// Slots, immediates and workgroup size.
    pub fn reflection(&self) -> &Reflection {
        &self.0.reflection
    }

    pub(crate) fn pipeline(&self) -> &dyn BackendPipeline {
        &*self.0.pipeline
    }

    /// Number of the device that compiled it.
    pub(crate) fn device(&self) -> u64 {
        self.0.device
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}

/// Everything that tells one compiled kernel from another. Source text is compared by address first
/// (sources are `'static`), so a look-up hashes a few words.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    name: &'static str,
    text: usize,
    entry: &'static str,
    aliases: &'static [(&'static str, &'static str)],
    cpu: usize,
    overrides: Vec<(String, u64)>,
}

/// The kernels of one device.
pub(crate) struct Registry {
    device: u64,
    disk: Option<DiskCache>,
    kernels: Mutex<HashMap<Key, Kernel>>,
}

impl Registry {
    pub(crate) fn new(device: u64, disk: Option<DiskCache>) -> Self {
        Registry { device, disk, kernels: Mutex::default() }
    }

    pub(crate) fn get(
        &self,
        backend: &dyn BackendDevice,
        source: &KernelSource,
        overrides: &[(&str, f64)],
    ) -> Result<Kernel> {
        let key = Key {
            name: source.name,
            text: source.wgsl.as_ptr() as usize,
            entry: source.entry,
            aliases: source.aliases,
            cpu: source.cpu as usize,
            overrides: overrides.iter().map(|(n, v)| ((*n).to_owned(), v.to_bits())).collect(),
        };
        // Compiling under the lock: two threads that want one kernel do not compile it twice, and
        // a kernel takes milliseconds.
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(&key) {
            return Ok(kernel.clone());
        }
        let kernel = self.compile(backend, source, overrides)?;
        kernels.insert(key, kernel.clone());
        Ok(kernel)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kernels).len()
    }

    pub(crate) fn clear(&self) {
        let kernels = std::mem::take(&mut *lock(&self.kernels));
        drop(kernels);
    }

    fn compile(
        &self,
        backend: &dyn BackendDevice,
        source: &KernelSource,
        overrides: &[(&str, f64)],
    ) -> Result<Kernel> {
        let parsed = parse(source, overrides)?;
        let reflection = Reflection::of(source, &parsed)?;
        check_device(backend, source, &reflection)?;
        let pipeline = backend.compile(&Compiled {
            name: source.name,
            entry: source.entry,
            parsed: &parsed,
            source,
            reflection: &reflection,
            key: disk_key(backend, source, overrides),
            cache: self.disk.as_ref(),
        })?;
        let source = *source;
        Ok(Kernel(Arc::new(KernelInner { source, reflection, pipeline, device: self.device })))
    }
}

/// Hash of source, variation, translator and driver.
fn disk_key(
    backend: &dyn BackendDevice,
    source: &KernelSource,
    overrides: &[(&str, f64)],
) -> [u8; 32] {
    let info = backend.info();
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for text in
        [TRANSLATOR, info.backend.name(), &info.name, &info.driver, source.wgsl, source.entry]
    {
        field(text.as_bytes());
    }
    for (alias, target) in source.aliases {
        field(alias.as_bytes());
        field(target.as_bytes());
    }
    for (name, value) in overrides {
        field(name.as_bytes());
        field(&value.to_bits().to_le_bytes());
    }
    hash.finalize().into()
}

/// Refuses kernels that the device cannot run, naming what is missing.
fn check_device(
    backend: &dyn BackendDevice,
    source: &KernelSource,
    needs: &Reflection,
) -> Result<()> {
    let info = backend.info();
    let (limits, features) = (&info.limits, &info.features);
    let missing = [
        (needs.uses_f16 && !features.f16, "f16 arithmetic"),
        (needs.uses_i16 && !features.i16, "16-bit integers"),
        (needs.uses_subgroups && !features.subgroups, "subgroup operations"),
        (needs.uses_coop && features.coop_f16.is_empty(), "cooperative matrices"),
    ];
    if let Some((_, what)) = missing.into_iter().find(|(missing, _)| *missing) {
        return Err(Error::Unsupported {
            device: info.name.clone(),
            what: format!("{what}, which kernel {} uses", source.name),
            instead: "choose a kernel variant by Device::info().features".into(),
        });
    }
    let threads = needs.group_size.iter().map(|&n| u64::from(n)).product::<u64>();
    let axis = |at: usize, what| {
        (u64::from(needs.group_size[at]), u64::from(limits.max_group_size[at]), what)
    };
    let checks = [
        (threads, u64::from(limits.max_group_threads), "threads a workgroup"),
        axis(0, "threads along x of a workgroup"),
        axis(1, "threads along y of a workgroup"),
        axis(2, "threads along z of a workgroup"),
        (
            u64::from(needs.group_memory),
            u64::from(limits.max_group_memory),
            "bytes of workgroup memory",
        ),
        (
            u64::from(needs.immediate_bytes),
            u64::from(limits.max_immediate_bytes),
            "bytes of immediates",
        ),
        (needs.slots.len() as u64, u64::from(limits.max_bindings), "bindings"),
    ];
    for (asked, most, what) in checks {
        if asked > most {
            return Err(Error::BadKernel {
                kernel: source.name.into(),
                reason: format!("uses {asked} {what}; {} allows {most}", info.name),
            });
        }
    }
    Ok(())
}
