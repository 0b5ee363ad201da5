//! Pictures: asked for with a structure, read as pixels or PNG. It must not know how they are made.

use engine::ImageRequest as EngineRequest;
use engine::image::{ImageResult, Picture, parameters, write_whole};
use tintype_registry::Kind;

use crate::edge::{RawHandle, Text, bytes, call, call_for, put_bytes, text};
use crate::request::{self, Outcome};
use crate::status::{Failure, Status};
use crate::structure::Structure;

/// A request for pictures. What is zero is as the model prefers it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ImageRequest {
    /// sizeof(tintype_image_request).
    pub struct_size: usize,
    /// What the pictures shall show.
    pub prompt: Text,
    /// What they shall not be like.
    pub negative: Text,
    /// Where noise begins; picture n of a request is what seed + n alone gives.
    pub seed: u64,
    /// Steps from noise to picture; 0 for the model's own.
    pub steps: u32,
    /// Pictures to make; 0 for one.
    pub batch: u32,
    /// Pixels in a row; 0 for the model's own.
    pub width: u32,
    /// Rows; 0 for the model's own.
    pub height: u32,
    /// Guidance scale, from 1 (off); 0 for the model's own.
    pub guidance: f32,
    /// How much of the first picture is drawn anew: above 0, at most 1. Without a first picture 0.
    pub strength: f32,
    /// Sampler by name, as "ddim" or "euler_a"; no text for the default.
    pub sampler: Text,
    /// Scheduler by name, as "trailing" or "karras"; no text for the default.
    pub scheduler: Text,
    /// Random source by name, as "cuda" or "cpu"; no text for the default.
    pub random_source: Text,
    /// A picture to begin from, RGB, 8 bits, three bytes a pixel, rows from the top, without padding; null
    /// for none.
    pub init_pixels: *const u8,
    /// Pixels in a row of the first picture.
    pub init_width: u32,
    /// Its rows.
    pub init_height: u32,
    /// Which parts of the first picture are drawn anew, in the same form: white is, black is kept; null
    /// for all.
    pub mask_pixels: *const u8,
    /// Pixels in a row of the mask.
    pub mask_width: u32,
    /// Its rows.
    pub mask_height: u32,
}

// SAFETY: numbers and pointers only, the first is the size.
unsafe impl Structure for ImageRequest {
    const NAME: &'static str = "tintype_image_request";
}

/// One picture of a request that has ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ImageInfo {
    /// sizeof(tintype_image_info): set it before the call.
    pub struct_size: usize,
    /// The seed that gives this picture alone.
    pub seed: u64,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes a pixel: 3, red, green, blue.
    pub channels: u32,
    /// Pictures of the request.
    pub pictures: u32,
}

// SAFETY: numbers only, the first is the size.
unsafe impl Structure for ImageInfo {
    const NAME: &'static str = "tintype_image_info";
}

/// The pictures of a request, and what each was made with.
pub(crate) struct Images {
    result: ImageResult,
    parameters: Vec<String>,
}

/// Begins to make pictures, as a request. What the model cannot do is refused here; the structure and
/// all it points to can go once this returns.
///
/// # Safety
/// `options` is null or begins with its size and has so many bytes; its texts have the bytes they say, its
/// pictures three bytes for each pixel they say; `request` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_image_generate(
    model: RawHandle,
    options: *const ImageRequest,
    request: *mut RawHandle,
) -> Status {
    call(|| {
        let model = crate::model::find(model)?;
        // SAFETY: the caller's promise.
        let asked = unsafe { read(options) }?;
        asked.validate(model.info())?;
        request::begin(Kind::Generate, request, move |shared| {
            let report = &mut |progress: &_| shared.report(progress);
            let result = model.generate(&asked, &shared.token, report)?;
            let texts = result.images.iter();
            let texts = texts.map(|image| parameters(&asked, model.info(), image));
            let parameters = texts.collect();
            Ok(Outcome::Images(Images { result, parameters }))
        })
    })
}

/// # Safety
/// As [`tintype_image_generate`].
unsafe fn read(options: *const ImageRequest) -> Result<EngineRequest, Failure> {
    // SAFETY: the caller's promise; `options` may be null.
    let options = unsafe { ImageRequest::read(options) }?;
    // SAFETY: the caller's promise, here and for the texts below.
    let words = |what: &str, given| unsafe { text(what, given) };
    let mut asked = EngineRequest::new(words("prompt", options.prompt)?.unwrap_or_default())
        .negative(words("negative", options.negative)?.unwrap_or_default())
        .seed(options.seed)
        .batch(options.batch.max(1) as usize);
    if options.steps > 0 {
        asked = asked.steps(options.steps as usize);
    }
    if options.guidance != 0.0 {
        asked = asked.guidance(options.guidance);
    }
    if options.width > 0 || options.height > 0 {
        asked = asked.size(options.width as usize, options.height as usize);
    }
    if let Some(name) = words("sampler", options.sampler)? {
        asked = asked.sampler(named(name)?);
    }
    if let Some(name) = words("scheduler", options.scheduler)? {
        asked = asked.scheduler(named(name)?);
    }
    if let Some(name) = words("random source", options.random_source)? {
        asked = asked.random_source(named(name)?);
    }
    if options.init_pixels.is_null() && options.strength != 0.0 {
        return Err(Failure::invalid("strength: there is no first picture that it could be of"));
    }
    let (width, height) = (options.init_width, options.init_height);
    // SAFETY: the caller's promise.
    if let Some(init) = unsafe { picture("first picture", options.init_pixels, width, height) }? {
        asked = asked.init(init, options.strength);
    }
    let (width, height) = (options.mask_width, options.mask_height);
    // SAFETY: the caller's promise.
    if let Some(mask) = unsafe { picture("mask", options.mask_pixels, width, height) }? {
        asked = asked.mask(mask);
    }
    Ok(asked)
}

fn named<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str) -> Result<T, Failure> {
    name.parse().map_err(|error: T::Err| Failure::invalid(error.to_string()))
}

/// # Safety
/// `pixels` is null or has three bytes for each of `width` × `height`.
unsafe fn picture(
    what: &str,
    pixels: *const u8,
    width: u32,
    height: u32,
) -> Result<Option<Picture>, Failure> {
    if pixels.is_null() {
        return match (width, height) {
            (0, 0) => Ok(None),
            _ => Err(Failure::new(Status::Null, format!("{what}: null has no pixels"))),
        };
    }
    let (width, height) = (width as usize, height as usize);
    let length = width.saturating_mul(height).saturating_mul(3);
    // SAFETY: the caller's promise.
    let rgb = unsafe { bytes(what, pixels, length) }?;
    Ok(Some(Picture::new(width, height, rgb.to_vec())?))
}

/// Does `work` on one picture of a request that has ended well.
fn with_image(
    request: RawHandle,
    index: u32,
    work: impl FnOnce(&Images, usize) -> Result<(), Failure>,
) -> Status {
    call_for(|| {
        let shared = request::find(request)?;
        let outcome = shared.outcome();
        let Outcome::Images(images) = &*outcome else {
            return match &*outcome {
                Outcome::Running => Ok(Status::Running),
                Outcome::Failed(failure) => Err(failure.clone()),
                _ => Err(Failure::new(Status::NoResult, "this request makes no pictures")),
            };
        };
        let count = images.result.images.len();
        if index as usize >= count {
            let text = format!("picture {index} of {count}");
            return Err(Failure::new(Status::NoResult, text));
        }
        work(images, index as usize).map(|()| Status::Ok)
    })
}

/// Describes picture `index` of a request. TINTYPE_STATUS_RUNNING while it is at work.
///
/// # Safety
/// `info` is null or begins with its size, has so many bytes and may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_image_info(
    request: RawHandle,
    index: u32,
    info: *mut ImageInfo,
) -> Status {
    with_image(request, index, |images, at| {
        let made = &images.result.images[at];
        let told = ImageInfo {
            struct_size: 0,
            seed: made.seed,
            width: made.picture.width() as u32,
            height: made.picture.height() as u32,
            channels: 3,
            pictures: images.result.images.len() as u32,
        };
        // SAFETY: the caller's promise.
        unsafe { told.write(info) }
    })
}

/// Copies the pixels of picture `index`: RGB, 8 bits, rows from the top, without padding. `length` receives
/// how many bytes they are; with a null buffer of no capacity that is all.
///
/// # Safety
/// `buffer` is null or has `capacity` bytes; `length` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_image_pixels(
    request: RawHandle,
    index: u32,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    with_image(request, index, |images, at| {
        let rgb = images.result.images[at].picture.rgb();
        // SAFETY: the caller's promise.
        unsafe { put_bytes(rgb, buffer, capacity, length) }
    })
}

/// Copies picture `index` as the bytes of a PNG file, with what it was made with as text in it.
///
/// # Safety
/// As tintype_request_image_pixels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_image_png(
    request: RawHandle,
    index: u32,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    with_image(request, index, |images, at| {
        let png = images.png(at)?;
        // SAFETY: the caller's promise.
        unsafe { put_bytes(&png, buffer, capacity, length) }
    })
}

/// Writes picture `index` to a PNG file, which appears under its name only when it is whole.
///
/// # Safety
/// `path` has the bytes that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_request_image_save(
    request: RawHandle,
    index: u32,
    path: Text,
) -> Status {
    with_image(request, index, |images, at| {
        // SAFETY: the caller's promise.
        let path = unsafe { text("path", path) }?;
        let path = path.ok_or_else(|| Failure::new(Status::Null, "path: there is none"))?;
        Ok(write_whole(path, &images.png(at)?)?)
    })
}

impl Images {
    fn png(&self, at: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.result.images[at].picture.to_png(Some(&self.parameters[at]))?)
    }
}
