//! `cargo xtask golden`: writes goldens anew, as PyTorch and SentencePiece compute them. The environment
//! is that of `cargo xtask python --torch`. It must not judge what it writes.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::command::run;
use crate::python::{Environment, Kind, Made};

/// Each script, and the folder of its goldens.
const SCRIPTS: [(&str, &str); 3] = [
    ("block_goldens.py", "crates/tensor/tests/blocks/goldens"),
    ("tokenizer_goldens.py", "crates/engine/tests/data/tokenizer"),
    ("pocket_goldens.py", "crates/engine/tests/data"),
];

/// Write the goldens of model blocks, tokenizers and pictures anew, with the pinned PyTorch and SentencePiece.
#[derive(Debug, Args)]
pub(crate) struct Golden {}

impl Golden {
    pub(crate) fn run(self) -> Result<bool> {
        let python = match Environment::make(Kind::Torch)? {
            Made::Whole(environment) => environment.python,
            Made::Unreachable(why) => bail!("{why}"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (script, folder) in SCRIPTS {
            let (script, folder) = (root.join("python").join(script), root.join("..").join(folder));
            run(Command::new(&python).arg(script).arg(folder))?;
        }
        Ok(true)
    }
}
