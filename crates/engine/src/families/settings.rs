//! A file's settings, typed; what is missing is named. It must not know which model asks.

use crate::image::ImageError;
use crate::weights::Weights;

/// Settings under one prefix: `pixart.`.
pub(crate) struct Settings<'a> {
    weights: &'a Weights,
    prefix: &'static str,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(weights: &'a Weights, prefix: &'static str) -> Self {
        Settings { weights, prefix }
    }

    fn find<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a crate::weights::Value) -> Option<T>,
    ) -> Result<T, ImageError> {
        let key = format!("{}.{key}", self.prefix);
        let value = self.weights.value(&key).and_then(read);
        value.ok_or(ImageError::Setting { key, expected })
    }

    /// A size: at least 1, and no larger than a network could be.
    pub(crate) fn size(&self, key: &str) -> Result<usize, ImageError> {
        self.find(key, "a number from 1 to 1048576", |value| {
            let size = usize::try_from(value.as_u64()?).ok()?;
            (1..=1 << 20).contains(&size).then_some(size)
        })
    }

    pub(crate) fn number(&self, key: &str) -> Result<f64, ImageError> {
        self.find(key, "a finite number", |value| value.as_f64().filter(|x| x.is_finite()))
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, ImageError> {
        self.find(key, "a text", |value| value.as_str())
    }

    /// A short list of finite numbers.
    pub(crate) fn numbers(&self, key: &str) -> Result<Vec<f64>, ImageError> {
        self.find(key, "a list of at most 64 finite numbers", |value| {
            let array = value.as_array().filter(|array| array.len() <= 64)?;
            let number = |value: crate::weights::Value| {
                value.as_f64().or_else(|| value.as_u64().map(|whole| whole as f64))
            };
            array.iter().map(|v| v.ok().and_then(number).filter(|x| x.is_finite())).collect()
        })
    }

    /// A short list of counts, each at most 64.
    pub(crate) fn counts(&self, key: &str) -> Result<Vec<usize>, ImageError> {
        let counts = self.numbers(key)?;
        let whole = |x: &f64| x.fract() == 0.0 && (0.0..=64.0).contains(x);
        if counts.is_empty() || !counts.iter().all(whole) {
            let key = format!("{}.{key}", self.prefix);
            return Err(ImageError::Setting { key, expected: "a list of counts from 0 to 64" });
        }
        Ok(counts.into_iter().map(|x| x as usize).collect())
    }
}
