//! What a device is and can do, as plain data. It must not know how a backend finds out.

/// The three ways in which work reaches silicon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Backend {
    /// Host processor: always there.
    Cpu,
    /// Vulkan 1.2 or later through a loader opened at run time.
    Vulkan,
    /// Metal, on Apple systems.
    Metal,
}

impl Backend {
    /// All backends, in order of the name used by selectors.
    pub const ALL: [Backend; 3] = [Backend::Cpu, Backend::Vulkan, Backend::Metal];

    /// Lower-case name, as selectors and JSON use it.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Cpu => "cpu",
            Backend::Vulkan => "vulkan",
            Backend::Metal => "metal",
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of silicon stands behind a device. Order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU seen through a hypervisor.
    Virtual,
    /// The host processor, through this crate's CPU backend.
    Cpu,
    /// A graphics driver that runs on the host processor (lavapipe, SwiftShader).
    Software,
}

impl DeviceKind {
    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Discrete => "discrete",
            DeviceKind::Integrated => "integrated",
            DeviceKind::Virtual => "virtual",
            DeviceKind::Cpu => "cpu",
            DeviceKind::Software => "software",
        }
    }
}

/// Hard bounds of a device. Requests beyond them are refused with the bound in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest span one binding may cover.
    pub max_binding_bytes: u64,
    /// Bytes of the largest single allocation.
    pub max_allocation_bytes: u64,
    /// Bindings of one kernel.
    pub max_bindings: u32,
    /// Bytes of immediates (push constants).
    pub max_immediate_bytes: u32,
    /// Workgroups along x, y, z.
    pub max_groups: [u32; 3],
    /// Threads of a workgroup along x, y, z.
    pub max_group_size: [u32; 3],
    /// Threads of a workgroup in all.
    pub max_group_threads: u32,
    /// Bytes of workgroup memory.
    pub max_group_memory: u32,
    /// Alignment of a binding's start, in bytes. A span may start anywhere; the binding starts at
    /// the aligned byte below and the kernel is told the difference.
    pub binding_alignment: u64,
    /// Smallest and largest subgroup (warp, wave, SIMD group), in threads.
    pub subgroup_size: (u32, u32),
    /// Worker threads of the CPU backend; 0 elsewhere.
    pub threads: u32,
}

/// A shape of cooperative-matrix product `D[m,n] = A[m,k]·B[k,n] + C[m,n]` with f16 inputs and f32
/// accumulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoopShape {
    /// Rows of A.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// Columns of A.
    pub k: u32,
}

/// Optional abilities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// f16 arithmetic and storage in kernels.
    pub f16: bool,
    /// 16-bit integers in arithmetic and storage.
    pub i16: bool,
    /// Subgroup arithmetic in compute kernels.
    pub subgroups: bool,
    /// Four-way 8-bit integer dot products.
    pub integer_dot: bool,
    /// Cooperative matrices, f16 in and f32 out.
    pub coop_f16: Vec<CoopShape>,
    /// Per-dispatch timestamps.
    pub timestamps: bool,
    /// Host and device share memory: imports and maps copy nothing.
    pub unified_memory: bool,
    /// Mapped files can be imported without a copy.
    pub import_host: bool,
}

impl Features {
    /// Names of the features that are there, for listings.
    pub fn names(&self) -> Vec<&'static str> {
        [
            (self.f16, "f16"),
            (self.i16, "i16"),
            (self.subgroups, "subgroups"),
            (self.integer_dot, "integer-dot"),
            (!self.coop_f16.is_empty(), "cooperative-matrix"),
            (self.timestamps, "timestamps"),
            (self.unified_memory, "unified-memory"),
            (self.import_host, "import-host"),
        ]
        .into_iter()
        .filter_map(|(there, name)| there.then_some(name))
        .collect()
    }
}

/// Bytes of device memory, as the driver reports them now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryInfo {
    /// All of it.
    pub total: u64,
    /// What a new allocation may still take; never more than `total`.
    pub free: u64,
}

/// One device of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Which backend drives it.
    pub backend: Backend,
    /// Position among the devices of its backend; `vulkan:1` selects it.
    pub index: usize,
    /// The driver's name for it.
    pub name: String,
    /// Kind of silicon.
    pub kind: DeviceKind,
    /// Driver name and version; part of the kernel cache's key.
    pub driver: String,
    /// Memory, at the time of listing.
    pub memory: MemoryInfo,
    /// Hard bounds.
    pub limits: Limits,
    /// Optional abilities.
    pub features: Features,
}

impl DeviceInfo {
    /// The selector that names exactly this device: `vulkan:0`.
    pub fn selector(&self) -> String {
        format!("{}:{}", self.backend, self.index)
    }
}
