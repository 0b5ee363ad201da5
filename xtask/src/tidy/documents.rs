//! Rules about documents: those that a reader expects exist, the map of the code names every crate
//! and none that is gone, and relative links lead somewhere.

use std::path::{Component, Path};

use pulldown_cmark::{Event, Parser, Tag};

use super::{File, Finding};

/// What every reader may rely on.
const EXPECTED: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "docs/rejected.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

const MAP: &str = "ARCHITECTURE.md";

/// Marks a line of the map whose crate is planned.
const COMING: &str = "(coming)";

/// `exists` tells whether a path from the root is there.
pub(super) fn check(
    files: &[File],
    crates: &[&str],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = EXPECTED
        .iter()
        .filter(|path| !exists(path))
        .map(|path| Finding::error(path, 0, "this file must exist"))
        .collect();
    if let Some(map) = files.iter().find(|file| file.path == MAP) {
        findings.extend(check_map(&map.text, crates));
    }
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        findings.extend(links(file, exists));
    }
    findings
}

/// The map is every table row whose first cell is a folder in backquotes.
fn check_map(text: &str, crates: &[&str]) -> Vec<Finding> {
    let rows: Vec<(usize, &str, &str)> = text
        .lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let folder = line.trim().strip_prefix("| `")?.split('`').next()?;
            (folder == "xtask" || folder.starts_with("crates/")).then_some((
                number + 1,
                folder,
                line,
            ))
        })
        .collect();
    let unnamed = crates.iter().filter(|folder| !rows.iter().any(|(_, named, _)| named == *folder));
    let mut findings: Vec<Finding> = unnamed
        .map(|folder| Finding::error(MAP, 0, format!("the code map has no row for `{folder}`")))
        .collect();
    for (number, folder, line) in rows {
        let (there, coming) = (crates.contains(&folder), line.contains(COMING));
        let message = match (there, coming) {
            (true, true) => format!("`{folder}` exists: take `{COMING}` off its row"),
            (false, false) => format!("`{folder}` does not exist: mark its row `{COMING}`"),
            _ => continue,
        };
        findings.push(Finding::error(MAP, number, message));
    }
    findings
}

/// Relative links, pictures included, name files of this repository.
fn links(file: &File, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = vec![];
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        let (Event::Start(Tag::Link { dest_url, .. }) | Event::Start(Tag::Image { dest_url, .. })) =
            event
        else {
            continue;
        };
        let target = dest_url.split('#').next().unwrap_or_default();
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        if target.is_empty() || elsewhere {
            continue;
        }
        let found = inside(folder, target).is_some_and(|path| exists(&path));
        if !found {
            let line = 1 + file.text[..range.start].matches('\n').count();
            let message = format!("the link to `{target}` leads nowhere in this repository");
            findings.push(Finding::error(&file.path, line, message));
        }
    }
    findings
}

/// The path from the root, or `None` where the link leaves the repository.
fn inside(folder: &Path, target: &str) -> Option<String> {
    let mut parts: Vec<String> = vec![];
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, told};
    use super::*;

    #[test]
    fn expected_documents_exist() {
        let told = told(check(&[], &[], &|path| path != "CHANGELOG.md"));
        assert_eq!(told, ["error: CHANGELOG.md: this file must exist"]);
    }

    #[test]
    fn the_map_names_what_is_there() {
        let map = "| crate | owns |\n|---|---|\n| `crates/gpu` | devices |\n\
            | `crates/engine` (coming) | models |\n";
        assert!(check_map(map, &["crates/gpu"]).is_empty());
        let missing = told(check_map(map, &["crates/gpu", "xtask"]));
        assert!(missing[0].contains("no row for `xtask`"), "{missing:?}");
        let gone = told(check_map(map, &[]));
        assert!(
            gone[0].contains("ARCHITECTURE.md:3") && gone[0].contains("does not exist"),
            "{gone:?}"
        );
        let came = told(check_map(map, &["crates/gpu", "crates/engine"]));
        assert!(came[0].contains("take `(coming)` off"), "{came:?}");
    }

    #[test]
    fn relative_links_lead_somewhere() {
        let text = "[a](b.md) [w](https://x.y/z) [h](#here) [m](mailto:a@b.c)\n\n\
            `[code](no.md)` and [up](../README.md#top)\n\n[gone](gone.md)\n\n[out](../../etc)\n\n\
            ![p](p.png)\n";
        let there = ["docs/b.md", "README.md"];
        let told = told(links(&file("docs/a.md", text), &|path| there.contains(&path)));
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("docs/a.md:5") && told[0].contains("`gone.md`"), "{told:?}");
        assert!(told[1].contains("`../../etc`") && told[2].contains("p.png"), "{told:?}");
    }
}
