//! A file's settings, typed; what is missing is named, and so is what nobody asked for. It must not
//! know which model asks.

use std::cell::RefCell;

use crate::weights::Weights;

/// A setting of a model's file that is needed and missing, of another kind, or not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Needed and missing, or of another kind.
    #[error("the model's setting {key:?} is missing or not {expected}")]
    Expected {
        /// The metadata key.
        key: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// What this setting asks for would be left out, silently.
    #[error("the model's setting {key:?} is not known here; results without it would be wrong")]
    Unknown {
        /// The metadata key.
        key: String,
    },
}

/// Settings under one prefix: `pixart.`.
pub(crate) struct Settings<'a> {
    weights: &'a Weights,
    prefix: &'static str,
    asked: RefCell<Vec<String>>,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(weights: &'a Weights, prefix: &'static str) -> Self {
        Settings { weights, prefix, asked: RefCell::default() }
    }

    fn find<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a crate::weights::Value) -> Option<T>,
    ) -> Result<T, SettingError> {
        let key = format!("{}.{key}", self.prefix);
        let value = self.weights.value(&key).and_then(read);
        self.asked.borrow_mut().push(key.clone());
        value.ok_or(SettingError::Expected { key, expected })
    }

    /// A size: at least 1, and no larger than a network could be.
    pub(crate) fn size(&self, key: &str) -> Result<usize, SettingError> {
        self.find(key, "a number from 1 to 1048576", |value| {
            let size = usize::try_from(value.as_u64()?).ok()?;
            (1..=1 << 20).contains(&size).then_some(size)
        })
    }

    /// A size that the file may leave out.
    pub(crate) fn size_or(&self, key: &str, usual: usize) -> Result<usize, SettingError> {
        if self.has(key) { self.size(key) } else { Ok(usual) }
    }

    /// A number that the file may leave out.
    pub(crate) fn number_or(&self, key: &str, usual: f64) -> Result<f64, SettingError> {
        if self.has(key) { self.number(key) } else { Ok(usual) }
    }

    /// A text that the file may leave out.
    pub(crate) fn text_or(&self, key: &str, usual: &'a str) -> Result<&'a str, SettingError> {
        if self.has(key) { self.text(key) } else { Ok(usual) }
    }

    fn has(&self, key: &str) -> bool {
        let key = format!("{}.{key}", self.prefix);
        let there = self.weights.value(&key).is_some();
        self.asked.borrow_mut().push(key);
        there
    }

    /// Fails if the file has a setting under the prefix that was not asked for.
    pub(crate) fn nothing_else(&self) -> Result<(), SettingError> {
        let asked = self.asked.borrow();
        let own = |key: &str| key.strip_prefix(self.prefix).is_some_and(|k| k.starts_with('.'));
        let keys = self.weights.metadata().iter().map(|(key, _)| key);
        match keys.into_iter().find(|key| own(key) && !asked.contains(key)) {
            Some(key) => Err(SettingError::Unknown { key: key.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<f64, SettingError> {
        self.find(key, "a finite number", |value| value.as_f64().filter(|x| x.is_finite()))
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, SettingError> {
        self.find(key, "a text", |value| value.as_str())
    }

    /// A short list of finite numbers.
    pub(crate) fn numbers(&self, key: &str) -> Result<Vec<f64>, SettingError> {
        self.find(key, "a list of at most 64 finite numbers", |value| {
            let array = value.as_array().filter(|array| array.len() <= 64)?;
            let number = |value: crate::weights::Value| {
                value.as_f64().or_else(|| value.as_u64().map(|whole| whole as f64))
            };
            array.iter().map(|v| v.ok().and_then(number).filter(|x| x.is_finite())).collect()
        })
    }

    /// A short list of counts, each at most 64.
    pub(crate) fn counts(&self, key: &str) -> Result<Vec<usize>, SettingError> {
        let counts = self.numbers(key)?;
        let whole = |x: &f64| x.fract() == 0.0 && (0.0..=64.0).contains(x);
        if counts.is_empty() || !counts.iter().all(whole) {
            let key = format!("{}.{key}", self.prefix);
            return Err(SettingError::Expected { key, expected: "a list of counts from 0 to 64" });
        }
        Ok(counts.into_iter().map(|x| x as usize).collect())
    }
}
