//! `tintype convert`: weight files into GGUF or safetensors, quantized on the way.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use regex::Regex;
use serde::Serialize;
use tintype::DType;
use tintype::weights::convert::{
    Check, Phase, Plan, Progress, Recipe, Report, Rule, Target, convert, parse_dtype, plan,
};
use tintype::weights::{Access, OpenOptions, Weights, printable};

use crate::bar::bar;
use crate::interrupt;
use crate::show::{print, size};

/// Convert weights to GGUF or safetensors, and quantize them.
///
/// Tensors of fewer than two dimensions (biases, norms) keep their type, and so do those whose
/// rows do not fill the blocks of a type; the summary says which. A rule is a pattern
/// (regular expression, searched for anywhere in a tensor's name) and a type; the first that
/// matches decides. The new file appears under its name only when it is complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tintype convert model.safetensors model.gguf --type q8_0
  tintype convert model.gguf small.gguf --type q4_k --rule '^output\\.=q6_k' --rule 'attn_v=q5_k'
  tintype convert old.ckpt model.safetensors --type f16 --verify
  tintype convert stable-diffusion-v1-5/ sd15.gguf --type q8_0 --rule '^vae\\.=f16'")]
pub(crate) struct Convert {
    /// A weight file, a shard index or a folder.
    from: PathBuf,
    /// The file to write; its ending, .gguf or .safetensors, says the format.
    to: PathBuf,
    /// What matrices become: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k … q6_k.
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_dtype)]
    dtype: Option<DType>,
    /// A type for tensors whose names match, as PATTERN=TYPE; may be given many times.
    #[arg(long = "rule", value_name = "PATTERN=TYPE", value_parser = parse_rule)]
    rules: Vec<Rule>,
    /// The architecture to write into a GGUF file, where the source does not say it.
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
    /// Read the new file back and compare every tensor with its source.
    #[arg(long)]
    verify: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Only say what each tensor would become.
    #[arg(long)]
    dry_run: bool,
    /// Take this variant of a folder's files, such as fp16.
    #[arg(long)]
    variant: Option<String>,
    /// Print JSON: sizes, time, and each tensor's types and error.
    #[arg(long)]
    json: bool,
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    let (pattern, name) = text.rsplit_once('=').ok_or("a rule is PATTERN=TYPE")?;
    let pattern = Regex::new(pattern).map_err(|e| e.to_string())?;
    Ok(Rule { pattern, dtype: parse_dtype(name)? })
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let ending = self.to.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let target = match ending.to_ascii_lowercase().as_str() {
            "gguf" => Target::Gguf,
            "safetensors" => Target::Safetensors,
            _ => bail!("{}: the name must end in .gguf or .safetensors", self.to.display()),
        };
        if self.to.exists() && !self.force && !self.dry_run {
            bail!("{} exists; --force replaces it", self.to.display());
        }
        let options = OpenOptions { access: Access::Map, variant: self.variant.clone() };
        let weights = Weights::open_with(&self.from, &options)?;
        let recipe = Recipe {
            rules: self.rules.clone(),
            dtype: self.dtype,
            architecture: self.architecture.clone(),
            verify: self.verify,
        };
        let plan = plan(&weights, target, &recipe, &self.to)?;
        if self.dry_run {
            return print(&dry(&plan, self.json)?);
        }
        interrupt::watch()?;
        let start = Instant::now();
        let bar = Bar::new(self.json);
        let report = convert(&weights, &plan, &recipe, &self.to, &mut |p| bar.show(p));
        bar.0.finish_and_clear();
        let report = report.context("nothing was written")?;
        let seconds = start.elapsed().as_secs_f64();
        let read: u64 = weights.tensors().iter().map(|t| t.byte_len()).sum();
        if self.json {
            return print(&json(&plan, &report, seconds)?);
        }
        let mut text = format!(
            "{}: {} tensors, {} from {} in {seconds:.1} s",
            self.to.display(),
            plan.items.len(),
            size(report.bytes),
            size(read)
        );
        text.push_str(&kept(&plan));
        if let Some(first) = plan.long_names().next() {
            let (count, first) = (plan.long_names().count(), printable(first, 120));
            text.push_str(&format!(
                "\n  {count} names are longer than llama.cpp reads, such as {first}"
            ));
        }
        if !report.left_out.is_empty() {
            let keys: Vec<_> = report.left_out.iter().map(|k| printable(k, 80)).collect();
            text.push_str(&format!(
                "\n  left out (arrays too long for safetensors): {}",
                keys.join(", ")
            ));
        }
        if self.verify {
            text.push_str(&verified(&report.checks));
        }
        print(&text)
    }
}

/// Tensors that did not become what the recipe asks for, by reason.
fn kept(plan: &Plan<'_>) -> String {
    let mut reasons: Vec<(&str, usize, &str)> = Vec::new();
    for item in &plan.items {
        let Some(why) = item.kept else { continue };
        match reasons.iter_mut().find(|(reason, ..)| *reason == why) {
            Some((_, number, _)) => *number += 1,
            None => reasons.push((why, 1, item.tensor.name())),
        }
    }
    let line = |(why, number, first): &(&str, usize, &str)| {
        format!("\n  {number} kept for {why}, such as {}", printable(first, 120))
    };
    reasons.iter().map(line).collect()
}

/// The worst tensor of each pair of types.
fn verified(checks: &[Check]) -> String {
    let mut worst: Vec<(&Check, usize)> = Vec::new();
    for check in checks {
        match worst.iter_mut().find(|(c, _)| (c.from, c.to) == (check.from, check.to)) {
            Some((least, number)) => {
                *number += 1;
                if check.relative_error > least.relative_error {
                    *least = check;
                }
            }
            None => worst.push((check, 1)),
        }
    }
    let line = |(check, number): &(&Check, usize)| {
        format!(
            "\n  {number} from {} to {}, worst relative error {:.2e} in {}",
            check.from,
            check.to,
            check.relative_error,
            printable(&check.tensor, 120)
        )
    };
    format!("\n  verified{}", worst.iter().map(line).collect::<String>())
}

const TEMPLATE: &str =
    "{prefix} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}";

/// Progress with rate and time left; hidden where nobody watches.
struct Bar(ProgressBar);

impl Bar {
    fn new(hidden: bool) -> Self {
        Self(bar(TEMPLATE, hidden))
    }

    fn show(&self, progress: Progress<'_>) -> ControlFlow<()> {
        let phase = match progress.phase {
            Phase::Writing => "writing",
            Phase::Verifying => "verifying",
        };
        if self.0.prefix() != phase {
            self.0.set_prefix(phase);
            self.0.reset();
        }
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
        let name = printable(progress.tensor, 40);
        if self.0.message() != name {
            self.0.set_message(name);
        }
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn dry(plan: &Plan<'_>, as_json: bool) -> anyhow::Result<String> {
    if as_json {
        let items: Vec<_> = plan.items.iter().map(|item| json_tensor(item, &[])).collect();
        return Ok(serde_json::to_string_pretty(&items)?);
    }
    let line = |item: &tintype::weights::convert::Item<'_>| {
        let why = item.kept.map(|why| format!(" (kept: {why})")).unwrap_or_default();
        let (from, to) = (item.tensor.dtype(), item.dtype);
        format!("{}  {from} → {to}{why}", printable(item.tensor.name(), 200))
    };
    Ok(plan.items.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[derive(Serialize)]
struct Json<'a> {
    bytes: u64,
    seconds: f64,
    left_out: &'a [String],
    tensors: Vec<JsonTensor<'a>>,
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: &'a str,
    from: &'a str,
    to: &'a str,
    bytes: u64,
    kept: Option<&'a str>,
    relative_error: Option<f64>,
}

fn json_tensor<'a>(item: &tintype::weights::convert::Item<'a>, checks: &[Check]) -> JsonTensor<'a> {
    let name = item.tensor.name();
    JsonTensor {
        name,
        from: item.tensor.dtype().name(),
        to: item.dtype.name(),
        bytes: item.byte_len(),
        kept: item.kept,
        relative_error: checks.iter().find(|c| c.tensor == name).map(|c| c.relative_error),
    }
}

fn json(plan: &Plan<'_>, report: &Report, seconds: f64) -> anyhow::Result<String> {
    let tensors = plan.items.iter().map(|item| json_tensor(item, &report.checks)).collect();
    let json = Json { bytes: report.bytes, seconds, left_out: &report.left_out, tensors };
    Ok(serde_json::to_string_pretty(&json)?)
}

#[cfg(test)]
mod tests {
    use indicatif::{ProgressDrawTarget, ProgressStyle};

    use super::*;

    #[test]
    fn the_bar_shows_phase_bytes_rate_and_time_left() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        let terminal = indicatif::InMemoryTerm::new(4, 120);
        let bar = Bar::new(true);
        bar.0.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let tensor = "blk.0.attn_q.weight";
        let progress = Progress { phase: Phase::Writing, tensor, done: 3 << 20, total: 6 << 20 };
        assert!(bar.show(progress).is_continue());
        bar.0.tick();
        let shown = terminal.contents();
        assert!(shown.starts_with("writing ██"), "{shown}");
        for part in ["3.00 MiB/6.00 MiB", "iB/s", tensor] {
            assert!(shown.contains(part), "{shown}\nlacks {part}");
        }
    }
}
