//! From WGSL text and a variation to a validated module with nothing left open.
//! It must not know backends.

use std::borrow::Cow;

use naga::back::PipelineConstants;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

use super::KernelSource;
use super::translate::guarded;
use crate::error::{Error, Result};

/// A validated module, overrides resolved.
pub struct Parsed {
    /// The module.
    pub module: naga::Module,
    /// What validation found out about it.
    pub info: ModuleInfo,
}

/// What kernels may use. Devices that lack some of it refuse the kernels that need it.
const CAPABILITIES: Capabilities = Capabilities::IMMEDIATES
    .union(Capabilities::SHADER_FLOAT16)
    .union(Capabilities::SHADER_FLOAT16_IN_FLOAT32)
    .union(Capabilities::SHADER_INT64)
    .union(Capabilities::SHADER_INT16)
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::SUBGROUP_BARRIER)
    .union(Capabilities::COOPERATIVE_MATRIX);

/// Parses, validates and specializes `source`.
pub fn parse(source: &KernelSource, overrides: &[(&str, f64)]) -> Result<Parsed> {
    guarded(source, "WGSL", || parse_unguarded(source, overrides))
}

fn parse_unguarded(source: &KernelSource, overrides: &[(&str, f64)]) -> Result<Parsed> {
    let bad = |reason: String| Error::BadKernel { kernel: source.name.into(), reason };
    let text = with_aliases(source)?;
    let module = naga::front::wgsl::parse_str(&text)
        .map_err(|error| bad(error.emit_to_string_with_path(&text, source.name)))?;
    let mut validator = Validator::new(ValidationFlags::all(), CAPABILITIES);
    validator
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|error| bad(error.emit_to_string_with_path(&text, source.name)))?;
    let constants = constants(&module, overrides).map_err(&bad)?;
    let stage = Some((naga::ShaderStage::Compute, source.entry));
    let resolved =
        naga::back::pipeline_constants::process_overrides(&module, &info, stage, &constants)
            .map_err(|error| bad(format!("overrides: {error}")))?;
    let (module, info) = match resolved {
        (Cow::Borrowed(_), Cow::Borrowed(_)) => (module, info),
        (new_module, new_info) => {
            let resolved = (new_module.into_owned(), new_info.into_owned());
            (resolved.0, resolved.1)
        }
    };
    Ok(Parsed { module, info })
}

/// The text with each named alias declaration replaced.
fn with_aliases(source: &KernelSource) -> Result<Cow<'static, str>> {
    let mut text = Cow::Borrowed(source.wgsl);
    for (alias, target) in source.aliases {
        let start = format!("alias {alias} = ");
        let found = text.lines().find(|line| line.starts_with(&start)).map(str::to_owned);
        let Some(line) = found else {
            return Err(Error::BadKernel {
                kernel: source.name.into(),
                reason: format!("the source declares no line \"{start}…;\" to replace"),
            });
        };
        text = Cow::Owned(text.replacen(&line, &format!("{start}{target};"), 1));
    }
    let needs_f16 = source.aliases.iter().any(|(_, target)| target.contains("f16"));
    if needs_f16 && !text.contains("enable f16;") {
        text = Cow::Owned(format!("enable f16;\n{text}"));
    }
    Ok(text)
}

/// Override values by name, each checked to exist.
fn constants(
    module: &naga::Module,
    overrides: &[(&str, f64)],
) -> std::result::Result<PipelineConstants, String> {
    let mut constants = PipelineConstants::default();
    for (name, value) in overrides {
        if !module.overrides.iter().any(|(_, o)| o.name.as_deref() == Some(name)) {
            return Err(format!("the source declares no override {name}"));
        }
        constants.insert((*name).to_owned(), *value);
    }
    Ok(constants)
}
