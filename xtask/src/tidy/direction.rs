//! The direction of dependencies: registry ← gpu ← tensor ← engine ← {capi, cli}. A crate may use
//! those to its left only, in tests too.

use cargo_metadata::Package;

use super::Finding;
use crate::workspace::Workspace;

/// Folders from left to right; those on one rung may not use each other.
const RUNGS: [&[&str]; 5] = [
    &["crates/registry"],
    &["crates/gpu"],
    &["crates/tensor"],
    &["crates/engine"],
    &["crates/capi", "crates/cli"],
];

/// Stands outside: may use every crate, and none may use it.
const TASKS: &str = "xtask";

/// A package, as far as this rule looks.
pub(super) struct Crate {
    pub(super) folder: String,
    pub(super) name: String,
    /// Names of packages it depends on, for whatever target and kind.
    pub(super) uses: Vec<String>,
}

impl Crate {
    pub(super) fn of(workspace: &Workspace, package: &Package) -> Self {
        Crate {
            folder: workspace.folder(package),
            name: package.name.to_string(),
            uses: package.dependencies.iter().map(|used| used.name.clone()).collect(),
        }
    }
}

/// Crates of the plan that do not exist.
pub(super) fn coming(crates: &[Crate]) -> Vec<&'static str> {
    let exists = |folder: &&&str| crates.iter().any(|one| one.folder == **folder);
    RUNGS.iter().flat_map(|rung| rung.iter()).filter(|folder| !exists(folder)).copied().collect()
}

pub(super) fn check(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = vec![];
    for user in crates {
        let manifest = format!("{}/Cargo.toml", user.folder);
        let Some(place) = rung(&user.folder) else {
            findings.push(Finding::error(
                &manifest,
                0,
                "this crate has no place in the direction of dependencies: give it one in \
                 xtask/src/tidy/direction.rs and in ARCHITECTURE.md",
            ));
            continue;
        };
        let used = crates.iter().filter(|one| user.uses.contains(&one.name));
        for (one, at) in used.filter_map(|one| rung(&one.folder).map(|at| (one, at))) {
            if at >= place {
                let message = format!(
                    "{} must not depend on {}: dependencies point left only \
                     (registry ← gpu ← tensor ← engine ← capi, cli)",
                    user.name, one.name
                );
                findings.push(Finding::error(&manifest, 0, message));
            }
        }
    }
    findings
}

fn rung(folder: &str) -> Option<usize> {
    if folder == TASKS {
        return Some(RUNGS.len());
    }
    RUNGS.iter().position(|rung| rung.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;
    use super::*;

    fn one(folder: &str, uses: &[&str]) -> Crate {
        let uses = uses.iter().map(|used| used.to_string()).collect();
        Crate { folder: folder.into(), name: folder.replace("crates/", "tintype-"), uses }
    }

    #[test]
    fn left_is_allowed_and_right_is_not() {
        let good = [
            one("crates/gpu", &["ash", "tintype-registry"]),
            one("crates/registry", &[]),
            one("crates/cli", &["tintype-gpu"]),
            one("xtask", &["tintype-gpu", "tintype-cli"]),
        ];
        assert!(check(&good).is_empty());
        let bad = [one("crates/gpu", &["tintype-tensor"]), one("crates/tensor", &[])];
        let told = told(check(&bad));
        assert!(told.len() == 1 && told[0].contains("tintype-gpu must not"), "{told:?}");
    }

    #[test]
    fn neighbours_and_tasks_are_not_used() {
        let neighbours = [one("crates/cli", &["tintype-capi"]), one("crates/capi", &[])];
        assert_eq!(check(&neighbours).len(), 1);
        assert_eq!(check(&[one("crates/cli", &["xtask"]), one("xtask", &[])]).len(), 1);
    }

    #[test]
    fn an_unplaced_crate_is_an_error_and_absent_ones_are_named() {
        let crates = [one("crates/extras", &[]), one("crates/gpu", &[])];
        assert!(told(check(&crates))[0].contains("no place"));
        assert!(!coming(&crates).contains(&"crates/gpu"));
        assert!(coming(&crates).contains(&"crates/engine"));
    }
}
