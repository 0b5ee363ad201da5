//! A file's tensors on a device, each uploaded once, however many graphs use it. It must not know
//! what they are for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tintype_gpu::{DType, Device};
use tintype_tensor::{Error, Result, Tensor};

use crate::weights::{self, Weights};

/// Parameters by checkpoint name.
pub(crate) struct Parameters<'a> {
    weights: &'a Weights,
    device: Device,
    made: Made,
}

/// What was uploaded, by name and whether quantized blocks were kept; shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made(Arc<Mutex<HashMap<(String, bool), Tensor>>>);

impl<'a> Parameters<'a> {
    pub(crate) fn new(weights: &'a Weights, device: &Device) -> Self {
        Self::sharing(weights, device, &Made::default())
    }

    /// Uploads nothing that is among `made`.
    pub(crate) fn sharing(weights: &'a Weights, device: &Device, made: &Made) -> Self {
        Parameters { weights, device: device.clone(), made: made.clone() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.weights.get(name).is_some()
    }

    /// As stored, where operations take it so; else as F32.
    pub(crate) fn matrix(&self, name: &str) -> Result<Tensor> {
        self.get(name, true)
    }

    /// As numbers: F16 and BF16 as stored, all else as F32.
    pub(crate) fn dense(&self, name: &str) -> Result<Tensor> {
        self.get(name, false)
    }

    pub(crate) fn constant(&self, name: &str, shape: &[usize], data: &[f32]) -> Result<Tensor> {
        Tensor::of(&self.device.buffer_from(shape, data)?.named(name))
    }

    fn get(&self, name: &str, blocks: bool) -> Result<Tensor> {
        let key = (name.to_owned(), blocks);
        let mut made = self.made.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = made.get(&key) {
            return Ok(tensor.clone());
        }
        let tensor = self.upload(name, blocks)?;
        made.insert(key, tensor.clone());
        Ok(tensor)
    }

    fn upload(&self, name: &str, blocks: bool) -> Result<Tensor> {
        let refuse = |reason: String| Error::Graph { node: format!("weight {name}"), reason };
        let unreadable = |error: weights::WeightError| refuse(error.to_string());
        let found = self.weights.require(name).map_err(unreadable)?;
        let shape: Option<Vec<usize>> =
            found.shape().iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let shape = shape.ok_or_else(|| refuse("its shape is beyond this machine".into()))?;
        let plain = matches!(found.dtype(), DType::F32 | DType::F16 | DType::Bf16);
        let kept = plain || (blocks && BLOCKS.contains(&found.dtype()));
        let buffer = match kept && found.scale().is_none() {
            true => {
                let bytes = found.bytes().map_err(unreadable)?;
                let in_place = self.device.info().limits.threads > 0
                    && matches!(bytes, Cow::Borrowed(_))
                    && bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
                match found.host().filter(|_| in_place) {
                    Some(host) => self.device.import(found.dtype(), &shape, host)?,
                    None => self.device.buffer_from_bytes(found.dtype(), &shape, &bytes)?,
                }
            }
            false => self.device.buffer_from(&shape, &found.to_f32().map_err(unreadable)?)?,
        };
        Tensor::of(&buffer.named(name))
    }
}

/// Where a tensor must begin for the CPU to read it from the file: as GGUF aligns them.
const ALIGNMENT: usize = 32;

/// Block types that products and tables take as they are.
const BLOCKS: [DType; 11] = [
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::Q2K,
    DType::Q3K,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
    DType::Iq4Nl,
];
