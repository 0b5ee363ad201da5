//! Reading a written file back and comparing it with its source. It must not write.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use super::super::error::{Reason, Result, WeightError};
use super::super::map::Access;
use super::super::tensor::{CHUNK, Tensor};
use super::super::{OpenOptions, Weights};
use super::plan::{Item, Plan};
use super::write::{Phase, Progress, Watch, copied_blocks, go_on};
use crate::DType;
use crate::quant;

/// How one converted tensor compares with its source.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name.
    pub tensor: String,
    /// Its type in the source.
    pub from: DType,
    /// Its type in the new file.
    pub to: DType,
    /// ‖new − old‖ / ‖old‖ over all values, in double precision; 0 for a tensor of zeros.
    pub relative_error: f64,
}

/// Compares the file at `written` with its plan, its source and the hashes of what was written.
pub(super) fn verify(
    written: &Path,
    plan: &Plan<'_>,
    hashes: &[u64],
    file: &Path,
    watch: Watch<'_>,
) -> Result<Vec<Check>> {
    let failed = |what: String| WeightError::new(file, Reason::Verify(what));
    // The file is ours alone until it gets its name, so mapping it is safe.
    let options = OpenOptions { access: Access::Map, variant: None };
    let new = Weights::open_with(written, &options).map_err(|e| failed(e.reason.to_string()))?;
    let all = || new.tensors().iter().chain(new.scale_tensors());
    if all().count() != plan.items.len() {
        return Err(failed(format!("{} tensors, not {}", all().count(), plan.items.len())));
    }
    let by_name: std::collections::HashMap<&str, &Tensor> = all().map(|t| (t.name(), t)).collect();
    let total = plan.items.iter().map(Item::byte_len).sum();
    let (mut done, mut checks) = (0, Vec::new());
    for (item, hash) in plan.items.iter().zip(hashes) {
        let name = item.tensor.name();
        let wrong = |what: &str| WeightError::tensor(file, name, Reason::Verify(what.to_owned()));
        let tensor = by_name.get(name).ok_or_else(|| wrong("it is missing"))?;
        if tensor.dtype() != item.dtype || tensor.shape() != item.tensor.shape() {
            return Err(wrong("its type or shape is another"));
        }
        let bytes = tensor.bytes()?;
        let mut hasher = DefaultHasher::new();
        // In the pieces that were written, since hashing depends on them.
        bytes.chunks(piece(item)).for_each(|part| hasher.write(part));
        if hasher.finish() != *hash {
            return Err(wrong("its bytes are not those that were written"));
        }
        if !item.is_copy() {
            let relative_error = error(item, &bytes)?;
            if relative_error >= 1.0 || relative_error.is_nan() {
                return Err(wrong("its values are further from the source than zeros are"));
            }
            let (tensor, from) = (name.to_owned(), item.tensor.dtype());
            checks.push(Check { tensor, from, to: item.dtype, relative_error });
        }
        done += item.byte_len();
        go_on(watch(Progress { phase: Phase::Verifying, tensor: name, done, total }), file)?;
    }
    Ok(checks)
}

/// Bytes that [`super::write`] writes at a time.
fn piece(item: &Item<'_>) -> usize {
    if item.is_copy() {
        return copied_blocks(item.dtype) * item.dtype.block_bytes() as usize;
    }
    CHUNK / item.dtype.block_elements() as usize * item.dtype.block_bytes() as usize
}

fn error(item: &Item<'_>, bytes: &[u8]) -> Result<f64> {
    let (block, width) = (item.dtype.block_elements(), item.dtype.block_bytes());
    let (mut difference, mut norm) = (0f64, 0f64);
    let mut new = Vec::new();
    item.tensor.for_each_chunk(CHUNK, |first, old| {
        let start = (first / block * width) as usize;
        let length = (old.len() as u64 / block * width) as usize;
        new.resize(old.len(), 0.0);
        quant::decode(item.dtype, &bytes[start..][..length], &mut new)
            .map_err(|e| item.tensor.fail(e))?;
        for (old, new) in old.iter().zip(&new) {
            difference += (f64::from(*new) - f64::from(*old)).powi(2);
            norm += f64::from(*old).powi(2);
        }
        Ok(())
    })?;
    Ok(if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::{Recipe, Target, convert, plan};
    use super::*;
    use crate::weights::Source;

    #[test]
    fn bytes_that_were_not_written_are_noticed() {
        let header = r#"{"w":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend((0..32).flat_map(|v| (v as f32).to_le_bytes()));
        let weights = Weights::from_source(Source::from_vec("w", bytes)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("w.gguf");
        let recipe = Recipe { dtype: Some(DType::Q8_0), ..Recipe::default() };
        let plan = plan(&weights, Target::Gguf, &recipe, &to).unwrap();
        let mut watch = |_: Progress<'_>| ControlFlow::Continue(());
        convert(&weights, &plan, &recipe, &to, &mut watch).unwrap();
        let mut hasher = DefaultHasher::new();
        hasher.write(&Weights::open(&to).unwrap().get("w").unwrap().bytes().unwrap());
        let right = [hasher.finish()];
        let checks = verify(&to, &plan, &right, &to, &mut watch).unwrap();
        assert!(checks[0].relative_error > 0.0 && checks[0].relative_error < 0.01);
        let error = verify(&to, &plan, &[right[0] ^ 1], &to, &mut watch).unwrap_err();
        assert!(matches!(error.reason, Reason::Verify(_)), "{error}");
        assert_eq!(error.tensor.as_deref(), Some("w"));
        // A file whose one block lost its scale: the values, not the hash, tell.
        let mut damaged = std::fs::read(&to).unwrap();
        let start = damaged.len() - 64;
        damaged[start..start + 2].copy_from_slice(&half::f16::from_f32(-9.0).to_le_bytes());
        std::fs::write(&to, damaged).unwrap();
        let mut hasher = DefaultHasher::new();
        hasher.write(&Weights::open(&to).unwrap().get("w").unwrap().bytes().unwrap());
        let error = verify(&to, &plan, &[hasher.finish()], &to, &mut watch).unwrap_err();
        assert!(error.to_string().contains("further from the source"), "{error}");
    }
}
