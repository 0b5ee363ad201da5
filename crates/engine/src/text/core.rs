//! A decoder on a device with its plans and its cache: tokens in, logits out. Keys and values of the
//! last tokens stay, so that a text with the same beginning goes on from there. It must not know
//! requests or texts.

use std::collections::HashMap;
use std::time::Duration;

use tintype_gpu::{DType, Device};
use tintype_registry::CancelToken;
use tintype_tensor::Tensor;
use tintype_tensor::graph::{Plan, PlanOptions};

use super::error::TextError;
use super::progress::{Meter, Observer, Phase};
use crate::families::llm::{Decoder, Kept};
use crate::nn::{Cache, Made, Net, Parameters, Step};
use crate::tokenizer::Token;
use crate::weights::Weights;

/// Tokens of a step, for which plans are compiled: the largest that fits is taken, and what is left
/// in the end fills the second in part.
const STEPS: [usize; 4] = [1, 16, 128, 512];
/// No single run of a plan takes longer, unless the device hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// See the file's head.
pub(super) struct Core {
    pub(super) device: Device,
    weights: Weights,
    decoder: Box<dyn Decoder>,
    made: Made,
    caches: Vec<Cache>,
    /// By tokens and rows of a step.
    plans: HashMap<[usize; 2], Plan>,
    pub(super) context: usize,
    pub(super) vocabulary: usize,
    /// Places of the smallest ring, and the most that a layer sees of it.
    ring: Option<(usize, usize)>,
    /// Tokens whose keys and values are in the cache.
    held: Vec<Token>,
    /// Places ever written since the cache was empty.
    written: usize,
}

/// What a cache takes.
pub(super) fn places(kept: &Kept, context: usize) -> usize {
    let most = STEPS[STEPS.len() - 1];
    kept.window.map_or(context, |window| (window + most).min(context))
}

/// Bytes of all caches.
pub(super) fn cache_bytes(kept: &[Kept], context: usize, dtype: DType) -> Option<u64> {
    let layer = |kept: &Kept| {
        let numbers = [2, kept.heads, places(kept, context), kept.numbers];
        let numbers = numbers.iter().try_fold(1u64, |all, &n| all.checked_mul(n as u64))?;
        dtype.bytes_for(numbers)
    };
    kept.iter().try_fold(0u64, |all, kept| all.checked_add(layer(kept)?))
}

impl Core {
    pub(super) fn new(
        device: Device,
        weights: Weights,
        decoder: Box<dyn Decoder>,
        context: usize,
        dtype: DType,
        vocabulary: usize,
    ) -> tintype_tensor::Result<Self> {
        let kept = decoder.kept();
        let cache = |kept: &Kept| {
            let shape = [1, kept.heads, places(kept, context), kept.numbers];
            let bytes = dtype.bytes_for(shape.iter().product::<usize>() as u64).unwrap_or(0);
            let zeros = vec![0u8; bytes as usize];
            let one = || Tensor::of(&device.buffer_from_bytes(dtype, &shape, &zeros)?);
            Ok(Cache { keys: one()?, values: one()? })
        };
        let caches = kept.iter().map(cache).collect::<tintype_tensor::Result<_>>()?;
        let rings = kept.iter().filter_map(|kept| Some((places(kept, context), kept.window?)));
        Ok(Core {
            ring: rings.min(),
            device,
            weights,
            decoder,
            made: Made::default(),
            caches,
            plans: HashMap::new(),
            context,
            vocabulary,
            held: Vec::new(),
            written: 0,
        })
    }

    pub(super) fn trained(&self) -> usize {
        self.decoder.context()
    }

    /// Compiles the plan for a step, if it is not there yet.
    pub(super) fn prepare(&mut self, tokens: usize, rows: usize) -> Result<(), TextError> {
        if self.plans.contains_key(&[tokens, rows]) {
            return Ok(());
        }
        let parameters = Parameters::sharing(&self.weights, &self.device, &self.made);
        let mut net = Net::new(&parameters, "");
        let compile = |net: &mut Net<'_>| {
            let step = Step::begin(net, &self.caches, [1, tokens, rows])?;
            let logits = self.decoder.build(net, &step)?;
            net.graph.output("logits", logits)?;
            let label = format!("{tokens} tokens");
            Plan::compile(&net.graph, &self.device, PlanOptions { label, ..PlanOptions::default() })
        };
        let plan = compile(&mut net).map_err(TextError::at(Phase::Load))?;
        self.plans.insert([tokens, rows], plan);
        Ok(())
    }

    /// How many of these tokens need no reading, as the cache has them; the last one always does.
    fn shared(&self, tokens: &[Token]) -> usize {
        let same = self.held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let same = same.min(tokens.len().saturating_sub(1));
        match self.ring {
            // What the next token sees must not have been written over.
            Some((places, window))
                if self.written > places && same + places < self.written + window =>
            {
                0
            }
            _ => same,
        }
    }

    /// Makes the cache that of a text, of which all but the last tokens may be there; gives how many
    /// were, and leaves the rest to be read.
    pub(super) fn rewind(&mut self, tokens: &[Token]) -> usize {
        let shared = self.shared(tokens);
        self.held.truncate(shared);
        if shared == 0 {
            self.written = 0;
        }
        shared
    }

    /// Reads the tokens that follow those that are held; gives the logits after the last.
    pub(super) fn read(
        &mut self,
        tokens: &[Token],
        phase: Phase,
        cancel: &CancelToken,
        observer: &mut dyn Observer,
        meter: &Meter,
    ) -> Result<Vec<f32>, TextError> {
        let (mut rest, mut logits) = (tokens, Vec::new());
        while !rest.is_empty() {
            let fitting = STEPS.iter().rev().find(|&&step| step <= rest.len()).unwrap_or(&1);
            let size = if *fitting == 1 && rest.len() > 1 { STEPS[1] } else { *fitting };
            let (some, later) = rest.split_at(size.min(rest.len()));
            let last = [some.len() - 1];
            logits = self.step(some, size, &last, phase, cancel)?;
            rest = later;
            if phase == Phase::Prompt {
                meter.at(tokens.len() - rest.len(), observer);
            }
        }
        Ok(logits)
    }

    /// Reads a whole text, and shows `each` the logits after every token of it: its place, and
    /// `[vocabulary]`.
    pub(super) fn show(
        &mut self,
        tokens: &[Token],
        cancel: &CancelToken,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), TextError> {
        self.held.clear();
        self.written = 0;
        let size = STEPS[1];
        let rows: Vec<usize> = (0..size).collect();
        for (part, some) in tokens.chunks(size).enumerate() {
            let logits = self.step(some, size, &rows, Phase::Prompt, cancel)?;
            for (at, logits) in logits.chunks_exact(self.vocabulary).take(some.len()).enumerate() {
                each(part * size + at, logits);
            }
        }
        Ok(())
    }

    /// One step of `size` places, of which the first hold tokens; gives logits `[rows, vocabulary]`.
    pub(super) fn step(
        &mut self,
        tokens: &[Token],
        size: usize,
        rows: &[usize],
        phase: Phase,
        cancel: &CancelToken,
    ) -> Result<Vec<f32>, TextError> {
        let (from, to) = (self.held.len(), self.held.len() + tokens.len());
        if to > self.context {
            let (context, trained) = (self.context, self.trained());
            return Err(TextError::Context {
                prompt: from,
                wanted: tokens.len(),
                context,
                trained,
            });
        }
        self.prepare(size, rows.len())?;
        let error = TextError::at(phase);
        let place = |at: usize| if at < tokens.len() { (from + at) as i32 } else { -1 };
        let positions: Vec<i32> = (0..size).map(place).collect();
        let mut ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        ids.resize(size, 0);
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let Some(plan) = self.plans.get_mut(&[size, rows.len()]) else {
            return Err(TextError::Model("a plan is missing".into()));
        };
        plan.write("ids", &ids).map_err(&error)?;
        plan.write("positions", &positions).map_err(&error)?;
        plan.write("lengths", &[to as i32]).map_err(&error)?;
        plan.write("rows", &rows).map_err(&error)?;
        // A run that is stopped may have written some of these places.
        self.written = self.written.max(to);
        plan.run(&|| cancel.is_cancelled(), PATIENCE).map_err(&error)?;
        self.held.extend_from_slice(tokens);
        plan.read("logits").map_err(&error)
    }
}
