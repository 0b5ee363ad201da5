//! What tests need beyond cargo: looked for, installed through apt where that is allowed, else
//! named as missing. It must not know which tests use it.

mod apt;
mod vulkan;

use anyhow::Result;

pub(crate) use apt::Apt;
pub(crate) use vulkan::Vulkan;

use crate::command::find;
use crate::steps::{Outcome, Steps};

/// One thing that some tests need, and the Debian package that carries it.
struct Need {
    what: &'static str,
    package: &'static str,
    /// What is not tested without it.
    used_for: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 6] = [
    Need {
        what: "Vulkan loader",
        package: "libvulkan1",
        used_for: "everything on Vulkan",
        present: vulkan::loader_is_there,
    },
    Need {
        what: "software Vulkan",
        package: "mesa-vulkan-drivers",
        used_for: "everything on Vulkan where there is no GPU",
        present: || vulkan::software_manifest().is_some(),
    },
    Need {
        what: "Vulkan validation layer",
        package: "vulkan-validationlayers",
        used_for: "the outside judge of barriers",
        present: || vulkan::validation_manifest().is_some(),
    },
    Need {
        what: "spirv-val",
        package: "spirv-tools",
        used_for: "the outside judge of SPIR-V",
        present: spirv_val,
    },
    Need {
        what: "Python with venv",
        package: "python3-venv",
        used_for: "round trips of weight files with Python's own packages",
        present: crate::python::can_make,
    },
    Need {
        what: "C++ compiler",
        package: "g++",
        used_for: "the short run of the fuzzers (libFuzzer is C++)",
        present: crate::fuzz::compiler_is_there,
    },
];

/// Whether `spirv-val` can be run.
pub(crate) fn spirv_val() -> bool {
    find("spirv-val").is_some()
}

/// Installs what is missing, if `install` and this machine allow it. What stays missing is a skip,
/// not a failure; a failed installation is a failure.
pub(crate) fn set_up(steps: &mut Steps, install: bool) -> Result<Outcome> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.present)()).collect();
    if missing.is_empty() {
        return Ok(Outcome::Passed("all there".into()));
    }
    let apt = if install { Apt::find() } else { Err("--no-setup was given".into()) };
    let why = match apt {
        Ok(apt) => {
            let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
            apt.install(&packages)?;
            if let Some(need) = missing.iter().find(|need| !(need.present)()) {
                anyhow::bail!("{} was installed, but {} is not found", need.package, need.what);
            }
            return Ok(Outcome::Passed(format!("installed {}", packages.join(", "))));
        }
        Err(why) => why,
    };
    for need in &missing {
        steps.skip(format!(
            "{} (no {}; package {}; not installed: {why})",
            need.used_for, need.what, need.package
        ));
    }
    Ok(Outcome::Skipped(format!("{} of {} missing: {why}", missing.len(), NEEDS.len())))
}
