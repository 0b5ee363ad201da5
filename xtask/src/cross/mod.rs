//! `cargo xtask cross-check`: the libraries type-check for Apple, Windows and Android from Linux, and
//! one links as a Mach-O library against Metal. Nothing is run: it proves types and symbols only.

mod apple;
mod compiler;
mod standard;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{cargo, run};
use crate::steps::{Outcome, Steps};
use crate::workspace::Workspace;
use compiler::Compiler;

/// Checked unless the command line names others.
const TARGETS: [&str; 4] =
    ["aarch64-apple-darwin", "aarch64-apple-ios", "x86_64-pc-windows-gnu", "aarch64-linux-android"];

/// The target whose library is linked.
const LINKED: &str = "aarch64-apple-darwin";
/// The library that is linked: the one that calls the drivers.
const LIBRARY: &str = "tintype-gpu";

/// Type-checks the libraries for Apple, Windows and Android, and links one for macOS.
#[derive(Debug, Args)]
#[command(after_help = "Needs Debian's packages of Rust with sources (fetched to a cache, not \
    installed) and their mirror. Seen working for x86_64-apple-darwin and x86_64-pc-windows-msvc \
    too.\n\nExamples:\n  cargo xtask cross-check\n  cargo xtask cross-check --target aarch64-apple-ios")]
pub(crate) struct CrossCheck {
    /// Check this target instead of the usual four (may be repeated).
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// Check only this package's library (may be repeated).
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// Do not link the Mach-O library.
    #[arg(long)]
    no_link: bool,
}

impl CrossCheck {
    /// True if every step passed or was skipped for a reason that is named.
    pub(crate) fn run(self) -> Result<bool> {
        let workspace = Workspace::load()?;
        let all = workspace.libraries();
        let mut packages = self.package.clone();
        if let Some(name) = packages.iter().find(|name| !all.contains(&name.as_str())) {
            bail!("no package {name} with a library in this workspace");
        }
        if packages.is_empty() {
            packages = all.into_iter().map(str::to_string).collect();
        }
        let mut targets = self.target.clone();
        if targets.is_empty() {
            targets = TARGETS.map(str::to_string).to_vec();
        }
        let link = !self.no_link && targets.iter().any(|target| target == LINKED);

        let mut steps = Steps::new(2 + targets.len() + usize::from(link));
        let mut found = None;
        steps.step("compiler", |_| match Compiler::find()? {
            Ok(compiler) => {
                let outcome = Outcome::Passed(compiler.described());
                found = Some(compiler);
                Ok(outcome)
            }
            Err(why) => Ok(Outcome::Skipped(why)),
        });
        let Some(compiler) = found else {
            steps.skip(format!("all cross-checks of {}", targets.join(", ")));
            return Ok(steps.finish());
        };
        let ready = steps.step("standard libraries", |_| {
            standard::build(&compiler, &targets, if link { Some(LINKED) } else { None })
        });
        if !ready {
            return Ok(steps.finish());
        }
        for target in &targets {
            steps.step(target, |_| check(&workspace, &compiler, target, &packages));
        }
        if link {
            steps.step("Mach-O library", |_| apple::link(&workspace, &compiler, LINKED, LIBRARY));
        }
        Ok(steps.finish())
    }
}

fn check(
    workspace: &Workspace,
    compiler: &Compiler,
    target: &str,
    packages: &[String],
) -> Result<Outcome> {
    let mut command = cargo();
    command.current_dir(&workspace.root).args(["check", "--locked", "--lib", "--target", target]);
    command.args(packages.iter().flat_map(|name| ["-p", name]));
    // Only macros and build scripts become code here, and they run once.
    command.args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
    compiler.drive(&mut command, &workspace.target.join("cross"));
    run(&mut command).with_context(|| format!("{} does not check", packages.join(", ")))?;
    Ok(Outcome::Passed(packages.join(", ")))
}
