//! The repository as cargo sees it: root, packages, target folder. It must not know any task.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cargo_metadata::{MetadataCommand, Package, TargetKind};

/// The workspace this program was built in.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Build outputs; everything under it may be thrown away.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo; needs no network.
    pub(crate) fn load() -> Result<Self> {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .no_deps()
            .exec()
            .context("cargo metadata failed")?;
        Ok(Workspace {
            root: metadata.workspace_root.into(),
            target: metadata.target_directory.into(),
            packages: metadata.packages,
        })
    }

    /// The folder of a package, relative to the root, with `/` between names.
    pub(crate) fn folder(&self, package: &Package) -> String {
        let folder = package.manifest_path.parent().map(|p| p.as_std_path());
        let inside = folder.and_then(|folder| folder.strip_prefix(&self.root).ok());
        inside.map(|path| path.to_string_lossy().replace('\\', "/")).unwrap_or_default()
    }

    /// Names of the packages that have a library.
    pub(crate) fn libraries(&self) -> Vec<&str> {
        let has_library = |package: &&Package| {
            package.targets.iter().any(|target| {
                target.kind.iter().any(|kind| {
                    matches!(kind, TargetKind::Lib | TargetKind::RLib | TargetKind::CDyLib)
                })
            })
        };
        self.packages.iter().filter(has_library).map(|package| package.name.as_str()).collect()
    }

    /// Whether a package of this name is a member.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.name.as_str() == name)
    }
}
