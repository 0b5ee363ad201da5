//! Pictures as files: PNG out, with the parameters as text that other tools read; PNG, JPEG and WebP
//! in. It must not know models.

use std::io::{Cursor, Write};
use std::path::Path;

use image::{ImageReader, Limits};

use super::picture::{LARGEST, Picture};

/// Most memory that reading a picture takes.
const MOST_BYTES: u64 = 512 << 20;
/// Largest picture file that is read.
const LARGEST_FILE: u64 = 256 << 20;
/// The keyword under which A1111's web UI and its successors look for parameters.
const KEYWORD: &str = "parameters";

/// A picture file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The file system refused.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Bytes that are no picture of a known format, or a damaged or huge one.
    #[error(
        "{path}: {reason}; PNG, JPEG and WebP pictures of at most {LARGEST} pixels a side are read"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// PNG could not be written.
    #[error("writing PNG: {0}")]
    Png(String),
}

impl Picture {
    /// A picture file; what is transparent is shown on white.
    ///
    /// # Errors
    /// A file that cannot be read, is no picture, is damaged, or larger than its bounds.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PictureError> {
        let path = path.as_ref();
        let io = |error| PictureError::Io { path: path.display().to_string(), error };
        let length = std::fs::metadata(path).map_err(io)?.len();
        if length > LARGEST_FILE {
            let reason = format!("{length} bytes are more than {LARGEST_FILE}");
            return Err(PictureError::Unreadable { path: path.display().to_string(), reason });
        }
        Self::decode(&path.display().to_string(), &std::fs::read(path).map_err(io)?)
    }

    /// A picture file's bytes; `name` stands for a path in errors.
    ///
    /// # Errors
    /// As [`Picture::read`].
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, PictureError> {
        let unreadable = |reason: String| PictureError::Unreadable { path: name.into(), reason };
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
        let mut reader = reader.map_err(|error| unreadable(error.to_string()))?;
        let mut limits = Limits::default();
        limits.max_image_width = Some(LARGEST as u32);
        limits.max_image_height = Some(LARGEST as u32);
        limits.max_alloc = Some(MOST_BYTES);
        reader.limits(limits);
        let read = reader.decode().map_err(|error| unreadable(error.to_string()))?;
        let read = read.into_rgba8();
        let (width, height) = (read.width() as usize, read.height() as usize);
        let on_white = |[r, g, b, a]: [u8; 4]| {
            let a = u32::from(a);
            [r, g, b].map(|x| ((u32::from(x) * a + 255 * (255 - a) + 127) / 255) as u8)
        };
        let rgb = read.pixels().flat_map(|pixel| on_white(pixel.0)).collect();
        Picture::new(width, height, rgb).map_err(|error| unreadable(error.to_string()))
    }

    /// Cut at the centre to the shape of `width` × `height`, then resized to it (Lanczos).
    pub fn fitted(&self, width: usize, height: usize) -> Self {
        if (self.width(), self.height()) == (width, height) || width * height == 0 {
            return self.clone();
        }
        let (w, h) = (self.width() as u64, self.height() as u64);
        let (wanted_w, wanted_h) = (width as u64, height as u64);
        let (cut_w, cut_h) = match w * wanted_h > h * wanted_w {
            true => ((h * wanted_w / wanted_h).max(1), h),
            false => (w, (w * wanted_h / wanted_w).max(1)),
        };
        let (left, top) = ((w - cut_w) / 2, (h - cut_h) / 2);
        let whole = image::RgbImage::from_raw(w as u32, h as u32, self.rgb().to_vec());
        let Some(whole) = whole else { return self.clone() };
        let cut =
            image::imageops::crop_imm(&whole, left as u32, top as u32, cut_w as u32, cut_h as u32)
                .to_image();
        let filter = image::imageops::FilterType::Lanczos3;
        let resized = image::imageops::resize(&cut, width as u32, height as u32, filter);
        Picture::new(width, height, resized.into_raw()).unwrap_or_else(|_| self.clone())
    }

    /// PNG bytes. `parameters` go in as text under that keyword: Latin-1 where it suffices, else UTF-8.
    ///
    /// # Errors
    /// Text that PNG cannot carry.
    pub fn to_png(&self, parameters: Option<&str>) -> Result<Vec<u8>, PictureError> {
        let failed = |error: png::EncodingError| PictureError::Png(error.to_string());
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width() as u32, self.height() as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        if let Some(text) = parameters {
            // A zero byte would end the text.
            let text = text.replace('\0', "\u{fffd}");
            match text.chars().all(|c| (c as u32) < 256) {
                true => encoder.add_text_chunk(KEYWORD.into(), text),
                false => encoder.add_itxt_chunk(KEYWORD.into(), text),
            }
            .map_err(failed)?;
        }
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(self.rgb()).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(bytes)
    }
}

/// The parameters that a PNG's bytes carry, if any.
pub fn png_parameters(bytes: &[u8]) -> Option<String> {
    let mut reader = png::Decoder::new_with_limits(
        Cursor::new(bytes),
        png::Limits { bytes: MOST_BYTES as usize },
    )
    .read_info()
    .ok()?;
    // Text may stand behind the pixels; without them there is still what stood before.
    let _unread = reader.finish();
    let info = reader.info();
    let latin = info.uncompressed_latin1_text.iter().find(|chunk| chunk.keyword == KEYWORD);
    let utf8 = || info.utf8_text.iter().find(|chunk| chunk.keyword == KEYWORD)?.get_text().ok();
    latin.map(|chunk| chunk.text.clone()).or_else(utf8)
}

/// Writes a file that appears under its name only when it is whole.
///
/// # Errors
/// No such folder, no right, no space: nothing is left behind.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), PictureError> {
    let path = path.as_ref();
    let io = |error| PictureError::Io { path: path.display().to_string(), error };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".tintype-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(io)?;
    file.write_all(bytes).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: usize, height: usize) -> Picture {
        let mut rng = fastrand::Rng::with_seed(3);
        Picture::new(width, height, (0..width * height * 3).map(|_| rng.u8(..)).collect()).unwrap()
    }

    #[test]
    fn png_holds_the_pixels_and_the_parameters() {
        let made = picture(31, 17);
        for text in ["a cat\nSteps: 20", "café", "猫 🐈\nSeed: 1", "zero\0byte"] {
            let png = made.to_png(Some(text)).unwrap();
            assert_eq!(Picture::decode("x", &png).unwrap(), made);
            assert_eq!(png_parameters(&png).unwrap(), text.replace('\0', "\u{fffd}"));
        }
        assert_eq!(png_parameters(&made.to_png(None).unwrap()), None);
    }

    #[test]
    fn damaged_pictures_are_refused() {
        let png = picture(40, 40).to_png(None).unwrap();
        for end in (0..png.len() - 12).step_by(97) {
            assert!(Picture::decode("cut.png", &png[..end]).is_err(), "{end} bytes");
            png_parameters(&png[..end]);
        }
        let mut huge = png.clone();
        huge[16..20].copy_from_slice(&0x7fff_ffffu32.to_be_bytes());
        let error = Picture::decode("huge.png", &huge).unwrap_err().to_string();
        assert!(error.contains("huge.png") && error.contains("PNG, JPEG and WebP"), "{error}");
        assert!(Picture::decode("text", b"not a picture").is_err());
    }

    #[test]
    fn fitting_cuts_the_centre() {
        let mut rgb = vec![0; 30 * 10 * 3];
        for row in 0..10 {
            rgb[(row * 30 + 10) * 3..(row * 30 + 20) * 3].fill(255);
        }
        let wide = Picture::new(30, 10, rgb).unwrap();
        assert_eq!(wide.fitted(10, 10).rgb(), [255; 300]);
        let fitted = picture(7, 90).fitted(128, 128);
        assert_eq!((fitted.width(), fitted.height()), (128, 128));
    }

    #[test]
    fn whole_files_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(write_whole(folder.path().join("none/a.png"), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
