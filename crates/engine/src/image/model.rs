//! Image models: what a file holds, on a device, ready to be asked. It must not know samplers' steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tintype_gpu::Device;
use tintype_registry::{CancelToken, CreateError, Handle, Kind, Owned, Stage};

use super::Generation;
use super::checkpoint::{SavedGeneration, fingerprint};
use super::error::ImageError;
use super::generate::{self, ImageResult};
use super::held::{Held, with_parts};
use super::parts::{Parts, Plans};
use super::progress::{Observer, Phase, Progress};
use super::request::ImageRequest;
use crate::families::Settings;
use crate::families::autoencoder_tiny::AutoencoderTiny;
use crate::families::pixart::PixArt;
use crate::families::t5::T5;
use crate::sampling::Schedule;
use crate::tokenizer::Unigram;
use crate::weights::Weights;

/// The model that ships inside.
#[cfg(feature = "pocket")]
static POCKET: &[u8] = include_bytes!("../../../../models/pocket/pocket.gguf");

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// The model that ships inside: "pocket", 128×128 pictures of single things.
    #[cfg(feature = "pocket")]
    BuiltIn,
    /// A file, or a folder of files.
    File(PathBuf),
}

/// How a model is loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Where it runs; `TINTYPE_DEVICE`'s choice, or else the best there is: a GPU, then the CPU.
    pub device: Option<Device>,
    /// Threads on the CPU; 0 for all cores. Not used with a device.
    pub threads: usize,
    /// Stops the load.
    pub cancel: CancelToken,
}

/// What a model is and prefers.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageModelInfo {
    /// Its name.
    pub name: String,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Timesteps it was trained on: most steps of a generation.
    pub timesteps: usize,
    /// Steps that it prefers.
    pub default_steps: usize,
    /// Guidance scale that it prefers.
    pub default_guidance: f32,
    /// Numbers in its weights.
    pub parameters: u64,
    /// The device it runs on, by name.
    pub device: String,
    /// How long it took to load.
    pub load_time: std::time::Duration,
}

/// A model that makes pictures. A handle: clones share one model, and take turns.
///
/// The model lies in the process's registry. It is freed with the last clone, or when the process ends,
/// wherever clones are then: loads and generations are cancelled first.
#[derive(Clone)]
pub struct ImageModel {
    info: Arc<ImageModelInfo>,
    held: Arc<Owned<Held>>,
}

impl ImageModel {
    /// The model that ships inside: "pocket", 128×128 pictures of single things.
    ///
    /// # Errors
    /// No device, or none with memory enough; a cancelled load.
    #[cfg(feature = "pocket")]
    pub fn built_in(options: &LoadOptions) -> Result<Self, ImageError> {
        Self::load(&ModelSource::BuiltIn, options, &mut |_| ())
    }

    /// The model in a file.
    ///
    /// # Errors
    /// A file that cannot be read or holds no model of a supported family; those of
    /// [`ImageModel::built_in`].
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, ImageError> {
        Self::load(&ModelSource::File(path.as_ref().into()), options, &mut |_| ())
    }

    /// The model of a source; `progress` is told of every part that is ready, on this thread.
    ///
    /// # Errors
    /// Those of [`ImageModel::open`].
    pub fn load(
        source: &ModelSource,
        options: &LoadOptions,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Self, ImageError> {
        // The token of the model for its life; the one in the options only stops the load.
        let held = Owned::create(Stage::Context, &CancelToken::new(), |token| {
            let cancel = options.cancel.joined(token);
            Self::build(source, options, &cancel, progress)
        });
        let held = held.map_err(|error| match error {
            CreateError::Build(error) => error,
            CreateError::Registry(error) => ImageError::Registry(error),
        })?;
        Self::of(held)
    }

    /// Gives the model to whoever keeps the handle: from here on `Registry::free` frees it, and dropping
    /// this and its clones does not.
    pub fn lend(&self) -> Handle {
        self.held.lend()
    }

    /// A view of a model that [`ImageModel::lend`] gave away: dropping it frees nothing.
    ///
    /// # Errors
    /// The handle names no image model, or no longer.
    pub fn view(handle: Handle) -> Result<Self, ImageError> {
        Self::of(Owned::view(handle))
    }

    fn of(held: Owned<Held>) -> Result<Self, ImageError> {
        let info = held.open(Kind::Mark)?.info.clone();
        Ok(ImageModel { info, held: Arc::new(held) })
    }

    fn build(
        source: &ModelSource,
        options: &LoadOptions,
        cancel: &CancelToken,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Held, ImageError> {
        let began = Instant::now();
        cancel.check().map_err(|_| ImageError::Cancelled(Phase::Load))?;
        let weights = match source {
            #[cfg(feature = "pocket")]
            ModelSource::BuiltIn => {
                let name = "built-in model \"pocket\"";
                Weights::from_source(crate::weights::Source::from_static(name, POCKET))?
            }
            ModelSource::File(path) => Weights::open(path)?,
        };
        detect(&weights)?;
        let device = crate::nn::device(options.device.as_ref(), options.threads)
            .map_err(ImageError::at(Phase::Load))?;
        let settings = Settings::new(&weights, "diffusion");
        let encoder = T5::read(&weights)?;
        let denoiser = PixArt::read(&weights)?;
        let autoencoder = AutoencoderTiny::read(&weights)?;
        let tokenizer = Unigram::from_weights(&weights)?;
        let latent = |key| -> Result<Vec<f32>, ImageError> {
            Ok(settings.numbers(key)?.into_iter().map(|x| x as f32).collect())
        };
        let (mean, deviation) = (latent("latent_mean")?, latent("latent_deviation")?);
        let (width, height) = (settings.size("width")?, settings.size("height")?);
        let side = denoiser.side * autoencoder.factor();
        if (width, height) != (side, side)
            || mean.len() != denoiser.channels
            || deviation.len() != denoiser.channels
            || deviation.iter().any(|&x| x <= 0.0)
        {
            return Err(ImageError::Model(format!(
                "{width}×{height} pictures of {} channels, but {side}² of {} by its parts",
                mean.len(),
                denoiser.channels
            )));
        }
        for (key, known) in [
            ("prediction_type", "v_prediction"),
            ("beta_schedule", "linear"),
            ("timestep_spacing", "trailing"),
        ] {
            let found = settings.text(key)?;
            if found != known {
                let reason = format!("its diffusion.{key} is {found:?}, {known:?} is supported");
                return Err(ImageError::Unsupported(reason));
            }
        }
        let timesteps = settings.size("num_train_timesteps")?;
        let (first, last) = (settings.number("beta_start")?, settings.number("beta_end")?);
        let mut info = ImageModelInfo {
            name: weights
                .value("general.name")
                .and_then(|value| value.as_str())
                .map_or("unnamed", |name| name)
                .chars()
                .filter(|c| !c.is_control())
                .take(80)
                .collect(),
            width,
            height,
            timesteps,
            default_steps: settings.size("default_steps")?.min(timesteps),
            default_guidance: settings.number("default_guidance")?.clamp(1.0, 100.0) as f32,
            parameters: weights.tensors().iter().map(|tensor| tensor.elements()).sum(),
            device: device.info().name.clone(),
            load_time: Default::default(),
        };
        let schedule = Schedule::linear(timesteps, first, last)?;
        let plans = Plans::default();
        let mut parts = Parts {
            device,
            tokenizer,
            schedule,
            encoder,
            denoiser,
            autoencoder,
            mean,
            deviation,
            fingerprint: fingerprint(&weights),
            weights,
            plans,
        };
        parts.prepare(true, false, cancel, &mut |report: &Progress| progress(report))?;
        info.load_time = began.elapsed();
        Ok(Held::new(info, parts))
    }

    /// What the model is and prefers.
    pub fn info(&self) -> &ImageModelInfo {
        &self.info
    }

    /// Makes the pictures of a request; `progress` is told of every step, on this thread.
    ///
    /// # Errors
    /// An impossible request, before any work; a cancellation; a device that fails.
    pub fn generate(
        &self,
        request: &ImageRequest,
        cancel: &CancelToken,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<ImageResult, ImageError> {
        let mut observer = |report: &Progress| progress(report);
        self.generate_observed(request, cancel, &mut observer)
    }

    /// Makes the pictures of a request; `observer` is told of every step and picture, on this thread.
    ///
    /// # Errors
    /// Those of [`ImageModel::generate`].
    pub fn generate_observed(
        &self,
        request: &ImageRequest,
        cancel: &CancelToken,
        observer: &mut dyn Observer,
    ) -> Result<ImageResult, ImageError> {
        let settled = request.validate(&self.info)?;
        with_parts(&self.held, cancel, |parts, cancel| {
            generate::run(parts, request, settled, None, cancel, observer)
        })
    }

    /// Goes on with a generation that was saved: what is left of it gives the same bytes as if it had
    /// never stopped, if it is on the same kind of device.
    ///
    /// # Errors
    /// A generation of another model; those of [`ImageModel::generate`].
    pub fn resume(
        &self,
        saved: &SavedGeneration,
        cancel: &CancelToken,
        observer: &mut dyn Observer,
    ) -> Result<ImageResult, ImageError> {
        let settled = saved.request.validate(&self.info)?;
        let latents = saved.resumed.sampling.latents().len();
        with_parts(&self.held, cancel, |parts, cancel| {
            if saved.fingerprint != parts.fingerprint || latents != parts.denoiser.latents() {
                let reason = format!("it was made with another model than {:?}", self.info.name);
                return Err(ImageError::Checkpoint(reason));
            }
            let resumed = Some(saved.resumed.clone());
            generate::run(parts, &saved.request, settled, resumed, cancel, observer)
        })
    }

    /// Begins a request on a thread of its own. The returned handle tells progress as an iterator.
    ///
    /// # Errors
    /// An impossible request.
    pub fn start(&self, request: ImageRequest) -> Result<Generation, ImageError> {
        request.validate(&self.info)?;
        let model = self.clone();
        Generation::spawn(move |cancel, report| {
            let mut told = |progress: &Progress| report(progress.clone());
            model.generate_observed(&request, cancel, &mut told)
        })
    }
}

impl std::fmt::Debug for ImageModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImageModel({} on {})", self.info.name, self.info.device)
    }
}

/// By the names of tensors, never by the file's.
fn detect(weights: &Weights) -> Result<(), ImageError> {
    for (name, part) in [
        ("text_encoder.shared.weight", "T5 encoder"),
        ("transformer.adaln_single.linear.weight", "PixArt transformer"),
        ("vae.decoder.layers.0.weight", "TAESD-shaped decoder"),
        ("vae.encoder.layers.0.weight", "TAESD-shaped encoder"),
    ] {
        if weights.get(name).is_none() {
            let reason = format!("there is no {part} (tensor {name:?}) in the file");
            return Err(ImageError::Unsupported(reason));
        }
    }
    Ok(())
}
