//! Breaks each rule of the registry on purpose and sees that a check notices: rule → check → caught.
//! Owns the copying, breaking and running; the list is `crates/registry/mutations.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// A check that takes longer than this hangs, and a hang is noticed.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// One way to break the crate. Texts match whatever their line breaks and indentation.
#[derive(Default)]
struct Mutation {
    rule: String,
    breaks: String,
    check: String,
    /// (file, from, to)
    edits: Vec<(String, String, String)>,
}

fn parse(list: &str) -> Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    let mut current = Mutation::default();
    for line in list.lines().chain([""]) {
        if line.is_empty() {
            if !current.rule.is_empty() {
                ensure!(!current.edits.is_empty() && !current.check.is_empty(), "{}", current.breaks);
                mutations.push(std::mem::take(&mut current));
            }
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once(": ").with_context(|| format!("no key in: {line}"))?;
        let value = value.to_owned();
        let last = current.edits.last_mut();
        match (key, last) {
            ("rule", _) => current.rule = value,
            ("breaks", _) => current.breaks = value,
            ("check", _) => current.check = value,
            ("file", _) => current.edits.push((value, String::new(), String::new())),
            ("from", Some(edit)) => edit.1 = value,
            ("to", Some(edit)) => edit.2 = value,
            ("with", _) => {
                let parts: Vec<_> = value.splitn(3, " | ").map(str::to_owned).collect();
                let [file, from, to] = <[String; 3]>::try_from(parts)
                    .map_err(|_| anyhow::anyhow!("`with` takes file | from | to: {line}"))?;
                current.edits.push((file, from, to));
            }
            _ => bail!("unknown key: {line}"),
        }
    }
    Ok(mutations)
}

/// The one place where `from` stands in `text`, words compared, spacing ignored.
fn locate(text: &str, from: &str) -> Result<(usize, usize)> {
    let words: Vec<_> = from.split_whitespace().collect();
    let first = *words.first().context("an empty text to replace")?;
    let ends = text.match_indices(first).filter_map(|(start, _)| {
        let mut at = start;
        for (number, word) in words.iter().enumerate() {
            let rest = &text[at..];
            let spaces = rest.len() - rest.trim_start().len();
            if number > 0 && spaces == 0 || !rest.trim_start().starts_with(word) {
                return None;
            }
            at += spaces + word.len();
        }
        Some((start, at))
    });
    let places: Vec<_> = ends.collect();
    match places[..] {
        [place] => Ok(place),
        _ => bail!("{} places instead of one for: {from}", places.len()),
    }
}

/// A workspace of the registry alone, so that a change builds nothing else.
struct Workspace {
    source: PathBuf,
    copy: PathBuf,
}

impl Workspace {
    fn new(root: &Path) -> Result<Self> {
        let copy = root.join("target/mutate");
        let source = root.join("crates/registry");
        fs::create_dir_all(&copy)?;
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let only_registry = manifest.lines().filter(|line| !line.starts_with("default-members"));
        let only_registry = only_registry.map(|line| match line.starts_with("members =") {
            true => "members = [\"crates/registry\"]",
            false => line,
        });
        fs::write(copy.join("Cargo.toml"), only_registry.collect::<Vec<_>>().join("\n"))?;
        fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
        Ok(Self { source, copy })
    }

    /// Puts the unbroken crate into the copy; files that are the same keep their age.
    fn restore(&self) -> Result<()> {
        copy_tree(&self.source, &self.copy.join("crates/registry"))
    }

    fn apply(&self, mutation: &Mutation) -> Result<()> {
        for (file, from, to) in &mutation.edits {
            let path = self.copy.join("crates/registry/src").join(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let (start, end) = locate(&text, from).with_context(|| mutation.breaks.clone())?;
            fs::write(&path, format!("{}{to}{}", &text[..start], &text[end..]))?;
        }
        Ok(())
    }

    fn cargo(&self, verb: &str, target: &str, args: &[&str]) -> Result<Child> {
        let mut cargo = Command::new("cargo");
        cargo.args([verb, "--quiet", "-p", "tintype-registry"]).args(args).current_dir(&self.copy);
        cargo.env("CARGO_TARGET_DIR", self.copy.join("target").join(target));
        cargo.env("RUST_BACKTRACE", "0").env_remove("RUSTFLAGS");
        if target == "loom" {
            cargo.env("RUSTFLAGS", "--cfg loom");
        }
        cargo.stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut cargo, 0);
        cargo.spawn().context("cargo does not start")
    }

    /// Whether the check passes. A crate that does not build is an error, not a failed check.
    fn passes(&self, check: &str) -> Result<bool> {
        let (target, filter) = check.split_once(' ').unwrap_or((check, ""));
        let tests: &[&str] = match target {
            "lib" => &["--lib"],
            "loom" => &["--test", "loom"],
            "exits" => &["--test", "exits"],
            _ => bail!("unknown check: {check}"),
        };
        let mut builds = vec![("test", [tests, &["--no-run"]].concat())];
        if target == "exits" {
            // The copies of the library that it loads.
            builds.push(("build", vec!["--examples"]));
        }
        for (verb, args) in builds {
            let built = self.cargo(verb, target, &args)?.wait()?;
            ensure!(built.success(), "it does not build: cd {} and see", self.copy.display());
        }
        let mut running = self.cargo("test", target, &[tests, &["--", filter]].concat())?;
        let begun = Instant::now();
        loop {
            if let Some(status) = running.try_wait()? {
                return Ok(status.success());
            }
            if begun.elapsed() > HANGS_AFTER {
                // With the tests that it started: the whole group that it leads.
                let group = format!("-{}", running.id());
                Command::new("kill").args(["-KILL", "--", &group]).status()?;
                running.wait()?;
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &target)?;
        } else if fs::read(&target).ok() != Some(fs::read(&source)?) {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Prints the table rule → check → caught for the mutations whose rule, change or check contains
/// `filter`, and fails if one was not caught.
pub(crate) fn mutate(root: &Path, filter: &str) -> Result<()> {
    let list = fs::read_to_string(root.join("crates/registry/mutations.txt"))?;
    let mut mutations = parse(&list)?;
    mutations.retain(|it| [&it.rule, &it.breaks, &it.check].iter().any(|text| text.contains(filter)));
    let workspace = Workspace::new(root)?;
    workspace.restore()?;
    let mut checks: Vec<_> = mutations.iter().map(|mutation| mutation.check.as_str()).collect();
    checks.sort_unstable();
    checks.dedup();
    for check in checks {
        ensure!(workspace.passes(check)?, "`{check}` fails on the unbroken crate");
    }
    println!("| rule | broken so | check | caught |");
    println!("|---|---|---|---|");
    let mut missed = 0;
    for mutation in &mutations {
        workspace.restore()?;
        workspace.apply(mutation)?;
        let caught = !workspace.passes(&mutation.check).with_context(|| mutation.breaks.clone())?;
        missed += usize::from(!caught);
        let verdict = if caught { "yes" } else { "NO" };
        println!("| {} | {} | {} | {verdict} |", mutation.rule, mutation.breaks, mutation.check);
    }
    workspace.restore()?;
    ensure!(missed == 0, "{missed} of {} mutations were not caught", mutations.len());
    println!("\n{} mutations, each caught", mutations.len());
    Ok(())
}
