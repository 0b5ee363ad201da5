//! Language models: what a file holds, on a device, ready to be asked. It must not know how tokens are
//! chosen.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tintype_gpu::{DType, Device};
use tintype_registry::CancelToken;

use super::Generation;
use super::core::{Core, cache_bytes};
use super::error::TextError;
use super::generate::{self, TextResult};
use super::progress::{Events, Observer, Phase};
use super::request::TextRequest;
use crate::families::llm;
use crate::tokenizer::{Token, Tokenizer};
use crate::weights::Weights;

/// Tokens that a context holds where nobody says otherwise, if the model was trained on as many.
const USUAL_CONTEXT: usize = 4096;

/// Type in which keys and values of earlier tokens are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheType {
    /// 16-bit floats.
    #[default]
    F16,
    /// Blocks of 32 bytes with a scale: half the memory.
    Q8_0,
    /// 32-bit floats: twice the memory, and results without the rounding of F16.
    F32,
}

/// How a model is loaded.
#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// Where it runs; `TINTYPE_DEVICE`'s choice, or else the best there is: a GPU, then the CPU.
    pub device: Option<Device>,
    /// Threads on the CPU; 0 for all cores. Not used with a device.
    pub threads: usize,
    /// Tokens that prompt and text may have together; 4096, or what it was trained on if that is less.
    pub context: Option<usize>,
    /// How earlier tokens are kept.
    pub cache: CacheType,
    /// Stops the load.
    pub cancel: CancelToken,
}

/// What a model is.
#[derive(Debug, Clone, PartialEq)]
pub struct TextModelInfo {
    /// Its name.
    pub name: String,
    /// Its architecture, as the file names it.
    pub architecture: String,
    /// Numbers in its weights.
    pub parameters: u64,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Bytes of its cache.
    pub cache_bytes: u64,
    /// Tokens that prompt and text may have together.
    pub context: usize,
    /// Tokens that it was trained on.
    pub trained_context: usize,
    /// Tokens that it knows.
    pub vocabulary: usize,
    /// The device it runs on, by name.
    pub device: String,
    /// How long it took to load.
    pub load_time: Duration,
}

/// A model that continues texts. A handle: clones share one model, and take turns.
#[derive(Clone)]
pub struct TextModel {
    info: Arc<TextModelInfo>,
    tokenizer: Arc<Tokenizer>,
    core: Arc<Mutex<Core>>,
}

impl TextModel {
    /// The model in a GGUF file.
    ///
    /// # Errors
    /// A file that cannot be read or holds no model of a supported architecture; a context longer than
    /// it was trained on; no device, or none with memory enough; a cancelled load.
    pub fn open(path: impl AsRef<Path>, options: &TextOptions) -> Result<Self, TextError> {
        let began = Instant::now();
        Self::load(began, Weights::open(path)?, options)
    }

    fn load(began: Instant, weights: Weights, options: &TextOptions) -> Result<Self, TextError> {
        let at = TextError::at(Phase::Load);
        let go_on = || options.cancel.check().map_err(|_| TextError::Cancelled(Phase::Load));
        go_on()?;
        let decoder = llm::read(&weights)?;
        let tokenizer = Tokenizer::from_weights(&weights)?;
        go_on()?;
        let vocabulary = tokenizer.vocabulary_size();
        let table = weights.require(decoder.table())?.shape();
        if table != [vocabulary as u64, decoder.width() as u64] {
            return Err(TextError::Model(format!(
                "its table of tokens is {table:?}, but there are {vocabulary} tokens of width {}",
                decoder.width()
            )));
        }
        let trained = decoder.context();
        let context = options.context.unwrap_or(USUAL_CONTEXT.min(trained));
        if !(1..=trained).contains(&context) {
            let reason =
                format!("{context} tokens; 1 to {trained} are possible, as it was trained");
            return Err(TextError::Request { what: "context", reason });
        }
        let dtype = match options.cache {
            CacheType::F16 => DType::F16,
            CacheType::Q8_0 => DType::Q8_0,
            CacheType::F32 => DType::F32,
        };
        let kept = decoder.kept();
        if dtype == DType::Q8_0 && kept.iter().any(|kept| !kept.numbers.is_multiple_of(32)) {
            let reason = "Q8_0 needs heads of a multiple of 32 numbers; take F16".into();
            return Err(TextError::Request { what: "cache", reason });
        }
        let cache_bytes = cache_bytes(&kept, context, dtype).unwrap_or(u64::MAX);
        let weight_bytes = weights.tensors().iter().map(|tensor| tensor.byte_len()).sum();
        let device = crate::nn::device(options.device.as_ref(), options.threads).map_err(&at)?;
        let (needed, free) = (cache_bytes.saturating_add(weight_bytes), device.memory().free);
        if needed > free {
            let device = device.info().name.clone();
            return Err(TextError::Memory { device, needed, free });
        }
        let text = |key: &str| {
            let text = weights.value(key).and_then(|value| value.as_str()).unwrap_or("unnamed");
            text.chars().filter(|c| !c.is_control()).take(80).collect()
        };
        let mut info = TextModelInfo {
            name: text("general.name"),
            architecture: text("general.architecture"),
            parameters: weights.tensors().iter().map(|tensor| tensor.elements()).sum(),
            weight_bytes,
            cache_bytes,
            context,
            trained_context: trained,
            vocabulary,
            device: device.info().name.clone(),
            load_time: Duration::ZERO,
        };
        let mut core =
            Core::new(device, weights, decoder, context, dtype, vocabulary).map_err(&at)?;
        core.prepare(1, 1)?;
        go_on()?;
        info.load_time = began.elapsed();
        let core = Arc::new(Mutex::new(core));
        Ok(TextModel { info: Arc::new(info), tokenizer: Arc::new(tokenizer), core })
    }

    /// What the model is.
    pub fn info(&self) -> &TextModelInfo {
        &self.info
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // What a panic left is a cache that holds what it says it holds: tokens are noted once read.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the text of a request; `observer` is told of it as it arrives, on this thread. A closure
    /// is told of the text alone.
    ///
    /// # Errors
    /// An impossible request, before any work; a cancellation; a device that fails.
    pub fn generate(
        &self,
        request: &TextRequest,
        cancel: &CancelToken,
        observer: &mut dyn Observer,
    ) -> Result<TextResult, TextError> {
        generate::run(&mut self.core(), &self.tokenizer, request, cancel, observer)
    }

    /// Reads tokens and shows `each` the logits after every one of them: its place, and a logit for each
    /// token of the vocabulary.
    ///
    /// # Errors
    /// More tokens than the context holds, or numbers that are no tokens, before any work; a
    /// cancellation; a device that fails.
    pub fn logits(
        &self,
        tokens: &[Token],
        cancel: &CancelToken,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), TextError> {
        let Some(&most) = tokens.iter().max() else { return Ok(()) };
        self.tokenizer.bytes(most, true)?;
        let TextModelInfo { context, trained_context: trained, .. } = *self.info;
        if tokens.len() > context {
            return Err(TextError::Context { prompt: tokens.len(), wanted: 0, context, trained });
        }
        self.core().show(tokens, cancel, each)
    }

    /// Begins a request on a thread of its own. The returned handle tells text and progress as an
    /// iterator.
    ///
    /// # Errors
    /// An impossible request.
    pub fn start(&self, request: TextRequest) -> Result<Generation, TextError> {
        request.validate()?;
        let model = self.clone();
        Generation::spawn(move |cancel, report| {
            model.generate(&request, cancel, &mut Events(report))
        })
    }
}

impl std::fmt::Debug for TextModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextModel({} on {})", self.info.name, self.info.device)
    }
}
