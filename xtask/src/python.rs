//! `cargo xtask python`: the Python packages that judge weight files, in an environment of their
//! own outside the tree. It must not touch the user's Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{find, run};
use crate::fetch::cache;

/// Make the Python environment that judges weight files: gguf, safetensors, numpy (about 100 MB).
#[derive(Debug, Args)]
#[command(after_help = "It prints the interpreter, which tests find in TINTYPE_PYTHON:\n  \
    TINTYPE_PYTHON=$(cargo xtask python) cargo test -p tintype --test python")]
pub(crate) struct Python {
    /// With torch too, for live round trips of torch.save (about 5 GB).
    #[arg(long)]
    torch: bool,
}

impl Python {
    pub(crate) fn run(self) -> Result<bool> {
        let kind = if self.torch { Kind::Torch } else { Kind::Small };
        match Environment::make(kind)? {
            Made::Whole(environment) => println!("{}", environment.python.display()),
            Made::Unreachable(why) => bail!("{why}"),
        }
        Ok(true)
    }
}

/// Which packages an environment has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// gguf, safetensors, numpy.
    Small,
    /// These and torch.
    Torch,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Kind::Small => "python-weights-small",
            Kind::Torch => "python-weights",
        }
    }

    fn requirements(self) -> PathBuf {
        let name = match self {
            Kind::Small => "requirements.txt",
            Kind::Torch => "requirements-torch.txt",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name)
    }
}

/// An environment that holds what its list asks for.
pub(crate) struct Environment {
    pub(crate) python: PathBuf,
}

/// What came of making an environment.
pub(crate) enum Made {
    Whole(Environment),
    /// There is no network, or no package index in it.
    Unreachable(String),
}

impl Environment {
    /// An environment that was made before, the larger one if both were.
    pub(crate) fn find() -> Option<Self> {
        [Kind::Torch, Kind::Small].into_iter().find_map(Self::whole)
    }

    /// It is whole, and the one that is wanted, when it holds the list that it was made from.
    fn whole(kind: Kind) -> Option<Self> {
        let folder = cache().ok()?.join(kind.folder());
        let list = std::fs::read(folder.join("requirements.txt")).ok()?;
        let python = folder.join("bin/python");
        (python.exists() && list == wanted(kind).ok()?).then_some(Self { python })
    }

    pub(crate) fn make(kind: Kind) -> Result<Made> {
        if let Some(there) = Self::whole(kind) {
            return Ok(Made::Whole(there));
        }
        let folder = cache()?.join(kind.folder());
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let environment = Self { python: folder.join("bin/python") };
        let mut pip = environment.pip();
        match install(pip.arg("-r").arg(kind.requirements()))? {
            Installed::Yes => {}
            Installed::Unreachable(why) => return Ok(Made::Unreachable(why)),
        }
        std::fs::write(folder.join("requirements.txt"), wanted(kind)?)?;
        Ok(Made::Whole(environment))
    }

    /// `pip install`, to be completed and handed to [`install`].
    pub(crate) fn pip(&self) -> Command {
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--retries", "2", "--timeout", "20"]).env("PIP_ROOT_USER_ACTION", "ignore");
        pip
    }
}

/// Both lists: the longer one names the shorter.
fn wanted(kind: Kind) -> Result<Vec<u8>> {
    let mut text = std::fs::read(kind.requirements())?;
    if matches!(kind, Kind::Torch) {
        text.extend(std::fs::read(Kind::Small.requirements())?);
    }
    Ok(text)
}

/// What came of an installation that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    Yes,
    Unreachable(String),
}

/// Runs pip. That no index is within reach is no failure of ours; everything else is.
pub(crate) fn install(pip: &mut Command) -> Result<Installed> {
    let out = pip.output().with_context(|| format!("cannot start {:?}", pip.get_program()))?;
    judge(out.status.success(), &String::from_utf8_lossy(&out.stderr))
}

fn judge(success: bool, said: &str) -> Result<Installed> {
    if success {
        return Ok(Installed::Yes);
    }
    // pip's own words and those of its HTTP library, the same since 2016.
    let signs = ["connection broken by", "ConnectionError", "ProxyError", "Read timed out"];
    if signs.iter().any(|sign| said.contains(sign)) {
        return Ok(Installed::Unreachable("the Python package index is out of reach".into()));
    }
    let last: Vec<&str> = said.lines().rev().take(3).collect();
    bail!("pip failed: {}", last.into_iter().rev().collect::<Vec<_>>().join(" · "))
}

/// Whether `python3` can make environments; Debian keeps that apart from Python itself.
pub(crate) fn can_make() -> bool {
    runs("import venv, ensurepip")
}

/// Whether the packages have a version for this `python3`.
pub(crate) fn is_new_enough() -> bool {
    runs("import sys; sys.exit(sys.version_info < (3, 10))")
}

fn runs(line: &str) -> bool {
    let mut python = Command::new("python3");
    find("python3").is_some()
        && python.args(["-c", line]).output().is_ok_and(|out| out.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_out_of_reach_is_told_from_a_wrong_pin() {
        assert_eq!(judge(true, "WARNING: whatever").unwrap(), Installed::Yes);
        let offline = "WARNING: Retrying (Retry(total=1)) after connection broken by \
            'NewConnectionError(...)': /simple/gguf/\nERROR: No matching distribution found";
        assert!(matches!(judge(false, offline).unwrap(), Installed::Unreachable(_)));
        let wrong = "ERROR: Could not find a version that satisfies the requirement gguf==9\n\
            ERROR: No matching distribution found for gguf==9";
        let error = judge(false, wrong).unwrap_err().to_string();
        assert!(error.contains("gguf==9"), "{error}");
    }
}
