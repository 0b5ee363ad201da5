//! What a kernel touches, read off its validated module: slots, immediates, workgroup size.
//! Hazards rest on this, so it errs towards "writes".

use naga::valid::GlobalUse;
use naga::{AddressSpace, StorageAccess};

use super::{KernelSource, Parsed};
use crate::error::{Error, Result};

/// One storage buffer of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name in the source.
    pub name: String,
    /// Declared `read_write`: must be given a span for writing.
    pub writable: bool,
    /// The kernel reads it.
    pub reads: bool,
}

/// A kernel's interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reflection {
    /// Storage buffers in binding order.
    pub slots: Vec<Slot>,
    /// Bytes of immediates; 0 for none.
    pub immediate_bytes: u32,
    /// Threads of a workgroup.
    pub group_size: [u32; 3],
    /// Bytes of workgroup memory.
    pub group_memory: u32,
    /// Uses f16 arithmetic or storage.
    pub uses_f16: bool,
    /// Uses 16-bit integers.
    pub uses_i16: bool,
    /// Uses subgroup operations.
    pub uses_subgroups: bool,
    /// Uses cooperative matrices.
    pub uses_coop: bool,
}

impl Reflection {
    /// Reads the interface of `source`'s entry point.
    pub fn of(source: &KernelSource, parsed: &Parsed) -> Result<Reflection> {
        let bad = |reason: String| Error::BadKernel { kernel: source.name.into(), reason };
        let module = &parsed.module;
        let index = module
            .entry_points
            .iter()
            .position(|entry| entry.name == source.entry)
            .ok_or_else(|| bad(format!("there is no entry point {}", source.entry)))?;
        let entry = &module.entry_points[index];
        let uses = parsed.info.get_entry_point(index);
        let mut reflection = Reflection { group_size: entry.workgroup_size, ..Self::default() };
        let mut slots: Vec<(u32, Slot)> = Vec::new();
        for (handle, global) in module.global_variables.iter() {
            let bytes = module.types[global.ty].inner.size(module.to_ctx());
            match global.space {
                AddressSpace::Storage { access } => {
                    let Some(binding) = global.binding.filter(|b| b.group == 0) else {
                        return Err(bad("storage buffers belong in group 0".into()));
                    };
                    let writable = access.contains(StorageAccess::STORE);
                    let name = global.name.clone().unwrap_or_default();
                    let reads = !writable || uses[handle].contains(GlobalUse::READ);
                    slots.push((binding.binding, Slot { name, writable, reads }));
                }
                AddressSpace::Immediate => reflection.immediate_bytes = bytes,
                AddressSpace::WorkGroup => {
                    reflection.group_memory = reflection.group_memory.saturating_add(bytes);
                }
                AddressSpace::Uniform | AddressSpace::Handle => {
                    return Err(bad("only storage buffers and immediates can be bound".into()));
                }
                _ => {}
            }
        }
        slots.sort_by_key(|(binding, _)| *binding);
        if let Some((expected, (found, slot))) =
            slots.iter().enumerate().find(|(at, (binding, _))| *at as u32 != *binding)
        {
            return Err(bad(format!(
                "buffer {} has binding {found}; bindings must be 0, 1, … without gaps (expected {expected})",
                slot.name
            )));
        }
        reflection.slots = slots.into_iter().map(|(_, slot)| slot).collect();
        reflection.read_types(module);
        Ok(reflection)
    }

    fn read_types(&mut self, module: &naga::Module) {
        use naga::{Scalar, ScalarKind, TypeInner};
        for (_, ty) in module.types.iter() {
            let scalar = match ty.inner {
                TypeInner::Scalar(scalar) => scalar,
                TypeInner::Vector { scalar, .. } | TypeInner::Matrix { scalar, .. } => scalar,
                TypeInner::CooperativeMatrix { scalar, .. } => {
                    self.uses_coop = true;
                    scalar
                }
                _ => continue,
            };
            match scalar {
                Scalar { kind: ScalarKind::Float, width: 2 } => self.uses_f16 = true,
                Scalar { kind: ScalarKind::Sint | ScalarKind::Uint, width: 2 } => {
                    self.uses_i16 = true;
                }
                _ => {}
            }
        }
        let functions = module.functions.iter().map(|(_, function)| function);
        let entries = module.entry_points.iter().map(|entry| &entry.function);
        self.uses_subgroups = functions.chain(entries).any(|function| {
            function.expressions.iter().any(|(_, expression)| {
                matches!(
                    expression,
                    naga::Expression::SubgroupBallotResult
                        | naga::Expression::SubgroupOperationResult { .. }
                )
            }) || function.arguments.iter().any(|argument| {
                matches!(
                    argument.binding,
                    Some(naga::Binding::BuiltIn(
                        naga::BuiltIn::SubgroupSize
                            | naga::BuiltIn::SubgroupInvocationId
                            | naga::BuiltIn::SubgroupId
                            | naga::BuiltIn::NumSubgroups
                    ))
                )
            })
        });
    }
}
