//! `cargo xtask bench`: figures beside a peer's or a floor, printed into docs/benchmarks.md between
//! markers. It must not judge figures: a benchmark is never a test.

mod device;
mod image;
mod page;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Measure, and keep the figures in docs/benchmarks.md.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

/// One variant a section of the page.
#[derive(Debug, Subcommand)]
enum What {
    Device(device::Device),
    Image(image::Image),
}

impl Bench {
    pub(crate) fn run(self) -> Result<bool> {
        match self.what {
            What::Device(device) => device.run()?,
            What::Image(image) => image.run()?,
        }
        Ok(true)
    }
}
