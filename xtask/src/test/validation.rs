//! The device tests once more, judged by Khronos' validation layer with synchronization checks.
//! The layer is switched on by the environment; any report of it fails the step.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::runner::{Runner, Suite, VALIDATED};
use crate::setup::Vulkan;
use crate::steps::{Outcome, Steps};

/// How many reports are shown when there are many.
const SHOWN: usize = 10;

/// Runs the suite under the layer. Tests that provoke reports on purpose take `TINTYPE_VALIDATION_LOG`
/// away from the processes that do so, and check what those hear themselves.
pub(super) fn run(
    runner: &Runner,
    mut suite: Suite<'_>,
    vulkan: &Vulkan,
    steps: &mut Steps,
) -> Result<Outcome> {
    if suite.is_empty() {
        return Ok(Outcome::Skipped("no device tests among the chosen packages".into()));
    }
    if !vulkan.validation {
        return Ok(Outcome::Skipped(format!("no validation layer; {}", vulkan.described)));
    }
    let folder = tempfile::tempdir().context("no temporary folder for the layer's reports")?;
    let (log, settings) = (folder.path().join("reports.log"), folder.path().join("settings"));
    std::fs::create_dir(&settings)?;
    // The layer's own words go to the tests' output as well, where a failed test shows them.
    std::fs::write(
        settings.join("vk_layer_settings.txt"),
        "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n\
         khronos_validation.log_filename = stdout\n\
         khronos_validation.report_flags = error,warn\n",
    )?;
    for (name, value) in [
        ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation".to_string()),
        (
            "VK_LAYER_ENABLES",
            "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT".to_string(),
        ),
        ("VK_LAYER_SETTINGS_PATH", settings.display().to_string()),
        ("TINTYPE_VALIDATION_LOG", log.display().to_string()),
    ] {
        suite.set(name, value);
    }
    suite.profile = VALIDATED;
    let count = runner.run(&suite, steps)?;
    silent(&log)?;
    Ok(Outcome::Passed(format!("{count}; the layer reports nothing")))
}

/// An error with the reports, if there are any. Processes append to the file only to report, so
/// none at all is the good case.
fn silent(log: &Path) -> Result<()> {
    let bytes = match std::fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context("the layer's reports could not be read"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let reports: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if reports.is_empty() {
        return Ok(());
    }
    let shown = reports.iter().take(SHOWN).copied().collect::<Vec<_>>().join("\n");
    bail!("the validation layer reported (lines: {}):\n{shown}", reports.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_report_fails_and_silence_passes() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        silent(&log).unwrap();
        std::fs::write(&log, "\n").unwrap();
        silent(&log).unwrap();
        std::fs::write(&log, "ERROR: SYNC-HAZARD-READ-AFTER-WRITE\nmore\n").unwrap();
        let error = silent(&log).unwrap_err().to_string();
        assert!(error.contains("SYNC-HAZARD-READ-AFTER-WRITE"), "{error}");
    }
}
