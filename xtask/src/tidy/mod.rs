//! `cargo xtask tidy`: rules of this repository that no compiler knows. Every rule is a function
//! from text to findings, tested without files; this file gathers and prints. It changes nothing.

mod direction;
mod documents;
mod manifests;
mod sources;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::steps::Outcome;
use crate::workspace::Workspace;

/// Checks module docs, dependency direction, file sizes, unsafe code, documents and their links.
#[derive(Debug, Args)]
pub(crate) struct Tidy {}

impl Tidy {
    /// True if nothing is wrong.
    pub(crate) fn run(self) -> Result<bool> {
        match check(&Workspace::load()?) {
            Ok(Outcome::Passed(seen) | Outcome::Skipped(seen)) => println!("tidy: {seen}"),
            Err(error) => {
                eprintln!("tidy: {error:#}");
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Something that a rule found.
#[derive(Debug)]
pub(crate) struct Finding {
    /// A warning is printed and passes.
    fatal: bool,
    /// Path from the root, with `/`.
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { fatal: true, path: path.into(), line, message: message.into() }
    }

    fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { fatal: false, ..Self::error(path, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.fatal { "error" } else { "warning" };
        write!(f, "{kind}: {}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A file of the repository.
pub(crate) struct File {
    path: String,
    text: String,
}

/// Applies every rule; an error if any finding is fatal.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let files = files(&workspace.root)?;
    let crates: Vec<direction::Crate> =
        workspace.packages.iter().map(|package| direction::Crate::of(workspace, package)).collect();
    let mut findings = vec![];
    for file in &files {
        findings.extend(sources::check(&file.path, &file.text));
    }
    findings.extend(sources::check_unsafe(&files));
    findings.extend(direction::check(&crates));
    findings.extend(manifests::check(&files));
    let folders: Vec<&str> = crates.iter().map(|one| one.folder.as_str()).collect();
    findings.extend(documents::check(&files, &folders, &|path| workspace.root.join(path).exists()));

    for finding in &findings {
        eprintln!("{finding}");
    }
    let fatal = findings.iter().filter(|finding| finding.fatal).count();
    let warnings = findings.len() - fatal;
    let coming = direction::coming(&crates).join(", ");
    let seen = format!(
        "{} files and {} crates seen; {warnings} warnings{}",
        files.len(),
        crates.len(),
        if coming.is_empty() { String::new() } else { format!("; not there yet: {coming}") }
    );
    if fatal > 0 {
        bail!("{fatal} errors; {seen}");
    }
    Ok(Outcome::Passed(seen))
}

/// Kinds of files that rules read.
const READ: [&str; 5] = ["rs", "wgsl", "py", "md", "toml"];

/// Every file of a kind that rules read and git does not ignore.
fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = vec![];
    // Hidden folders hold CI and cargo settings; git's own is no part of the tree.
    let mut walk = ignore::WalkBuilder::new(root);
    walk.hidden(false).require_git(false).parents(false).git_global(false).git_exclude(false);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    for entry in walk.build() {
        let entry = entry.context("the repository could not be walked")?;
        let path = entry.path();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if !READ.contains(&kind) || !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} is not readable as UTF-8 text", path.display()))?;
        let inside = path.strip_prefix(root).context("a file outside the root")?;
        files.push(File { path: inside.to_string_lossy().replace('\\', "/"), text });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of findings, for the tests of all rules.
    pub(super) fn told(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn ignored_files_and_other_kinds_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".gitignore", "/target\n");
        write("target/a.rs", "");
        write("src/b.rs", "x");
        write("src/picture.png", "");
        write(".config/c.toml", "");
        let found = files(folder.path()).unwrap();
        let paths: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".config/c.toml", "src/b.rs"]);
    }
}
