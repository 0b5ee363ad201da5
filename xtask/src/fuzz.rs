//! `cargo xtask fuzz`: libFuzzer over everything that reads files, for a while, with the stable
//! compiler: our readers hold no unsafe code, so coverage is wanted and sanitizers are not. It must
//! not know formats; the targets are the files of `fuzz/fuzz_targets`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::command::{cargo, find, output, run};
use crate::workspace::Workspace;

/// Fuzz the readers of weight files, each for some seconds, from the seeds in fuzz/corpus.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz gguf --seconds 3600\n\n\
    Inputs that are found interesting stay in target/fuzz/corpus, those that fail in \
    target/fuzz/artifacts.")]
pub(crate) struct Fuzz {
    /// Fuzz only these targets.
    targets: Vec<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

impl Fuzz {
    pub(crate) fn run(self) -> Result<bool> {
        let workspace = Workspace::load()?;
        let all = targets(&workspace)?;
        if let Some(unknown) = self.targets.iter().find(|t| !all.contains(t)) {
            bail!("no target {unknown}; there are {}", all.join(", "));
        }
        let chosen = if self.targets.is_empty() { all } else { self.targets };
        let runs = fuzz(&workspace, &chosen, self.seconds)?;
        println!("\n{}", table(&runs));
        Ok(runs.iter().all(|run| run.failure.is_none()))
    }
}

/// Whether libFuzzer can be built.
pub(crate) fn compiler_is_there() -> bool {
    find("c++").is_some()
}

/// What one target did.
pub(crate) struct Run {
    target: String,
    executions: u64,
    /// Inputs kept, because they reached new code.
    kept: u64,
    /// The closing lines of a run that found something.
    failure: Option<String>,
}

/// Every target, for so many seconds each; a find is an error that says how to see it again.
pub(crate) fn short(workspace: &Workspace, seconds: u32) -> Result<String> {
    let runs = fuzz(workspace, &targets(workspace)?, seconds)?;
    println!("{}", table(&runs));
    if let Some(run) = runs.iter().find(|run| run.failure.is_some()) {
        bail!("{}: {}", run.target, run.failure.as_deref().unwrap_or_default());
    }
    let executions: u64 = runs.iter().map(|run| run.executions).sum();
    Ok(format!("{executions} executions of {} targets, {seconds} s each, no find", runs.len()))
}

fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        names.extend(file?.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// What makes LLVM count edges and comparisons for libFuzzer.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

fn fuzz(workspace: &Workspace, targets: &[String], seconds: u32) -> Result<Vec<Run>> {
    let place = workspace.target.join("fuzz");
    let host = host()?;
    // Naming the host as target keeps build scripts and macros free of the instrumentation.
    let mut build = cargo();
    build.current_dir(workspace.root.join("fuzz")).args(["build", "--release", "--target", &host]);
    run(build.arg("--target-dir").arg(&place).env("RUSTFLAGS", COVERAGE))?;
    let programs = place.join(&host).join("release");
    targets.iter().map(|target| fuzz_one(workspace, &place, &programs, target, seconds)).collect()
}

fn fuzz_one(
    workspace: &Workspace,
    place: &Path,
    programs: &Path,
    target: &str,
    seconds: u32,
) -> Result<Run> {
    let seeds = workspace.root.join("fuzz/corpus").join(target);
    ensure!(seeds.is_dir(), "{target} has no seeds in {}", seeds.display());
    let [grown, artifacts] = ["corpus", "artifacts"].map(|name| place.join(name).join(target));
    for folder in [&grown, &artifacts] {
        std::fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(programs.join(target));
    // The first folder takes what is found.
    command.args([&grown, &seeds]).args([
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={}/", artifacts.display()),
    ]);
    command.args(["-rss_limit_mb=512", "-timeout=5", "-print_final_stats=1"]);
    eprintln!("fuzzing {target} for {seconds} s");
    let out = command.output().with_context(|| format!("cannot start the fuzzer of {target}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    let failure = (!out.status.success()).then(|| finding(&said, &artifacts));
    let number = |name: &str| statistic(&said, name);
    let (executions, kept) = (number("number_of_executed_units"), number("new_units_added"));
    ensure!(failure.is_some() || executions > 0, "{target} ran nothing:\n{said}");
    Ok(Run { target: target.into(), executions, kept, failure })
}

/// One of the numbers that libFuzzer prints at its end; 0 if it did not come to that.
fn statistic(said: &str, name: &str) -> u64 {
    let lines = said.lines().filter_map(|line| line.strip_prefix("stat::")?.split_once(':'));
    lines.filter(|(key, _)| *key == name).find_map(|(_, n)| n.trim().parse().ok()).unwrap_or(0)
}

/// The lines that matter of a run that found something, and where the input lies.
fn finding(said: &str, artifacts: &Path) -> String {
    let signs = ["panicked at", "ERROR: libFuzzer", "SUMMARY:", "Test unit written to"];
    let lines = said.lines().filter(|line| signs.iter().any(|sign| line.contains(sign)));
    let lines: Vec<&str> = lines.collect();
    if lines.is_empty() { format!("see {}", artifacts.display()) } else { lines.join("\n") }
}

fn table(runs: &[Run]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["target", "executions", "new inputs", "found"]);
    for run in runs {
        let found = run.failure.as_deref().unwrap_or("nothing");
        let (executions, kept) = (run.executions.to_string(), run.kept.to_string());
        table.add_row([&run.target, &executions, &kept, found]);
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The triple of this machine, as rustc names it.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from);
    let said = output(Command::new(rustc).arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: &str = "thread '<unnamed>' panicked at src/x.rs:1:2:\n\
        ==1== ERROR: libFuzzer: deadly signal\nNOTE: libFuzzer has rudimentary handlers\n\
        artifact_prefix='a/'; Test unit written to a/crash-1\n\
        stat::number_of_executed_units: 12\nstat::new_units_added:          3\n";

    #[test]
    fn what_the_fuzzer_says_is_read() {
        assert_eq!(statistic(FOUND, "number_of_executed_units"), 12);
        assert_eq!(statistic(FOUND, "new_units_added"), 3);
        assert_eq!(statistic("killed", "new_units_added"), 0);
        let found = finding(FOUND, Path::new("a"));
        assert!(found.contains("x.rs:1:2") && found.contains("a/crash-1"), "{found}");
        assert!(!found.contains("rudimentary"), "{found}");
        assert_eq!(finding("", Path::new("a")), "see a");
    }
}
