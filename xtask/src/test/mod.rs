//! `cargo xtask test`: everything that CI runs, except cross-checks. It must not know what single
//! tests do; it promises them an environment and names what they skipped.

mod judges;
mod runner;
mod skips;
mod validation;

use anyhow::Result;
use clap::Args;

use crate::command::{cargo, run};
use crate::fuzz;
use crate::setup::{self, Vulkan};
use crate::steps::{Outcome, Steps};
use crate::workspace::Workspace;
use runner::{Runner, Suite};

/// Sets up, then runs fmt, clippy, tidy, tests, doc tests, the fuzzers for a short while, and the
/// device tests once more under Vulkan's validation layer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask test\n  cargo xtask test --quick -p tintype-gpu")]
pub(crate) struct Test {
    /// Install nothing; what is missing is skipped.
    #[arg(long)]
    no_setup: bool,
    /// Lint and test only this package (may be repeated).
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// Leave out doc tests, the fuzzers and the run under the validation layer.
    #[arg(long)]
    quick: bool,
    /// Fetch the real models too (253 MB) that some tests read.
    #[arg(long)]
    real: bool,
}

/// The package whose readers the fuzzers drive.
const FUZZED: &str = "tintype";
/// Seconds of each target of a short run.
const FUZZ_SECONDS: u32 = 10;

impl Test {
    /// True if every step passed or was skipped for a reason that is named.
    pub(crate) fn run(self) -> Result<bool> {
        let workspace = Workspace::load()?;
        for name in &self.package {
            anyhow::ensure!(workspace.has(name), "no package {name} in this workspace");
        }
        let runner = Runner::find();
        let mut steps = Steps::new(if self.quick { 6 } else { 9 });
        steps.step("set-up", |steps| setup::set_up(steps, !self.no_setup));
        let mut judges = judges::Judges::default();
        steps.step("judges", |steps| judges.gather(steps, !self.no_setup, self.real));
        let vulkan = Vulkan::find();
        steps.step("fmt", |_| fmt(&workspace));
        steps.step("clippy", |_| self.clippy(&workspace));
        steps.step("tidy", |_| crate::tidy::check(&workspace));
        let mut passed = false;
        steps.step("tests", |steps| {
            let mut suite = Suite::new(&workspace, &vulkan, self.package.clone())?;
            judges.promise(&mut suite);
            let outcome = runner.run(&suite, steps)?;
            passed = true;
            Ok(Outcome::Passed(format!("{outcome}; {}", vulkan.described)))
        });
        if self.quick {
            return Ok(steps.finish());
        }
        steps.step("doc tests", |steps| {
            let names = self.chosen(workspace.libraries());
            if names.is_empty() {
                return Ok(Outcome::Skipped("no library among the chosen packages".into()));
            }
            let suite = Suite::new(&workspace, &vulkan, names)?;
            Ok(Outcome::Passed(runner.doc_tests(&suite, steps)?))
        });
        steps.step("fuzzers", |steps| self.fuzz(&workspace, steps));
        steps.step("tests, validated", |steps| {
            let packages = ["tintype-gpu", "tintype-tensor"].into_iter();
            let packages = self.chosen(packages.filter(|name| workspace.has(name)).collect());
            if !passed {
                return Ok(Outcome::Skipped("the tests fail already".into()));
            }
            validation::run(&runner, Suite::new(&workspace, &vulkan, packages)?, &vulkan, steps)
        });
        Ok(steps.finish())
    }

    /// Those of `names` that `-p` allows.
    fn chosen(&self, names: Vec<&str>) -> Vec<String> {
        let wanted =
            |name: &&str| self.package.is_empty() || self.package.iter().any(|p| p == name);
        names.into_iter().filter(wanted).map(str::to_string).collect()
    }

    fn fuzz(&self, workspace: &Workspace, steps: &mut Steps) -> Result<Outcome> {
        if self.chosen(vec![FUZZED]).is_empty() {
            return Ok(Outcome::Skipped(format!("{FUZZED} is not among the chosen packages")));
        }
        if !fuzz::compiler_is_there() {
            let why = "no C++ compiler";
            steps.skip(format!("the short run of the fuzzers: {why}"));
            return Ok(Outcome::Skipped(why.into()));
        }
        Ok(Outcome::Passed(fuzz::short(workspace, FUZZ_SECONDS)?))
    }

    fn clippy(&self, workspace: &Workspace) -> Result<Outcome> {
        let mut command = cargo();
        command.current_dir(&workspace.root).args(["clippy", "--locked", "--all-targets"]);
        select(&mut command, &self.package);
        run(command.args(["--", "-D", "warnings"]))?;
        Ok(Outcome::Passed(String::new()))
    }
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    run(cargo().current_dir(&workspace.root).args(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed(String::new()))
}

/// Adds `-p` for each package, or `--workspace`.
fn select(command: &mut std::process::Command, packages: &[String]) {
    if packages.is_empty() {
        command.arg("--workspace");
    }
    for name in packages {
        command.args(["-p", name]);
    }
}
