//! The test runner of this machine, nextest or cargo's own, and what a run of it said. It must not
//! know which steps there are.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::select;
use super::skips::{from_junit, from_output};
use crate::command::{Heard, cargo, hear, output};
use crate::setup::{Vulkan, spirv_val};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// The nextest profiles of `.config/nextest.toml`: for the first pass, and under the validation layer.
const PROFILE: &str = "xtask";
pub(super) const VALIDATED: &str = "validated";

/// Which tests, and the environment promised to them.
pub(super) struct Suite<'a> {
    workspace: &'a Workspace,
    /// Packages; empty for all.
    packages: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// The nextest profile to run under.
    pub(super) profile: &'static str,
    /// Kernels compiled in this run; gone with it, so that no run leans on an earlier one.
    _cache: TempDir,
}

impl<'a> Suite<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        vulkan: &Vulkan,
        packages: Vec<String>,
    ) -> Result<Self> {
        let cache = tempfile::Builder::new()
            .prefix("tintype-kernels-")
            .tempdir()
            .context("no temporary folder for compiled kernels")?;
        let mut environment = vulkan.environment.clone();
        environment.push(("TINTYPE_CACHE", cache.path().display().to_string()));
        // What is promised here must not be skipped by a test.
        let promises = [
            ("TINTYPE_TEST_VULKAN", vulkan.expected),
            ("TINTYPE_TEST_VALIDATION", vulkan.validation),
            ("TINTYPE_TEST_SPIRV_VAL", spirv_val()),
        ];
        for (name, _) in promises.iter().filter(|(_, there)| *there) {
            environment.push((name, "required".into()));
        }
        Ok(Suite { workspace, packages, environment, profile: PROFILE, _cache: cache })
    }

    /// Adds a variable that the tests see.
    pub(super) fn set(&mut self, name: &'static str, value: String) {
        self.environment.push((name, value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.workspace.root).args(words).arg("--locked");
        // A device that a person prefers must not narrow what is tested.
        command.env_remove("TINTYPE_DEVICE");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            command.env("CARGO_TERM_COLOR", "always");
        }
        select(&mut command, &self.packages);
        command
    }
}

/// How tests are run here.
pub(super) enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    /// nextest where it is installed.
    pub(super) fn find() -> Self {
        match output(cargo().args(["nextest", "--version"])) {
            Ok(_) => Runner::Nextest,
            Err(_) => Runner::Cargo,
        }
    }

    /// Runs all tests of the suite; returns the runner's count.
    pub(super) fn run(&self, suite: &Suite<'_>, steps: &mut Steps) -> Result<String> {
        let heard = match self {
            Runner::Nextest => self.nextest(suite, steps)?,
            Runner::Cargo => {
                // Programs' tests too, so `--all-targets` would add benches: name the kinds.
                let mut command = suite.command(&["test", "--no-fail-fast"]);
                command.args(["--lib", "--bins", "--tests", "--", "--show-output"]);
                let heard = hear(&mut command)?;
                from_output(&heard.lines).into_iter().for_each(|skip| steps.skip(skip));
                heard
            }
        };
        self.judge(heard, steps)
    }

    /// Runs the examples in the documentation.
    pub(super) fn doc_tests(&self, suite: &Suite<'_>, steps: &mut Steps) -> Result<String> {
        let mut command = suite.command(&["test", "--doc", "--no-fail-fast"]);
        Runner::Cargo.judge(hear(&mut command)?, steps)
    }

    fn nextest(&self, suite: &Suite<'_>, steps: &mut Steps) -> Result<Heard> {
        let report: PathBuf =
            suite.workspace.target.join("nextest").join(suite.profile).join("junit.xml");
        // An old report must not speak for this run.
        if report.exists() {
            std::fs::remove_file(&report).with_context(|| format!("{}", report.display()))?;
        }
        let mut command =
            suite.command(&["nextest", "run", "--profile", suite.profile, "--no-fail-fast"]);
        let heard = hear(&mut command)?;
        // No report: nothing was built, which is the error that `judge` tells.
        match std::fs::read_to_string(&report) {
            Ok(text) => from_junit(&text).into_iter().for_each(|skip| steps.skip(skip)),
            Err(error) if heard.ok => {
                bail!("nextest left no report at {}: {error}", report.display())
            }
            Err(_) => {}
        }
        Ok(heard)
    }

    fn judge(&self, heard: Heard, steps: &mut Steps) -> Result<String> {
        let closing: Vec<&String> = heard.lines.iter().filter(|line| is_closing(line)).collect();
        for line in &closing {
            steps.close((*line).clone());
        }
        if !heard.ok {
            bail!("{}", heard.how);
        }
        match closing.as_slice() {
            [] => bail!("{}, but its closing line was not seen: were there tests?", heard.how),
            [line] => Ok(line.trim().to_string()),
            several => Ok(format!("{} test programs", several.len())),
        }
    }
}

/// nextest's and cargo's own closing lines.
fn is_closing(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Summary [") || line.starts_with("test result: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_known() {
        assert!(is_closing("     Summary [   1.205s] 34 tests run: 34 passed, 0 skipped"));
        assert!(is_closing("test result: ok. 3 passed; 0 failed; 0 ignored"));
        assert!(!is_closing("test result_is_read ... ok"));
        assert!(!is_closing("    Starting 34 tests across 5 binaries"));
    }
}
