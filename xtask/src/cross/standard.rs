//! The standard library for targets that no package carries: built from the compiler's own sources,
//! as metadata where types are enough, as code where something is linked; kept beside the compiler.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::compiler::Compiler;
use crate::command::{cargo, run};
use crate::steps::Outcome;

/// In the library folder of a target once it is whole; the text says what is in there.
const MARK: &str = "built";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `.rmeta` files: enough to check.
    Types,
    /// `.rlib` files too: enough to link.
    Code,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Types => "types",
            Kind::Code => "code",
        }
    }
}

/// Builds what is not there yet; `linked` needs code, the others types.
pub(super) fn build(
    compiler: &Compiler,
    targets: &[String],
    linked: Option<&str>,
) -> Result<Outcome> {
    let wanted = |target: &str| if Some(target) == linked { Kind::Code } else { Kind::Types };
    let missing = |kind: Kind| -> Vec<&String> {
        let lacks = |target: &&String| !is_there(&compiler.libraries(target), kind);
        targets.iter().filter(|target| wanted(target) == kind).filter(lacks).collect()
    };
    let (types, code) = (missing(Kind::Types), missing(Kind::Code));
    if types.is_empty() && code.is_empty() {
        return Ok(Outcome::Passed("in the cache".into()));
    }
    let outputs = compiler.scratch()?;
    // One cargo for all targets of a kind keeps every core busy.
    for (kind, targets) in [(Kind::Types, &types), (Kind::Code, &code)] {
        if targets.is_empty() {
            continue;
        }
        compile(compiler, kind, targets, outputs.path())?;
        for target in targets {
            keep(compiler, kind, target, outputs.path())?;
        }
    }
    let names: Vec<&str> = types.into_iter().chain(code).map(String::as_str).collect();
    Ok(Outcome::Passed(format!("built for {}", names.join(", "))))
}

fn is_there(folder: &Path, kind: Kind) -> bool {
    // Code serves for types as well.
    std::fs::read_to_string(folder.join(MARK))
        .is_ok_and(|text| text == kind.name() || text == Kind::Code.name())
}

fn compile(compiler: &Compiler, kind: Kind, targets: &[&String], outputs: &Path) -> Result<()> {
    let mut command = cargo();
    command.current_dir(compiler.library_sources());
    match kind {
        Kind::Types => command.arg("check"),
        // Not the shared library, which would ask for a linker.
        Kind::Code => command.args(["rustc", "--crate-type", "rlib"]),
    };
    command.args(["--quiet", "--release", "-p", "std", "--features", "panic-unwind"]);
    command.args(targets.iter().flat_map(|target| ["--target", target]));
    compiler.drive(&mut command, outputs);
    command
        // The library's sources use what only nightly compilers allow.
        .env("RUSTC_BOOTSTRAP", "1")
        // As the compiler's own build does it: whatever is not marked stable stays internal.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Zforce-unstable-if-unmarked")
        // Nothing of it runs, so nothing is gained by a fast one.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    run(&mut command).context("the standard library does not build")
}

/// Moves the outputs of one target to where the compiler looks for them.
fn keep(compiler: &Compiler, kind: Kind, target: &str, outputs: &Path) -> Result<()> {
    let folder = compiler.libraries(target);
    // An unfinished or smaller one from before.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let built = outputs.join(target).join("release").join("deps");
    let extension = if kind == Kind::Code { "rlib" } else { "rmeta" };
    let mut kept = 0;
    for entry in std::fs::read_dir(&built).with_context(|| format!("{}", built.display()))? {
        let path: PathBuf = entry?.path();
        let (Some(name), true) =
            (path.file_name(), path.extension().is_some_and(|e| e == extension))
        else {
            continue;
        };
        std::fs::copy(&path, folder.join(name)).with_context(|| format!("{}", path.display()))?;
        kept += 1;
    }
    anyhow::ensure!(kept > 0, "no .{extension} files in {}", built.display());
    std::fs::write(folder.join(MARK), kind.name()).context("the mark could not be written")
}
