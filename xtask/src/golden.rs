//! `cargo xtask golden`: writes the goldens of blocks anew, as PyTorch computes them. The environment
//! is that of `cargo xtask python`. It must not judge what it writes.

use std::path::Path;

use clap::Args;

use crate::fetch::cache;
use crate::python::{Python, run};

/// Write the goldens of model blocks anew, with the pinned PyTorch.
#[derive(Debug, Args)]
pub(crate) struct Golden {}

impl Golden {
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        if !(Python {}).run()? {
            return Ok(false);
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = root.join("python/block_goldens.py");
        let folder = root.join("../crates/tensor/tests/blocks/goldens");
        let python = cache()?.join("python-weights/bin/python");
        run(&python.to_string_lossy(), &[script, folder])?;
        Ok(true)
    }
}
