//! Debian packages: installed for the system, or only fetched. It must not know what they are for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{find, output, run};

/// An apt that may be used.
pub(crate) struct Apt {
    /// `sudo -n` in front, where we are not root ourselves.
    sudo: bool,
}

impl Apt {
    /// Finds apt and the right to install; the error says in a few words what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        Self::exists()?;
        if output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0") {
            return Ok(Apt { sudo: false });
        }
        let quiet_sudo = output(Command::new("sudo").args(["-n", "true"])).is_ok();
        if quiet_sudo { Ok(Apt { sudo: true }) } else { Err("not root, and sudo asks".into()) }
    }

    /// Whether this is a system with apt at all.
    fn exists() -> Result<(), String> {
        if cfg!(not(target_os = "linux")) {
            return Err("not Linux".into());
        }
        find("apt-get").map(|_| ()).ok_or_else(|| "no apt-get".into())
    }

    fn as_root(&self, words: &[&str]) -> Command {
        let mut words = words.to_vec();
        if self.sudo {
            words.splice(0..0, ["sudo", "-n", "--preserve-env=DEBIAN_FRONTEND"]);
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Brings the package lists up to date.
    pub(crate) fn update(&self) -> Result<()> {
        run(&mut self.as_root(&["apt-get", "update", "-qq"]))
    }

    /// Installs packages for the whole system.
    pub(crate) fn install(&self, packages: &[&str]) -> Result<()> {
        self.update()?;
        let mut words = vec!["apt-get", "install", "-qq", "--yes", "--no-install-recommends"];
        words.extend(packages);
        run(&mut self.as_root(&words))
    }

    /// Puts the newest `.deb` files of `packages` into `folder`; installs nothing, needs no root.
    pub(crate) fn fetch(packages: &[String], folder: &Path) -> Result<()> {
        Self::exists().map_err(anyhow::Error::msg)?;
        // Fetched as ourselves: apt's own user cannot write into our folder.
        let words = ["download", "-qq", "-o", "APT::Sandbox::User=root"];
        run(Command::new("apt-get").args(words).args(packages).current_dir(folder))
    }

    /// The version that apt would install; `None` where its lists do not have the package.
    pub(crate) fn candidate(package: &str) -> Option<String> {
        let text = output(Command::new("apt-cache").args(["policy", package])).ok()?;
        let version = text.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
        (version != "(none)").then(|| version.to_string())
    }

    /// What a package directly depends on.
    pub(crate) fn depends(package: &str) -> Result<Vec<String>> {
        let text = output(Command::new("apt-cache").args(["depends", package]))?;
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_string).collect())
    }

    /// Whether a package is installed on this system.
    pub(crate) fn installed(package: &str) -> bool {
        output(Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]))
            .is_ok_and(|status| status.contains("ok installed"))
    }

    /// Unpacks a `.deb` file into a folder; installs nothing.
    pub(crate) fn unpack(file: &Path, folder: &Path) -> Result<()> {
        run(Command::new("dpkg-deb").arg("-x").arg(file).arg(folder))
            .with_context(|| format!("{} could not be unpacked", file.display()))
    }
}
