//! Rules about manifests: every dependency is named once, in the root manifest, under the reason
//! why it is not our own code.

use toml::{Table, Value};

use super::{File, Finding};

const SHARED: &str = "[workspace.dependencies]";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let manifests = files.iter().filter(|file| is_manifest(&file.path));
    manifests
        .flat_map(|file| {
            let shared = reasons(&file.path, &file.text);
            shared.into_iter().chain(members(&file.path, &file.text))
        })
        .collect()
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
}

/// In `[workspace.dependencies]` a comment stands above each dependency; dependencies that follow
/// each other without a blank line share it. Crates of this workspace need none.
fn reasons(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = vec![];
    let lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != SHARED).skip(1);
    let (mut reason, mut open) = (false, 0_i32);
    for (number, line) in lines.take_while(|(_, line)| !line.starts_with('[')) {
        let balance = balance(line);
        if open > 0 {
            open += balance;
        } else if line.trim().is_empty() {
            reason = false;
        } else if let Some(comment) = line.trim().strip_prefix('#') {
            reason = comment.chars().any(char::is_alphabetic);
        } else {
            open += balance;
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            if !reason && !line.contains("path =") {
                let message = format!("`{name}` needs a comment above it: why not our own code?");
                findings.push(Finding::error(path, number + 1, message));
            }
        }
    }
    findings
}

/// Brackets and braces opened less closed.
fn balance(line: &str) -> i32 {
    line.chars().map(|c| i32::from("[{".contains(c)) - i32::from("]}".contains(c))).sum()
}

/// Members take every dependency from the workspace.
fn members(path: &str, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::error(path, 0, format!("not TOML: {error}"))],
    };
    // A workspace of its own, apart from this one, cannot take anything from it.
    if path != "Cargo.toml" && manifest.contains_key("workspace") {
        return vec![];
    }
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = std::iter::once(&manifest)
        .chain(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let used = tables
        .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flatten();
    used.filter(|(_, how)| how.get("workspace").and_then(Value::as_bool) != Some(true))
        .map(|(name, _)| {
            let message = format!(
                "`{name}` must come from the workspace: `{name}.workspace = true`, with version and \
                 reason in the root Cargo.toml"
            );
            Finding::error(path, 0, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, told};
    use super::*;

    #[test]
    fn shared_dependencies_have_reasons() {
        let text = "[workspace]\n[workspace.dependencies]\nours = { path = \"crates/ours\" }\n\
            # Numbers.\na = \"1\"\nb = { version = \"1\", features = [\n  \"x\",\n] }\n\nc = \"1\"\n\
            #\nd = \"1\"\n[workspace.lints.rust]\ne = \"warn\"\n";
        let told = told(check(&[file("Cargo.toml", text)]));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("Cargo.toml:10") && told[0].contains("`c`"), "{told:?}");
        assert!(told[1].contains("`d`"), "{told:?}");
    }

    #[test]
    fn members_name_no_versions() {
        let good =
            "[dependencies]\na.workspace = true\nb = { workspace = true, optional = true }\n";
        assert!(check(&[file("crates/x/Cargo.toml", good)]).is_empty());
        for bad in [
            "[dependencies]\na = \"1\"\n",
            "[dev-dependencies]\na = { version = \"1\" }\n",
            "[target.'cfg(unix)'.dependencies]\na = { path = \"../a\" }\n",
        ] {
            let told = told(check(&[file("crates/x/Cargo.toml", bad)]));
            assert!(told.len() == 1 && told[0].contains("a.workspace = true"), "{told:?}");
        }
        let apart = "[workspace]\n[dependencies]\na = \"1\"\n";
        assert!(check(&[file("fuzz/Cargo.toml", apart)]).is_empty());
        assert!(told(check(&[file("Cargo.toml", "=")]))[0].contains("not TOML"));
    }
}
