//! Where a text stands, and who is told. It must not know how it is shown.

use std::fmt;
use std::time::{Duration, Instant};

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Reading the model and compiling plans.
    Load,
    /// Reading the prompt.
    Prompt,
    /// Writing, token by token.
    Write,
}

impl Phase {
    /// A stable name, for programs: `load`, `prompt`, `write`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Prompt => "prompt",
            Phase::Write => "write",
        }
    }
}

/// As a sentence has it: "cancelled while *reading the prompt*".
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Load => "loading the model",
            Phase::Prompt => "reading the prompt",
            Phase::Write => "writing",
        })
    }
}

/// One report. Reports of a phase count from 0 towards `total`, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Tokens that are done; plans, when loading.
    pub done: usize,
    /// Tokens in all: when writing, at most so many.
    pub total: usize,
    /// Time since the phase began.
    pub elapsed: Duration,
}

impl Progress {
    /// Tokens a second, once one is done.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (self.done > 0 && seconds > 0.0).then(|| self.done as f64 / seconds)
    }
}

/// Who is told how a text goes, on the thread that makes it. Each call delays the work.
pub trait Observer {
    /// A part of the work was begun or done.
    fn progress(&mut self, _progress: &Progress) {}

    /// The text goes on. The pieces, one after another, are the result's text.
    fn text(&mut self, _text: &str) {}
}

/// A closure is told of the text alone.
impl<F: FnMut(&str)> Observer for F {
    fn text(&mut self, text: &str) {
        self(text);
    }
}

/// What [`super::TextModel::start`] reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// See [`Observer::progress`].
    Progress(Progress),
    /// See [`Observer::text`].
    Text(String),
}

/// Reports as values, into a closure.
pub(super) struct Events<'a>(pub(super) &'a mut dyn FnMut(Event));

impl Observer for Events<'_> {
    fn progress(&mut self, progress: &Progress) {
        (self.0)(Event::Progress(progress.clone()));
    }

    fn text(&mut self, text: &str) {
        (self.0)(Event::Text(text.to_owned()));
    }
}

/// Tells progress of one phase.
pub(super) struct Meter {
    phase: Phase,
    total: usize,
    began: Instant,
}

impl Meter {
    pub(super) fn begin(phase: Phase, total: usize, observer: &mut dyn Observer) -> Self {
        let meter = Meter { phase, total, began: Instant::now() };
        meter.at(0, observer);
        meter
    }

    pub(super) fn at(&self, done: usize, observer: &mut dyn Observer) {
        let Meter { phase, total, .. } = *self;
        observer.progress(&Progress { phase, done, total, elapsed: self.elapsed() });
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
