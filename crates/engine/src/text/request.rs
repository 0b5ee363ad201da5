//! What is asked for. What cannot be is refused before any work. It must not know how text is made.

use super::error::TextError;

/// Longest prompt in bytes; contexts hold far less.
const LONGEST_PROMPT: usize = 64 << 20;
/// Most stop strings, and their longest.
const STOPS: (usize, usize) = (64, 1024);

/// A request for a text that goes on from a prompt.
///
/// ```
/// use tintype::TextRequest;
///
/// let request = TextRequest::new("The capital of France is").max_tokens(32).greedy();
/// assert_eq!(request.prompt(), "The capital of France is");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TextRequest {
    pub(super) prompt: String,
    pub(super) parse_special: bool,
    pub(super) max_tokens: Option<usize>,
    pub(super) temperature: f32,
    pub(super) top_k: usize,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) repeat_penalty: f32,
    pub(super) repeat_last: usize,
    pub(super) seed: u64,
    pub(super) stops: Vec<String>,
    pub(super) logprobs: bool,
}

impl TextRequest {
    /// Goes on from `prompt` to the end of the text or of the context; temperature 0.8, top-k 40,
    /// top-p 0.95, min-p 0.05, no penalty, seed 0.
    pub fn new(prompt: impl Into<String>) -> Self {
        TextRequest {
            prompt: prompt.into(),
            parse_special: false,
            max_tokens: None,
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last: 64,
            seed: 0,
            stops: Vec::new(),
            logprobs: false,
        }
    }

    /// What the text goes on from.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// Reads names of control tokens in the prompt as those tokens: for prompts that a host made, never
    /// for text of users.
    pub fn parse_special(mut self, parse: bool) -> Self {
        self.parse_special = parse;
        self
    }

    /// Writes at most so many tokens.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Divides logits, after all else: above 1 for surprise, below for safety, 0 for the likeliest token
    /// always.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = temperature;
        self
    }

    /// Always the likeliest token: temperature 0.
    pub fn greedy(self) -> Self {
        self.temperature(0.0)
    }

    /// Chooses among the `k` likeliest tokens; 0 for all.
    pub fn top_k(mut self, k: usize) -> Self {
        self.top_k = k;
        self
    }

    /// Chooses among the likeliest tokens that have probability `p` together; 1 for all.
    pub fn top_p(mut self, p: f32) -> Self {
        self.top_p = p;
        self
    }

    /// Leaves out tokens less likely than `p` times the likeliest; 0 for none.
    pub fn min_p(mut self, p: f32) -> Self {
        self.min_p = p;
        self
    }

    /// Makes the last `last` tokens less likely: positive logits are divided by `penalty`, negative ones
    /// multiplied; 1 for none.
    pub fn repeat_penalty(mut self, penalty: f32, last: usize) -> Self {
        self.repeat_penalty = penalty;
        self.repeat_last = last;
        self
    }

    /// Where chance begins. The same seed gives the same text on one device.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Ends the text before this string.
    pub fn stop(mut self, stop: impl Into<String>) -> Self {
        self.stops.push(stop.into());
        self
    }

    /// Gives each token's logarithm of its probability, before temperature and all other settings.
    pub fn logprobs(mut self, logprobs: bool) -> Self {
        self.logprobs = logprobs;
        self
    }

    /// Whether it can be met by any model.
    ///
    /// # Errors
    /// [`TextError::Request`], which says what is allowed.
    pub fn validate(&self) -> Result<(), TextError> {
        let refuse = |what, reason: String| Err(TextError::Request { what, reason });
        if self.prompt.len() > LONGEST_PROMPT {
            let reason = format!("{} bytes; at most {LONGEST_PROMPT} are read", self.prompt.len());
            return refuse("prompt", reason);
        }
        if self.max_tokens == Some(0) {
            return refuse("max tokens", "0; at least 1 is written".into());
        }
        for (what, value, range) in [
            ("temperature", self.temperature, 0.0..=100.0),
            ("top-p", self.top_p, f32::MIN_POSITIVE..=1.0),
            ("min-p", self.min_p, 0.0..=1.0),
            ("repeat penalty", self.repeat_penalty, 0.01..=100.0),
        ] {
            if !range.contains(&value) {
                let least =
                    if *range.start() < 1e-3 && what == "top-p" { 0.0 } else { *range.start() };
                return refuse(what, format!("{value}; {least} to {} is possible", range.end()));
            }
        }
        let (most, longest) = STOPS;
        if self.stops.len() > most || self.stops.iter().any(|s| s.is_empty() || s.len() > longest) {
            return refuse("stop", format!("at most {most} strings of 1 to {longest} bytes"));
        }
        Ok(())
    }
}
