//! Names that users type: one list per kind, the near name suggested. It must not know what they mean.

use std::fmt;

/// A name that is not in its list. The message suggests the near one and lists what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What the name should have been: "sampler", "scheduler".
    pub kind: &'static str,
    /// What was typed.
    pub name: String,
    /// The nearest allowed name, if one is near.
    pub near: Option<&'static str>,
    /// Every allowed name.
    pub allowed: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = crate::weights::printable(&self.name, 40);
        write!(f, "no {} is called `{name}`", self.kind)?;
        if let Some(near) = self.near {
            write!(f, "; did you mean `{near}`?")?;
        }
        write!(f, " (allowed: {})", self.allowed.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// One row of a list of names: the value, its name, and what A1111 calls it.
pub(crate) type Named<T> = (T, &'static str, &'static str);

/// The value that `text` names, by name or by A1111's label, whatever the case.
pub(crate) fn find<T: Copy>(
    kind: &'static str,
    list: &[Named<T>],
    text: &str,
) -> Result<T, UnknownName> {
    let typed = text.trim();
    let is = |name: &str| name.eq_ignore_ascii_case(typed);
    if let Some((value, ..)) = list.iter().find(|(_, name, label)| is(name) || is(label)) {
        return Ok(*value);
    }
    let lower = typed.to_lowercase();
    let near = list
        .iter()
        .map(|(_, name, _)| (strsim::jaro_winkler(&lower, name), *name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.75);
    Err(UnknownName {
        kind,
        name: typed.into(),
        near: near.map(|(_, name)| name),
        allowed: list.iter().map(|(_, name, _)| *name).collect(),
    })
}
