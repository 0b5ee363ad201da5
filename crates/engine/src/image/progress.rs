//! Where a generation stands, for progress bars, and who is told. It must not know how one is drawn.

use std::fmt;
use std::time::{Duration, Instant};

use super::checkpoint::Checkpoint;
use super::generate::Generated;

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Reading the model and compiling plans.
    Load,
    /// Prompt to states.
    Text,
    /// First picture to latents.
    Encode,
    /// Noise to latents, step by step.
    Denoise,
    /// Latents to picture.
    Decode,
}

impl Phase {
    /// A stable name, for programs: `load`, `text`, `encode`, `denoise`, `decode`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Text => "text",
            Phase::Encode => "encode",
            Phase::Denoise => "denoise",
            Phase::Decode => "decode",
        }
    }
}

/// As a sentence has it: "cancelled while *denoising*".
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Load => "loading the model",
            Phase::Text => "encoding the prompt",
            Phase::Encode => "encoding the first picture",
            Phase::Denoise => "denoising",
            Phase::Decode => "decoding the picture",
        })
    }
}

/// One report. Reports of a phase count from 0 to `total`, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Which picture of the request, from 0; loading and text belong to the first.
    pub picture: usize,
    /// Pictures of the request.
    pub pictures: usize,
    /// What is being done.
    pub phase: Phase,
    /// Units of it that are done: steps when denoising, else parts.
    pub done: usize,
    /// Units in all.
    pub total: usize,
    /// Time since the phase began.
    pub elapsed: Duration,
}

impl Progress {
    /// Units a second, once one is done.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (self.done > 0 && seconds > 0.0).then(|| self.done as f64 / seconds)
    }

    /// How long the rest of the phase takes at this rate.
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.total.saturating_sub(self.done) as f64;
        Duration::try_from_secs_f64(left / self.rate()?).ok()
    }
}

/// Who is told how a generation goes, on the thread that makes it. Each call delays the work, so it
/// should return soon; a call of the cancel token's `cancel` within it ends the work at once.
pub trait Observer {
    /// A part of the work was begun or done.
    fn progress(&mut self, _progress: &Progress) {}

    /// A picture is finished; others of the request may follow.
    fn picture(&mut self, _picture: &Generated) {}

    /// A step is done. What [`Checkpoint::save`] writes now goes on from here.
    fn step(&mut self, _checkpoint: &Checkpoint<'_>) {}
}

/// A closure is told of progress alone.
impl<F: FnMut(&Progress)> Observer for F {
    fn progress(&mut self, progress: &Progress) {
        self(progress);
    }
}

/// Tells progress of one phase.
pub(super) struct Meter<'a, 'b> {
    pub(super) tell: &'a mut (dyn Observer + 'b),
    pub(super) picture: usize,
    pub(super) pictures: usize,
    pub(super) phase: Phase,
    pub(super) total: usize,
    pub(super) began: Instant,
}

impl Meter<'_, '_> {
    pub(super) fn at(&mut self, done: usize) {
        self.tell.progress(&Progress {
            picture: self.picture,
            pictures: self.pictures,
            phase: self.phase,
            done,
            total: self.total,
            elapsed: self.began.elapsed(),
        });
    }
}
