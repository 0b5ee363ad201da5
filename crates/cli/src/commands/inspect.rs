//! `tintype inspect`: what a weight file holds, for people and for programs.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use tintype::weights::inspect::{Amount, Branch, Forecast, Summary, forecast, summarize, tree};
use tintype::weights::{Access, OpenOptions, Value, Weights, printable};
use tintype_gpu::list;

use crate::show::{count, print, size};

/// Show what a weight file holds, without loading it.
///
/// Reads safetensors (also sharded: name the .index.json or the folder), GGUF, PyTorch .ckpt, .pt,
/// .pth and .bin, and diffusers folders. Nothing in the file is executed; only its headers are
/// read, so a file of any size takes an instant.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tintype inspect model.gguf
  tintype inspect --tensors model.safetensors
  tintype inspect --metadata stable-diffusion-v1-5/
  tintype inspect --json model.gguf | jq '.summary.parameters'")]
pub(crate) struct Inspect {
    /// A weight file, a shard index or a folder.
    path: PathBuf,
    /// List every tensor instead of the folded tree.
    #[arg(long)]
    tensors: bool,
    /// Show every metadata value in full.
    #[arg(long)]
    metadata: bool,
    /// How deep the tree of tensors goes.
    #[arg(long, value_name = "LEVELS", default_value_t = 3)]
    depth: usize,
    /// Count the memory of a language model's cache for this many tokens.
    #[arg(long, value_name = "TOKENS")]
    context: Option<u64>,
    /// Take this variant of a folder's files, such as fp16.
    #[arg(long)]
    variant: Option<String>,
    /// Print JSON: everything above and each tensor's type, shape, file and offset.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = OpenOptions { access: Access::Map, variant: self.variant.clone() };
        let weights = Weights::open_with(&self.path, &options)?;
        let summary = summarize(&weights, self.context);
        let devices = list().devices;
        let devices = devices.iter().map(|d| forecast(&weights, &summary.memory, d)).collect();
        if self.json {
            return print(&json(&weights, &summary, devices)?);
        }
        let mut text = overview(&summary, &devices);
        text.push_str(&metadata(&weights, self.metadata));
        text.push_str("\n\ntensors");
        if self.tensors {
            text.push_str(&all_tensors(&weights));
        } else {
            let mut table = table();
            let whole = lines(&tree(&weights, true), 0, self.depth, &mut table);
            for column in [1, 2, 3] {
                if let Some(column) = table.column_mut(column) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            text.push('\n');
            text.push_str(&indented(&table.trim_fmt()));
            if !whole {
                text.push_str("\n …; --tensors lists every tensor");
            }
        }
        print(&text)
    }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!(" {line}\n")).collect::<String>().trim_end().to_owned()
}

fn overview(summary: &Summary, devices: &[Forecast]) -> String {
    let mut table = table();
    let mut row = |name: &str, text: String| {
        table.add_row([name.to_owned(), text]);
    };
    for (at, file) in summary.files.iter().enumerate().take(8) {
        let name = if at == 0 { "file" } else { "" };
        row(name, format!("{} ({})", printable(&file.path, 400), size(file.bytes)));
    }
    if summary.files.len() > 8 {
        row("", format!("and {} more", summary.files.len() - 8));
    }
    let version = summary.version.map(|v| format!(" version {v}")).unwrap_or_default();
    row("format", format!("{}{version}", summary.format));
    let architecture = summary.architecture.as_ref();
    row(
        "architecture",
        architecture.map_or("unknown".to_owned(), |guess| {
            format!("{} (by {})", printable(&guess.name, 80), printable(&guess.evidence, 200))
        }),
    );
    row("parameters", format!("{} ({})", count(summary.parameters), summary.parameters));
    row("tensors", format!("{} ({})", summary.tensors, size(summary.tensor_bytes)));
    for (at, share) in summary.dtypes.iter().enumerate() {
        let name = if at == 0 { "types" } else { "" };
        let percent = share.share * 100.0;
        let text = format!("{:<8} {percent:>5.1} %  {} tensors", share.dtype, share.tensors);
        row(name, format!("{text}, {}", size(share.bytes)));
    }
    if let Some(tokenizer) = &summary.tokenizer {
        let mut text = printable(&tokenizer.model, 80);
        if let Some(pre) = &tokenizer.pre {
            text.push_str(&format!(" ({})", printable(pre, 80)));
        }
        let amounts = [(tokenizer.tokens, "tokens"), (tokenizer.merges, "merges")];
        for (amount, what) in amounts.iter().filter_map(|(a, w)| a.map(|a| (a, w))) {
            text.push_str(&format!(", {amount} {what}"));
        }
        if tokenizer.chat_template_bytes.is_some() {
            text.push_str(", chat template");
        }
        row("tokenizer", text);
        for special in tokenizer.special.iter().take(16) {
            let text = special.text.as_deref().map(|t| printable(t, 40)).unwrap_or_default();
            row("", format!("{} {} {text}", printable(&special.role, 40), special.id));
        }
    }
    let needs = &summary.memory;
    let mut text = format!("weights {}", size(needs.weights_bytes));
    if needs.weights_f16_bytes != needs.weights_bytes {
        text.push_str(&format!(" (as F16 {})", size(needs.weights_f16_bytes)));
    }
    if let Some(context) = &needs.context {
        let cache = size(context.cache_bytes);
        text.push_str(&format!(", cache of {} tokens {cache}", context.tokens));
    }
    row("memory", format!("{text}; working memory comes on top"));
    for device in devices {
        let fits = if device.fits { "fits" } else { "does not fit" };
        let [needed, free, total] =
            [device.needed_bytes, device.free_bytes, device.total_bytes].map(size);
        let at = &device.selector;
        row("", format!("{at} needs {needed}, {fits} ({free} free of {total})"));
        if let Some(over) = &device.over_limit {
            let (tensor, bytes) = (printable(&over.tensor, 80), size(over.bytes));
            let limit = size(over.limit_bytes);
            row("", format!("{at} binds {limit} at once, less than {tensor} ({bytes})"));
        }
    }
    table.trim_fmt()
}

fn metadata(weights: &Weights, full: bool) -> String {
    let mut table = table();
    let longest = if full { usize::MAX } else { 80 };
    for (key, value) in weights.metadata() {
        table.add_row([
            printable(key, 100),
            value.value_type().name().to_owned(),
            shown(value, longest),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!("\n\nmetadata\n{}", indented(&table.trim_fmt()))
}

fn shown(value: &Value, longest: usize) -> String {
    match value {
        Value::Array(array) if array.len() > 8 && longest != usize::MAX => {
            format!("{} × {}", array.len(), array.element().name())
        }
        Value::String(text) => printable(text, longest),
        other => {
            printable(&serde_json::to_string(other).unwrap_or_else(|e| e.to_string()), longest)
        }
    }
}

/// Most rows of the tree: no real model needs half of them, and a file may have millions.
const ROWS: usize = 1000;

/// Adds branches to the table, if all of them fit.
fn lines(branches: &[Branch], level: usize, depth: usize, table: &mut Table) -> bool {
    for branch in branches {
        if table.row_count() == ROWS {
            return false;
        }
        // A word with a single word under it is one line.
        let (mut name, mut branch) = (printable(&branch.name, 120), branch);
        while let ([only], None) = (&branch.branches[..], &branch.tensor) {
            name = format!("{name}.{}", printable(&only.name, 120));
            branch = only;
        }
        let what = match &branch.tensor {
            Some(leaf) => format!("{} {:?}", leaf.dtypes.join("/"), leaf.shape),
            None => String::new(),
        };
        let Amount { tensors, parameters, bytes } = branch.amount;
        let times = if tensors == 1 { String::new() } else { format!("×{tensors}") };
        table.add_row([
            format!("{}{name}", "  ".repeat(level)),
            times,
            count(parameters),
            size(bytes),
            what,
        ]);
        if level + 1 < depth && !lines(&branch.branches, level + 1, depth, table) {
            return false;
        }
    }
    true
}

fn all_tensors(weights: &Weights) -> String {
    let mut text = String::new();
    for tensor in weights.tensors() {
        let (name, offset) = (printable(tensor.name(), 400), tensor.offset());
        let scaled = if tensor.scale().is_some() { " scaled" } else { "" };
        text.push_str(&format!(
            "\n  {name}  {}{scaled} {:?}  {} at {offset}",
            tensor.dtype(),
            tensor.shape(),
            size(tensor.byte_len())
        ));
    }
    text
}

#[derive(Serialize)]
struct Json<'a> {
    summary: &'a Summary,
    devices: Vec<Forecast>,
    metadata: serde_json::Map<String, serde_json::Value>,
    tensors: Vec<JsonTensor<'a>>,
    tree: Vec<Branch>,
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    elements: u64,
    bytes: u64,
    file: String,
    offset: u64,
    contiguous: bool,
    scale: Option<&'a str>,
}

fn json(weights: &Weights, summary: &Summary, devices: Vec<Forecast>) -> anyhow::Result<String> {
    let tensor = |t: &'_ tintype::weights::Tensor| t.source().path().display().to_string();
    let tensors = weights.tensors().iter().map(|t| JsonTensor {
        name: t.name(),
        dtype: t.dtype().name(),
        shape: t.shape(),
        elements: t.elements(),
        bytes: t.byte_len(),
        file: tensor(t),
        offset: t.offset(),
        contiguous: t.is_contiguous(),
        scale: t.scale().map(|s| s.tensor.as_str()),
    });
    let mut metadata = serde_json::Map::new();
    for (key, value) in weights.metadata() {
        metadata.insert(key.clone(), serde_json::to_value(value)?);
    }
    let json =
        Json { summary, devices, metadata, tensors: tensors.collect(), tree: tree(weights, true) };
    Ok(serde_json::to_string_pretty(&json)?)
}
