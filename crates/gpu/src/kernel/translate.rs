//! From a validated module to SPIR-V words and Metal source. It must not know drivers.

use std::panic::AssertUnwindSafe;

use naga::back::{msl as naga_msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};

use super::{KernelSource, Parsed, Reflection, correct, halves};
use crate::error::{Error, Result};

/// Kernels index only what they own (each is tested at odd sizes with poisoned surroundings), so
/// the translated code carries no clamps; they cost about 17 % of its length.
const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// SPIR-V 1.4 words, for Vulkan 1.2 and later.
pub fn spirv(source: &KernelSource, parsed: &Parsed) -> Result<Vec<u32>> {
    let options = spv::Options {
        lang_version: (1, 4),
        flags: spv::WriterFlags::empty(),
        fake_missing_bindings: false,
        binding_map: binding_map(parsed),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        use_storage_input_output_16: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let pipeline = spv::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: source.entry.into(),
    };
    let words = guarded(source, "SPIR-V", || {
        spv::write_vec(&parsed.module, &parsed.info, &options, Some(&pipeline))
            .map_err(|error| bad(source, format!("SPIR-V: {error}")))
    })?;
    correct(&words)
        .and_then(|words| halves(&words))
        .map_err(|reason| bad(source, format!("SPIR-V: {reason}")))
}

fn binding_map(parsed: &Parsed) -> spv::BindingMap {
    parsed
        .module
        .global_variables
        .iter()
        .filter_map(|(_, global)| global.binding)
        .map(|binding| {
            let target = spv::BindingInfo {
                descriptor_set: binding.group,
                binding: binding.binding,
                binding_array_size: None,
            };
            (binding, target)
        })
        .collect()
}

/// Size of cooperative-matrix tiles a Metal device multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoopMatrix(pub u32);

/// Metal source: storage buffer `n` at `[[buffer(n)]]`, then immediates, then the sizes of runtime
/// arrays (when the kernel asks for `arrayLength`). Returns the text and the entry point's name.
pub fn msl(source: &KernelSource, parsed: &Parsed) -> Result<(String, String)> {
    if casts_float_to_16_bit_integer(parsed) {
        let reason = "MSL: a float is converted to a 16-bit integer, which naga does not write; \
                      convert through u32 or i32";
        return Err(bad(source, reason.into()));
    }
    let reflection = Reflection::of(source, parsed)?;
    let slots = reflection.slots.len() as u8;
    let mut resources = naga_msl::EntryPointResources {
        immediates_buffer: Some(slots),
        sizes_buffer: Some(slots + 1),
        ..Default::default()
    };
    for (_, global) in parsed.module.global_variables.iter() {
        let Some(binding) = global.binding else { continue };
        let mutable = reflection.slots.get(binding.binding as usize).is_some_and(|s| s.writable);
        let target = naga_msl::BindTarget {
            buffer: Some(binding.binding as u8),
            mutable,
            ..Default::default()
        };
        resources.resources.insert(binding, target);
    }
    let options = naga_msl::Options {
        lang_version: (3, 0),
        per_entry_point_map: [(source.entry.to_owned(), resources)].into_iter().collect(),
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let pipeline = naga_msl::PipelineOptions {
        entry_point: Some((naga::ShaderStage::Compute, source.entry.to_owned())),
        ..Default::default()
    };
    let (text, info) = guarded(source, "MSL", || {
        naga_msl::write_string(&parsed.module, &parsed.info, &options, &pipeline)
            .map_err(|error| bad(source, format!("MSL: {error}")))
    })?;
    let entry = info
        .entry_point_names
        .into_iter()
        .next()
        .ok_or_else(|| bad(source, "MSL: no entry point was written".into()))?
        .map_err(|error| bad(source, format!("MSL: {error}")))?;
    Ok((text, entry))
}

/// Whether some expression converts a float to `i16` or `u16`: naga's Metal back end panics on it.
fn casts_float_to_16_bit_integer(parsed: &Parsed) -> bool {
    use naga::{Expression, ScalarKind};
    let Parsed { module, info } = parsed;
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    let entries = module.entry_points.iter().enumerate();
    let entries = entries.map(|(at, entry)| (&entry.function, info.get_entry_point(at)));
    functions.chain(entries).any(|(function, types)| {
        function.expressions.iter().any(|(_, expression)| {
            let Expression::As { expr, kind, convert: Some(2) } = *expression else { return false };
            let from = types[expr].ty.inner_with(&module.types).scalar();
            matches!(kind, ScalarKind::Sint | ScalarKind::Uint)
                && from.is_some_and(|from| from.kind == ScalarKind::Float)
        })
    })
}

/// naga's own word for what it does not support is at times a panic; here it is an error. What the
/// closure worked on is dropped with it, so nothing half-made is seen.
pub(super) fn guarded<T>(
    source: &KernelSource,
    what: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        Err(bad(
            source,
            format!("{what}: naga gave up on this kernel ({said}); write it another way"),
        ))
    })
}

fn bad(source: &KernelSource, reason: String) -> Error {
    Error::BadKernel { kernel: source.name.into(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_translator_is_an_error_that_names_the_kernel() {
        fn nothing(
            _: &mut crate::kernel::Unit<'_>,
        ) -> std::result::Result<(), crate::kernel::UnitError> {
            Ok(())
        }
        let source =
            KernelSource { name: "odd", wgsl: "", entry: "main", aliases: &[], cpu: nothing };
        let given_up: Result<()> = guarded(&source, "SPIR-V", || panic!("Expression not cached"));
        let text = given_up.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(text.contains("odd") && text.contains("Expression not cached"), "{text}");
        assert_eq!(guarded(&source, "MSL", || Ok(7)).ok(), Some(7));
    }
}
