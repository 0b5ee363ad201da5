//! Eight-bit RGB pictures in memory. It must not know file formats.

use super::error::ImageError;

/// Most pixels along an axis.
pub(super) const LARGEST: usize = 1 << 15;

/// RGB, 8 bits, rows from the top, no padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Picture {
    /// A picture of `rgb`, three bytes a pixel.
    ///
    /// # Errors
    /// No pixels, more than 32 768 along an axis, or another number of bytes.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Self, ImageError> {
        let sane = |extent| (1..=LARGEST).contains(&extent);
        if !sane(width) || !sane(height) || rgb.len() != width * height * 3 {
            let reason = format!(
                "{} bytes for {width}×{height} pixels; three a pixel are needed, and 1 to {LARGEST} \
                 pixels along an axis",
                rgb.len()
            );
            return Err(ImageError::request("picture", reason));
        }
        Ok(Picture { width, height, rgb })
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The bytes, three a pixel.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The bytes, given away.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }

    /// `[3, height, width]`, 0 to 1.
    pub(super) fn planes(&self) -> Vec<f32> {
        let plane = |channel| self.rgb.iter().skip(channel).step_by(3);
        (0..3).flat_map(|channel| plane(channel).map(|&byte| f32::from(byte) / 255.0)).collect()
    }

    /// Of `[3, height, width]`, clamped to 0…1 and rounded.
    pub(super) fn from_planes(
        width: usize,
        height: usize,
        planes: &[f32],
    ) -> Result<Self, ImageError> {
        let pixels = width * height;
        let byte = |x: f32| (x.clamp(0.0, 1.0) * 255.0).round() as u8;
        let rgb = (0..pixels)
            .flat_map(|at| (0..3).map(move |channel| at + channel * pixels))
            .filter_map(|at| planes.get(at).map(|&x| byte(x)));
        Self::new(width, height, rgb.collect())
    }

    /// This picture where `mask` is black, `other` where it is white, between them in between; the
    /// mask is its red channel. All three have one size.
    pub(super) fn blended(mut self, other: &Picture, mask: &Picture) -> Self {
        let masks = mask.rgb.chunks_exact(3).flat_map(|pixel| [u32::from(pixel[0]); 3]);
        for ((x, &y), mask) in self.rgb.iter_mut().zip(&other.rgb).zip(masks) {
            *x = ((u32::from(*x) * (255 - mask) + u32::from(y) * mask + 127) / 255) as u8;
        }
        self
    }
}
