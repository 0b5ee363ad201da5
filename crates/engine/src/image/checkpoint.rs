//! A generation between two steps as bytes, and from bytes on, bit for bit. It must not know when a
//! host keeps one.
//!
//! Layout, little-endian: `ttimage1`, the header's length as u32, the header as JSON, then the first
//! picture's pixels, the mask's pixels and the sampling, as long as the header says.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::ImageError;
use super::picture::Picture;
use super::request::{ImageRequest, Settled};
use crate::sampling::Sampling;
use crate::weights::Weights;

const MAGIC: &[u8; 8] = b"ttimage1";
/// Longest header: two prompts, escaped, and room for the rest.
const LONGEST_HEADER: usize = 1 << 20;
/// Largest file that is read: pictures and latents at their bounds are smaller.
const LARGEST_FILE: u64 = 8 << 30;

/// A generation after a step, as an [`super::Observer`] is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint<'a> {
    pub(super) request: &'a ImageRequest,
    pub(super) settled: Settled,
    pub(super) fingerprint: u64,
    pub(super) picture: usize,
    pub(super) sampling: &'a Sampling,
}

impl Checkpoint<'_> {
    /// Which picture of the request, from 0.
    pub fn picture(&self) -> usize {
        self.picture
    }

    /// Steps done.
    pub fn done(&self) -> usize {
        self.sampling.done()
    }

    /// Steps in all.
    pub fn steps(&self) -> usize {
        self.sampling.steps()
    }

    /// All that is needed to go on; pictures that are finished are not in it.
    pub fn save(&self) -> Vec<u8> {
        let request = self.request;
        let pixels = |picture: &Option<Picture>| picture.as_ref().map(|p| (p.width(), p.height()));
        let sampling = self.sampling.save();
        let header = Header {
            fingerprint: self.fingerprint,
            picture: self.picture,
            prompt: request.prompt.clone(),
            negative: request.negative.clone(),
            steps: self.settled.steps,
            guidance_bits: self.settled.guidance.to_bits(),
            seed: request.seed,
            batch: request.batch,
            sampler: request.sampler.name().into(),
            scheduler: request.scheduler.name().into(),
            source: request.source.name().into(),
            strength_bits: request.strength.map(f32::to_bits),
            init: pixels(&request.init),
            mask: pixels(&request.mask),
            sampling: sampling.len(),
        };
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header);
        for picture in [&request.init, &request.mask].into_iter().flatten() {
            bytes.extend_from_slice(picture.rgb());
        }
        bytes.extend(sampling);
        bytes
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    fingerprint: u64,
    picture: usize,
    prompt: String,
    negative: String,
    steps: usize,
    guidance_bits: u32,
    seed: u64,
    batch: usize,
    sampler: String,
    scheduler: String,
    source: String,
    strength_bits: Option<u32>,
    init: Option<(usize, usize)>,
    mask: Option<(usize, usize)>,
    sampling: usize,
}

/// A generation that was saved, for [`super::ImageModel::resume`].
#[derive(Debug, Clone)]
pub struct SavedGeneration {
    pub(super) request: ImageRequest,
    pub(super) fingerprint: u64,
    pub(super) resumed: Resumed,
}

/// Where a generation goes on.
#[derive(Debug, Clone)]
pub(super) struct Resumed {
    pub(super) picture: usize,
    pub(super) sampling: Sampling,
}

impl SavedGeneration {
    /// What a file holds that [`Checkpoint::save`] made.
    ///
    /// # Errors
    /// A file that cannot be read, and those of [`SavedGeneration::from_bytes`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = path.as_ref();
        let bad = |reason: String| ImageError::Checkpoint(format!("{}: {reason}", path.display()));
        let length = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.len();
        if length > LARGEST_FILE {
            return Err(bad(format!("{length} bytes are too many")));
        }
        let bytes = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        Self::from_bytes(&bytes).map_err(|error| match error {
            ImageError::Checkpoint(reason) => bad(reason),
            error => error,
        })
    }

    /// What [`Checkpoint::save`] wrote.
    ///
    /// # Errors
    /// [`ImageError::Checkpoint`]: bytes that are no checkpoint, cut off, or of a generation that
    /// cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImageError> {
        let bad = |reason: &str| ImageError::Checkpoint(reason.into());
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it does not begin as one"))?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(|| bad("it is cut off"))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST_HEADER {
            return Err(bad("its header is too long"));
        }
        let (header, mut rest) =
            rest.split_at_checked(length).ok_or_else(|| bad("it is cut off"))?;
        let header: Header = serde_json::from_slice(header)
            .map_err(|error| bad(&format!("its header is damaged ({error})")))?;
        let mut picture = |size: Option<(usize, usize)>| {
            let Some((width, height)) = size else { return Ok(None) };
            let length = width.checked_mul(height).and_then(|n| n.checked_mul(3));
            let split = length.and_then(|length| rest.split_at_checked(length));
            let (rgb, after) = split.ok_or_else(|| bad("it is cut off"))?;
            rest = after;
            Picture::new(width, height, rgb.to_vec()).map(Some).map_err(|e| bad(&e.to_string()))
        };
        let (init, mask) = (picture(header.init)?, picture(header.mask)?);
        if rest.len() != header.sampling {
            return Err(bad("it is cut off, or something follows its end"));
        }
        let sampling = Sampling::restore(rest)?;
        let unknown = |name: crate::sampling::UnknownName| bad(&name.to_string());
        if header.picture >= header.batch {
            return Err(bad("its picture is not one of its request"));
        }
        let request = ImageRequest {
            prompt: header.prompt,
            negative: header.negative,
            steps: Some(header.steps),
            guidance: Some(f32::from_bits(header.guidance_bits)),
            seed: header.seed,
            batch: header.batch,
            size: None,
            sampler: header.sampler.parse().map_err(unknown)?,
            scheduler: header.scheduler.parse().map_err(unknown)?,
            source: header.source.parse().map_err(unknown)?,
            init,
            strength: header.strength_bits.map(f32::from_bits),
            mask,
        };
        let resumed = Resumed { picture: header.picture, sampling };
        Ok(SavedGeneration { request, fingerprint: header.fingerprint, resumed })
    }

    /// What was asked for.
    pub fn request(&self) -> &ImageRequest {
        &self.request
    }

    /// Which picture of the request is on its way, from 0; those before it are finished.
    pub fn picture(&self) -> usize {
        self.resumed.picture
    }

    /// Steps of it that are done.
    pub fn done(&self) -> usize {
        self.resumed.sampling.done()
    }

    /// Steps of it in all.
    pub fn steps(&self) -> usize {
        self.resumed.sampling.steps()
    }
}

/// Tells models apart by names, types, shapes and samples of the numbers of their tensors (FNV-1a).
pub(super) fn fingerprint(weights: &Weights) -> u64 {
    const SAMPLE: usize = 64;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for tensor in weights.tensors() {
        add(tensor.name().as_bytes());
        add(tensor.dtype().name().as_bytes());
        tensor.shape().iter().for_each(|extent| add(&extent.to_le_bytes()));
        if tensor.is_contiguous()
            && let Ok(bytes) = tensor.bytes()
        {
            for from in [0, bytes.len() / 2] {
                add(&bytes[from..(from + SAMPLE).min(bytes.len())]);
            }
        }
    }
    hash
}
