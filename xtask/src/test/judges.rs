//! What tests hold weight files against: Python's own packages, and real models. It must not know what
//! the tests do with them.

use std::path::PathBuf;

use anyhow::Result;

use super::runner::Suite;
use crate::fetch::{Fetched, Model, fetch, fetched};
use crate::python::{self, Environment, Kind, Made};
use crate::steps::{Outcome, Steps};

/// The judges that are there.
#[derive(Default)]
pub(super) struct Judges {
    python: Option<PathBuf>,
    gemma3: Option<PathBuf>,
}

impl Judges {
    /// Finds the judges, and makes or fetches what may be. What stays missing is named.
    pub(super) fn gather(
        &mut self,
        steps: &mut Steps,
        install: bool,
        real: bool,
    ) -> Result<Outcome> {
        let mut notes = Vec::new();
        match python(install)? {
            Ok(python) => {
                notes.push("Python's packages".to_string());
                self.python = Some(python);
            }
            Err(why) => steps.skip(format!("round trips with Python's packages: {why}")),
        }
        self.gemma3 = fetched(Model::Gemma3);
        if real {
            match fetch(Model::Gemma3)? {
                Fetched::Whole(path) => self.gemma3 = Some(path),
                Fetched::Unreachable(why) => steps.skip(format!("the real Gemma 3 270M: {why}")),
            }
        }
        if self.gemma3.is_some() {
            notes.push("the real Gemma 3 270M".to_string());
        }
        if notes.is_empty() {
            return Ok(Outcome::Skipped("none is there".into()));
        }
        Ok(Outcome::Passed(notes.join(", ")))
    }

    /// Tells tests where the judges are; from then on they may not be skipped.
    pub(super) fn promise(&self, suite: &mut Suite<'_>) {
        if let Some(python) = &self.python {
            suite.set("TINTYPE_PYTHON", python.display().to_string());
            suite.set("TINTYPE_TEST_PYTHON", "required".into());
        }
        if let Some(gemma3) = &self.gemma3 {
            suite.set("TINTYPE_TEST_GEMMA3", gemma3.display().to_string());
        }
    }
}

/// An interpreter that has the packages, or why there is none.
fn python(install: bool) -> Result<Result<PathBuf, String>> {
    if let Some(there) = Environment::find() {
        return Ok(Ok(there.python));
    }
    if !install {
        return Ok(Err("--no-setup was given, and `cargo xtask python` was not run".into()));
    }
    if !python::can_make() {
        return Ok(Err("no Python with venv".into()));
    }
    if !python::is_new_enough() {
        return Ok(Err("Python is older than 3.10".into()));
    }
    Ok(match Environment::make(Kind::Small)? {
        Made::Whole(environment) => Ok(environment.python),
        Made::Unreachable(why) => Err(why),
    })
}
