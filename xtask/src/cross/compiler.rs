//! A Rust compiler with the sources of its standard library: Debian's packages, unpacked into a cache
//! folder outside the tree, one folder a version. It is installed nowhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::output;
use crate::setup::Apt;

/// The compiler, LLVM's linker, the tool that makes Windows import libraries.
const PACKAGES: [&str; 6] = [
    "rustc-web",
    "libstd-rust-web-dev",
    "rust-web-src",
    "libllvm22",
    "lld-22",
    "binutils-mingw-w64-x86-64",
];
/// Libraries that LLVM opens, fetched where the system lacks them.
const RUNTIME: [&str; 6] = ["libz3-4", "libedit2", "libxml2", "libicu72", "libbsd0", "libmd0"];

/// Part of the cache key; to be raised when the layout of the cache changes.
const LAYOUT: u32 = 1;

/// An unpacked compiler that runs.
pub(super) struct Compiler {
    /// The folder that stands for `/`.
    root: PathBuf,
    version: String,
}

impl Compiler {
    /// Finds the compiler in the cache or fetches it. The inner error says why this machine cannot
    /// have it; the outer one that fetching went wrong.
    pub(super) fn find() -> Result<Result<Self, String>> {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Ok(Err("only on x86-64 Linux".into()));
        }
        let Some(cache) = cache_folder() else {
            return Ok(Err("neither XDG_CACHE_HOME nor HOME names a folder for the cache".into()));
        };
        let known = || Apt::candidate(PACKAGES[0]);
        let version = match (known(), Apt::find()) {
            (Some(version), _) => version,
            (None, Err(why)) => {
                let package = PACKAGES[0];
                return Ok(Err(format!("no Debian package {package} here ({why})")));
            }
            (None, Ok(apt)) => {
                apt.update()?;
                match known() {
                    Some(version) => version,
                    None => return Ok(Err(format!("this system has no package {}", PACKAGES[0]))),
                }
            }
        };
        let key: String =
            version.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let root = cache.join(format!("{key}-{LAYOUT}"));
        if !root.exists() {
            fetch(&cache, &root)?;
        }
        let compiler = Compiler { root, version };
        // Starts only if every shared library is found.
        let mut rustc = Command::new(compiler.rustc());
        output(rustc.arg("-vV").env("LD_LIBRARY_PATH", compiler.shared()))
            .with_context(|| format!("remove {} to fetch it anew", compiler.root.display()))?;
        Ok(Ok(compiler))
    }

    pub(super) fn described(&self) -> String {
        format!("Debian's rustc {} in {}", self.version, self.root.display())
    }

    fn rustc(&self) -> PathBuf {
        self.root.join("usr/bin/rustc")
    }

    fn shared(&self) -> PathBuf {
        self.root.join("usr/lib/x86_64-linux-gnu")
    }

    /// LLVM's linker for Mach-O.
    pub(super) fn macho_linker(&self) -> PathBuf {
        self.root.join("usr/lib/llvm-22/bin/ld64.lld")
    }

    /// Where the standard library of a target belongs.
    pub(super) fn libraries(&self, target: &str) -> PathBuf {
        self.root.join("usr/lib/rustlib").join(target).join("lib")
    }

    /// The workspace of the standard library's sources.
    pub(super) fn library_sources(&self) -> PathBuf {
        self.root.join("usr/lib/rustlib/src/rust/library")
    }

    /// A folder beside the compiler for short-lived files, on the same disk.
    pub(super) fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::tempdir_in(&self.root).context("no temporary folder in the cache")
    }

    /// Lets a cargo command use this compiler, with its outputs under `target`.
    pub(super) fn drive(&self, command: &mut Command, target: &Path) {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":");
        path.push(self.root.join("usr/bin"));
        // Debian's compiler must not be wrapped or flagged as the machine's own is; what cargo sets
        // for us, its child, would not fit either.
        for name in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        command
            .env("RUSTC", self.rustc())
            .env("LD_LIBRARY_PATH", self.shared())
            .env("PATH", path)
            .env("CARGO_ENCODED_RUSTFLAGS", "")
            .env("CARGO_TARGET_DIR", target)
            // Checked once or twice: nothing is gained by incremental files.
            .env("CARGO_INCREMENTAL", "0");
    }
}

/// `$XDG_CACHE_HOME/tintype/cross`, or the same under `~/.cache`.
fn cache_folder() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("tintype").join("cross"))
}

/// Fetches and unpacks into a folder that takes its name only when whole.
fn fetch(cache: &Path, root: &Path) -> Result<()> {
    std::fs::create_dir_all(cache).with_context(|| format!("{}", cache.display()))?;
    let work = tempfile::tempdir_in(cache)?;
    let (debs, unpacked) = (work.path().join("debs"), work.path().join("root"));
    std::fs::create_dir(&debs)?;
    std::fs::create_dir(&unpacked)?;

    let mut packages: Vec<String> = PACKAGES.map(str::to_string).to_vec();
    packages.push(library_package(&Apt::depends("libstd-rust-web-dev")?)?);
    packages.extend(RUNTIME.iter().filter(|name| !Apt::installed(name)).map(|n| n.to_string()));
    Apt::fetch(&packages, &debs)?;
    for entry in std::fs::read_dir(&debs)? {
        Apt::unpack(&entry?.path(), &unpacked)?;
    }
    match std::fs::rename(&unpacked, root) {
        Ok(()) => Ok(()),
        // Another run was faster; its folder is as good.
        Err(_) if root.exists() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{}", root.display())),
    }
}

/// The versioned package of the compiler's own libraries.
fn library_package(depends: &[String]) -> Result<String> {
    match depends.iter().find(|name| name.starts_with("libstd-rust-web-")) {
        Some(name) => Ok(name.clone()),
        None => bail!("libstd-rust-web-dev depends on no libstd-rust-web-…, but on {depends:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versioned_library_package_is_found() {
        let depends = ["libc6", "libstd-rust-web-1.96"].map(str::to_string);
        assert_eq!(library_package(&depends).unwrap(), "libstd-rust-web-1.96");
        assert!(library_package(&depends[..1]).is_err());
    }
}
