//! Which arguments a translated kernel takes beside its storage buffers: the sizes of runtime arrays
//! and threadgroup memory. Pure, so it is tested on any system; it must not know Metal's objects.

use naga::AddressSpace;
use naga::valid::ModuleInfo;

/// Metal wants lengths of threadgroup memory in multiples of this many bytes.
const GROUP_MEMORY_UNIT: u32 = 16;

/// The arguments of one entry point that the bindings do not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Slots whose buffer ends in a runtime array, in the order of the members of naga's
    /// `_mslBufferSizes`: that of declaration, whatever the binding numbers, and whether or not this
    /// entry point uses them. Each member is the `u32` count of the bytes bound.
    pub(super) sized: Vec<u32>,
    /// Bytes of each `threadgroup` argument, rounded up as Metal wants, in the order of the
    /// arguments: workgroup variables that the entry point uses, as declared.
    pub(super) group_memory: Vec<u32>,
}

impl Layout {
    /// The layout of `entry`; `None` if the module has no such entry point.
    pub(super) fn of(module: &naga::Module, info: &ModuleInfo, entry: &str) -> Option<Layout> {
        let index = module.entry_points.iter().position(|point| point.name == entry)?;
        let uses = info.get_entry_point(index);
        let mut layout = Layout { sized: Vec::new(), group_memory: Vec::new() };
        for (handle, global) in module.global_variables.iter() {
            let inner = &module.types[global.ty].inner;
            match (global.space, &global.binding) {
                (AddressSpace::Storage { .. }, Some(binding))
                    if inner.needs_host_buffer_byte_size(&module.types) =>
                {
                    layout.sized.push(binding.binding);
                }
                (AddressSpace::WorkGroup, _) if !uses[handle].is_empty() => {
                    let bytes = inner.size(module.to_ctx());
                    layout.group_memory.push(bytes.checked_next_multiple_of(GROUP_MEMORY_UNIT)?);
                }
                _ => {}
            }
        }
        Some(layout)
    }
}
