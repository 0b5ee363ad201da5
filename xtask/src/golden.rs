//! `cargo xtask golden`: writes the goldens of blocks anew, as PyTorch computes them. The environment
//! is that of `cargo xtask python --torch`. It must not judge what it writes.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::command::run;
use crate::python::{Environment, Kind, Made};

/// Write the goldens of model blocks anew, with the pinned PyTorch.
#[derive(Debug, Args)]
pub(crate) struct Golden {}

impl Golden {
    pub(crate) fn run(self) -> Result<bool> {
        let python = match Environment::make(Kind::Torch)? {
            Made::Whole(environment) => environment.python,
            Made::Unreachable(why) => bail!("{why}"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = root.join("python/block_goldens.py");
        let folder = root.join("../crates/tensor/tests/blocks/goldens");
        run(Command::new(python).arg(script).arg(folder))?;
        Ok(true)
    }
}
