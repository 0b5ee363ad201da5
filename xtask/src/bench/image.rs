//! `cargo xtask bench image`: the whole command beside PyTorch on the same weights, in turns; and how
//! long a cancel takes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::page;
use crate::command::{cargo, output};
use crate::python::{Environment, Kind, Made};

const PROMPT: &str = "a slice of pizza";
const PHASES: [&str; 4] = ["load", "text", "denoise", "decode"];

/// `tintype imagine` beside PyTorch on the same weights, phase by phase, and the time from a cancel
/// to the end of the work.
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// Runs of each, in turns.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Threads of each.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A Python with torch, numpy, gguf and sentencepiece, instead of an environment made here.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<std::path::PathBuf>,
}

/// Seconds of one run.
struct Run {
    phases: [f64; 4],
    whole: f64,
}

impl Image {
    pub(super) fn run(self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        output(cargo().args(["build", "-q", "--release", "-p", "tintype-cli"]))?;
        let python = match &self.python {
            Some(path) => path.clone(),
            None => match Environment::make(Kind::Torch)? {
                Made::Whole(environment) => environment.python,
                Made::Unreachable(why) => bail!("{why}"),
            },
        };
        let folder = tempfile::tempdir()?;
        let threads = self.threads.to_string();
        let (mut ours, mut torch) = (Vec::new(), Vec::new());
        for run in 0..=self.runs {
            let program = root.join("target/release/tintype");
            let mut command = Command::new(program);
            command.args(["imagine", PROMPT, "--seed", "900", "--steps", "20", "--json"]);
            command.args(["--device", "cpu", "--threads", &threads]);
            let mine = timed(command.args(["-o", "pizza.png"]).current_dir(folder.path()))?;
            let mut command = Command::new(&python);
            command.arg(root.join("crates/engine/benches/peers/torch_image.py"));
            let theirs = timed(command.args([PROMPT, &threads]))?;
            // The first of each fills the file cache.
            if run > 0 {
                ours.push(mine);
                torch.push(theirs);
            }
        }
        let bench = ["bench", "-q", "-p", "tintype", "--bench", "cancel"];
        let cancel = output(cargo().args(bench).args(["--", &threads]))?;
        let runs = self.runs;
        let mut text = format!(
            "One picture of 128×128, 20 steps, guidance 3, on {threads} threads of a CPU: medians of \
             {runs} runs, ours and PyTorch's in turns.\n\n\
             | phase | ours, s | PyTorch, s | PyTorch ÷ ours |\n|---|---|---|---|\n"
        );
        let mut row = |name: &str, of: &dyn Fn(&Run) -> f64| {
            let [mine, theirs] = [&ours, &torch].map(|runs| median(runs.iter().map(of).collect()));
            text.push_str(&format!(
                "| {name} | {mine:.3} | {theirs:.3} | {:.1} |\n",
                theirs / mine
            ));
        };
        for (at, phase) in PHASES.into_iter().enumerate() {
            row(phase, &|run| run.phases[at]);
        }
        row("the phases together", &|run| run.phases.iter().sum());
        row("the whole process", &|run| run.whole);
        page::keep("image", &format!("{text}\n{cancel}"))
    }
}

fn timed(command: &mut Command) -> Result<Run> {
    let began = Instant::now();
    let text = output(command)?;
    let whole = began.elapsed().as_secs_f64();
    let json: Value = serde_json::from_str(&text).context("a run printed no JSON")?;
    let seconds = |phase: &str| json["timings"][phase].as_f64().context("a run told no time");
    let [load, text, denoise, decode] = PHASES.map(seconds);
    Ok(Run { phases: [load?, text?, denoise?, decode?], whole })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
