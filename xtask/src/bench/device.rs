//! `cargo xtask bench device`: what a GPU does with our promises and kernels.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::page;
use crate::command::{cargo, output};

/// Ordering faults, the price of barriers, streaming and matrix rates, clean exits, on TINTYPE_DEVICE.
#[derive(Debug, Args)]
pub(crate) struct Device {
    /// Keep what `cargo bench -p tintype-tensor --bench device` printed on another machine.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

impl Device {
    pub(super) fn run(self) -> Result<()> {
        let text = match &self.from {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| path.display().to_string())?
            }
            None => {
                let bench = ["bench", "-q", "-p", "tintype-tensor", "--bench", "device"];
                output(cargo().args(bench))?
            }
        };
        ensure!(text.starts_with("Device: "), "this is not what the benchmark prints");
        page::keep("device", &text)
    }
}
