//! `cargo xtask golden`: writes goldens anew, as PyTorch, SentencePiece and llama.cpp compute them. The
//! environment is that of `cargo xtask python --torch`. It must not judge what it writes.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::command::run;
use crate::fetch::{Fetched, Model, fetch};
use crate::python::{Environment, Kind, Made};

/// Each script, and the folder of its goldens.
const SCRIPTS: [(&str, &str); 5] = [
    ("block_goldens.py", "crates/tensor/tests/blocks/goldens"),
    ("tokenizer_goldens.py", "crates/engine/tests/data/tokenizer"),
    ("text_goldens.py", "crates/engine/tests/data/text"),
    ("text_reference_goldens.py", "crates/engine/tests/data/text"),
    ("pocket_goldens.py", "crates/engine/tests/data"),
];

/// Write the goldens of model blocks, tokenizers, texts and pictures anew, with the pinned PyTorch,
/// SentencePiece and llama.cpp, and the real Gemma 3 270M (253 MB).
#[derive(Debug, Args)]
pub(crate) struct Golden {}

impl Golden {
    pub(crate) fn run(self) -> Result<bool> {
        let python = match Environment::make(Kind::Torch)? {
            Made::Whole(environment) => environment.python,
            Made::Unreachable(why) => bail!("{why}"),
        };
        let gemma3 = match fetch(Model::Gemma3)? {
            Fetched::Whole(path) => path,
            Fetched::Unreachable(why) => bail!("{why}"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (script, folder) in SCRIPTS {
            let (script, folder) = (root.join("python").join(script), root.join("..").join(folder));
            let mut python = Command::new(&python);
            run(python.arg(script).arg(folder).env("TINTYPE_TEST_GEMMA3", &gemma3))?;
        }
        Ok(true)
    }
}
