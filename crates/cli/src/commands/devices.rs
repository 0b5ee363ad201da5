//! `tintype devices`: what this machine can compute on, for people and for programs.

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tintype_gpu::{DeviceInfo, Listing, Selector, list};

use crate::show::{print, size};

/// List the devices that models can run on.
///
/// The first line is the device that is used unless another is chosen. Choose one for any command
/// with the variable TINTYPE_DEVICE: a backend ("cpu", "vulkan"), one device of it ("vulkan:1"),
/// or part of a name ("radeon").
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tintype devices\n  tintype devices --json | jq '.devices[].name'\n  TINTYPE_DEVICE=cpu tintype devices"
)]
pub(crate) struct Devices {
    /// Print JSON: every device with its memory, limits and features.
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let listing = list();
        let chosen = choose(&listing)?;
        let text = if self.json { json(&listing, chosen)? } else { table(&listing, chosen) };
        print(&text)
    }
}

/// Which of the listed devices commands use as things stand.
fn choose(listing: &Listing) -> anyhow::Result<usize> {
    Ok(Selector::from_env()?.choose(listing)?)
}

fn table(listing: &Listing, chosen: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["", "DEVICE", "NAME", "KIND", "FREE / TOTAL", "FEATURES"]);
    for (at, info) in listing.devices.iter().enumerate() {
        let memory = format!("{} / {}", size(info.memory.free), size(info.memory.total));
        table.add_row([
            if at == chosen { "*" } else { "" }.to_owned(),
            info.selector(),
            info.name.clone(),
            info.kind.name().to_owned(),
            memory,
            info.features.names().join(", "),
        ]);
    }
    let mut text = table.trim_fmt();
    for (backend, reason) in &listing.unavailable {
        text.push_str(&format!(
            "\n  {backend}: {}",
            reason.trim_start_matches(&format!("{backend} is "))
        ));
    }
    text
}

#[derive(Serialize)]
struct Json<'a> {
    devices: Vec<JsonDevice<'a>>,
    unavailable: Vec<JsonUnavailable<'a>>,
}

#[derive(Serialize)]
struct JsonDevice<'a> {
    selector: String,
    chosen: bool,
    backend: &'a str,
    index: usize,
    name: &'a str,
    kind: &'a str,
    driver: &'a str,
    memory_total_bytes: u64,
    memory_free_bytes: u64,
    max_binding_bytes: u64,
    max_allocation_bytes: u64,
    max_bindings: u32,
    max_immediate_bytes: u32,
    max_groups: [u32; 3],
    max_group_size: [u32; 3],
    max_group_threads: u32,
    max_group_memory_bytes: u32,
    binding_alignment_bytes: u64,
    subgroup_size: [u32; 2],
    threads: u32,
    features: Vec<&'static str>,
    cooperative_matrix_shapes: Vec<[u32; 3]>,
}

#[derive(Serialize)]
struct JsonUnavailable<'a> {
    backend: &'a str,
    reason: &'a str,
}

fn json(listing: &Listing, chosen: usize) -> anyhow::Result<String> {
    let json = Json {
        devices: listing
            .devices
            .iter()
            .enumerate()
            .map(|(at, info)| json_device(info, at == chosen))
            .collect(),
        unavailable: listing
            .unavailable
            .iter()
            .map(|(backend, reason)| JsonUnavailable { backend: backend.name(), reason })
            .collect(),
    };
    Ok(serde_json::to_string_pretty(&json)?)
}

fn json_device(info: &DeviceInfo, chosen: bool) -> JsonDevice<'_> {
    let limits = &info.limits;
    JsonDevice {
        selector: info.selector(),
        chosen,
        backend: info.backend.name(),
        index: info.index,
        name: &info.name,
        kind: info.kind.name(),
        driver: &info.driver,
        memory_total_bytes: info.memory.total,
        memory_free_bytes: info.memory.free,
        max_binding_bytes: limits.max_binding_bytes,
        max_allocation_bytes: limits.max_allocation_bytes,
        max_bindings: limits.max_bindings,
        max_immediate_bytes: limits.max_immediate_bytes,
        max_groups: limits.max_groups,
        max_group_size: limits.max_group_size,
        max_group_threads: limits.max_group_threads,
        max_group_memory_bytes: limits.max_group_memory,
        binding_alignment_bytes: limits.binding_alignment,
        subgroup_size: [limits.subgroup_size.0, limits.subgroup_size.1],
        threads: limits.threads,
        features: info.features.names(),
        cooperative_matrix_shapes: info.features.coop_f16.iter().map(|s| [s.m, s.n, s.k]).collect(),
    }
}
