//! From a request to a text: the prompt is read, then token after token is chosen and read. It must
//! not know how networks are made.

use std::time::Duration;

use tintype_registry::CancelToken;

use super::choose::{Chooser, log_probability};
use super::core::Core;
use super::error::TextError;
use super::progress::{Meter, Observer, Phase};
use super::request::TextRequest;
use super::stop::Stops;
use crate::tokenizer::{EncodeOptions, Token, Tokenizer};

/// Why a text ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model has nothing more to say.
    End,
    /// It has as many tokens as were asked for, or as the context holds.
    Length,
    /// This stop string would follow.
    Stop(String),
}

impl Finish {
    /// A stable name, for programs: `end`, `length`, `stop`.
    pub fn name(&self) -> &'static str {
        match self {
            Finish::End => "end",
            Finish::Length => "length",
            Finish::Stop(_) => "stop",
        }
    }
}

/// A token that was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextToken {
    /// Its number in the vocabulary.
    pub id: Token,
    /// Natural logarithm of its probability, if asked for.
    pub logprob: Option<f64>,
}

/// Time of each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Reading the prompt, to the first token's logits.
    pub prompt: Duration,
    /// Writing.
    pub write: Duration,
}

/// What a request gave.
#[derive(Debug, Clone, PartialEq)]
pub struct TextResult {
    /// What follows the prompt, without the stop string.
    pub text: String,
    /// Its tokens, those that end it included.
    pub tokens: Vec<TextToken>,
    /// Why it ends.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens that an earlier request with the same beginning had read.
    pub reused_tokens: usize,
    /// Where the time went.
    pub timings: Timings,
}

/// The tokens of a request's prompt, if the context has room for them and for what is asked for; and
/// how many may be written.
fn prompt(
    core: &Core,
    tokenizer: &Tokenizer,
    request: &TextRequest,
) -> Result<(Vec<Token>, usize), TextError> {
    request.validate()?;
    let options = EncodeOptions { add_special: true, parse_special: request.parse_special };
    let tokens = tokenizer.encode(&request.prompt, options)?;
    if tokens.is_empty() {
        let reason = "it has no tokens, and this model marks no beginning; give it a word".into();
        return Err(TextError::Request { what: "prompt", reason });
    }
    let room = core.context.saturating_sub(tokens.len());
    let wanted = request.max_tokens.unwrap_or(room.max(1));
    if wanted > room {
        let (context, trained) = (core.context, core.trained());
        return Err(TextError::Context { prompt: tokens.len(), wanted, context, trained });
    }
    Ok((tokens, wanted))
}

/// Writes the text of a request.
pub(super) fn run(
    core: &mut Core,
    tokenizer: &Tokenizer,
    request: &TextRequest,
    cancel: &CancelToken,
    observer: &mut dyn Observer,
) -> Result<TextResult, TextError> {
    let (mut all, most) = prompt(core, tokenizer, request)?;
    let prompt_tokens = all.len();
    let reused_tokens = core.rewind(&all);
    let rest = &all[reused_tokens..];
    let meter = Meter::begin(Phase::Prompt, rest.len(), observer);
    cancel.check().map_err(|_| TextError::Cancelled(Phase::Prompt))?;
    let mut logits = core.read(rest, Phase::Prompt, cancel, observer, &meter)?;
    let mut timings = Timings { prompt: meter.elapsed(), ..Timings::default() };

    let meter = Meter::begin(Phase::Write, most, observer);
    let mut chooser = Chooser::new(request);
    let (mut stream, mut stops) = (tokenizer.stream(), Stops::new(&request.stops));
    let (mut text, mut tokens) = (String::new(), Vec::new());
    let mut tell = |piece: String, observer: &mut dyn Observer| {
        if !piece.is_empty() {
            observer.text(&piece);
            text.push_str(&piece);
        }
    };
    let finish = loop {
        let before = logits.clone();
        let Some(id) = chooser.choose(&mut logits, &all) else {
            let device = core.device.info().name.clone();
            let phase = if tokens.is_empty() { Phase::Prompt } else { Phase::Write };
            return Err(TextError::Broken { phase, device });
        };
        let logprob = request.logprobs.then(|| log_probability(&before, id));
        tokens.push(TextToken { id, logprob });
        if tokenizer.is_end(id) {
            break Finish::End;
        }
        let (piece, stop) = stops.push(&stream.push(id)?);
        tell(piece, observer);
        meter.at(tokens.len(), observer);
        if let Some(stop) = stop {
            break Finish::Stop(stop.to_owned());
        }
        if tokens.len() == most {
            break Finish::Length;
        }
        all.push(id);
        logits = core.read(&[id], Phase::Write, cancel, observer, &meter)?;
    };
    if !matches!(finish, Finish::Stop(_)) {
        let (piece, stop) = stops.push(&stream.finish());
        tell(piece, observer);
        if stop.is_none() {
            tell(stops.finish(), observer);
        }
    }
    timings.write = meter.elapsed();
    Ok(TextResult { text, tokens, finish, prompt_tokens, reused_tokens, timings })
}
