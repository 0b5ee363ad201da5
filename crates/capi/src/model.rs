//! Image models: loaded by a request, described, freed. It must not know requests' insides.

use std::ffi::c_char;

use engine::image::{ImageModel, LoadOptions as EngineOptions, ModelSource};
use tintype_registry::Kind;

use crate::edge::{RawHandle, Text, call, fixed, handle, text};
use crate::request::{self, Outcome};
use crate::status::{Failure, Status};
use crate::structure::Structure;

/// What to load, and where it runs. All zeros but the size: the built-in model on the best device.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// sizeof(tintype_load_options).
    pub struct_size: usize,
    /// The model's file or folder; no text for the model that ships inside.
    pub path: Text,
    /// Names the device: "cpu", "vulkan", "vulkan:1", "metal" or part of its name; no text for what the
    /// variable TINTYPE_DEVICE says, or else the best there is.
    pub device: Text,
    /// Threads on the CPU; 0 for all cores.
    pub threads: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: numbers and pointers only, the first is the size.
unsafe impl Structure for LoadOptions {
    const NAME: &'static str = "tintype_load_options";
}

/// What a model is and prefers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ModelInfo {
    /// sizeof(tintype_model_info): set it before the call.
    pub struct_size: usize,
    /// Numbers in its weights.
    pub parameters: u64,
    /// Nanoseconds that loading took.
    pub load_ns: u64,
    /// Pixels in a row of its pictures.
    pub width: u32,
    /// Rows of its pictures.
    pub height: u32,
    /// Most steps of a generation.
    pub timesteps: u32,
    /// Steps that it prefers.
    pub default_steps: u32,
    /// Guidance scale that it prefers.
    pub default_guidance: f32,
    /// Zero.
    pub reserved: u32,
    /// Its name, ended by a zero byte.
    pub name: [c_char; 96],
    /// The name of its device, ended by a zero byte, cut if it is longer.
    pub device: [c_char; 256],
}

// SAFETY: numbers only, the first is the size.
unsafe impl Structure for ModelInfo {
    const NAME: &'static str = "tintype_model_info";
}

/// Begins to load an image model, as a request; tintype_request_take_model gives the model once it has
/// ended. A file that cannot be read fails the request, not this call.
///
/// # Safety
/// `options` is null or begins with its size and has so many bytes, and its texts have the bytes they say;
/// `request` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_image_model_load(
    options: *const LoadOptions,
    request: *mut RawHandle,
) -> Status {
    call(|| {
        // SAFETY: the caller's promise.
        let options = unsafe { LoadOptions::read(options) }?;
        // SAFETY: the caller's promise.
        let path = unsafe { text("path", options.path) }?;
        // SAFETY: the caller's promise.
        let device = unsafe { text("device", options.device) }?.map(str::to_owned);
        let source = match path {
            None => ModelSource::BuiltIn,
            Some(path) => ModelSource::File(path.into()),
        };
        let threads = options.threads as usize;
        request::begin(Kind::Load, request, move |shared| {
            let device = device.map(|name| crate::device::open(&name, threads)).transpose()?;
            let options = EngineOptions { device, threads, cancel: shared.token.clone() };
            let model = ImageModel::load(&source, &options, &mut |report| shared.report(report))?;
            let info = model.info();
            shared.log.say(format!("{} on {} in {:.1?}", info.name, info.device, info.load_time));
            Ok(Outcome::Model(model.lend()))
        })
    })
}

/// A model by its handle.
pub(crate) fn find(model: RawHandle) -> Result<ImageModel, Failure> {
    Ok(ImageModel::view(handle(model)?)?)
}

/// Says what a model is and prefers.
///
/// # Safety
/// `info` is null or begins with its size, has so many bytes and may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tintype_image_model_info(
    model: RawHandle,
    info: *mut ModelInfo,
) -> Status {
    call(|| {
        let model = find(model)?;
        let known = model.info();
        let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let told = ModelInfo {
            struct_size: 0,
            parameters: known.parameters,
            load_ns: u64::try_from(known.load_time.as_nanos()).unwrap_or(u64::MAX),
            width: word(known.width),
            height: word(known.height),
            timesteps: word(known.timesteps),
            default_steps: word(known.default_steps),
            default_guidance: known.default_guidance,
            reserved: 0,
            name: fixed(&known.name),
            device: fixed(&known.device),
        };
        // SAFETY: the caller's promise.
        unsafe { told.write(info) }
    })
}
