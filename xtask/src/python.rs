//! `cargo xtask python`: the Python packages that judge weight files, in an environment of their
//! own outside the tree. It must not touch the user's Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;

use crate::fetch::cache;

/// Make the Python environment that the round trips of weight files need (about 5 GB, torch).
#[derive(Debug, Args)]
#[command(
    after_help = "Afterwards `cargo test -p tintype --test python` runs instead of skipping."
)]
pub(crate) struct Python {}

impl Python {
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/requirements.txt");
        let folder = cache()?.join("python-weights");
        let python = folder.join("bin/python");
        let done = folder.join("requirements.txt");
        let text = std::fs::read(&wanted)?;
        if python.exists() && std::fs::read(&done).is_ok_and(|there| there == text) {
            println!("{} is there", python.display());
            return Ok(true);
        }
        run("python3", &["-m".into(), "venv".into(), folder.clone()])?;
        let python = python.to_str().context("the cache's path is no text")?;
        let install = ["-m", "pip", "install", "--quiet", "-r"].map(PathBuf::from);
        run(python, &[&install[..], &[wanted]].concat())?;
        std::fs::write(done, text)?;
        println!("{python}");
        Ok(true)
    }
}

pub(crate) fn run(program: &str, arguments: &[PathBuf]) -> anyhow::Result<()> {
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed");
    Ok(())
}
