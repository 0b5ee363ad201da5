//! `tintype write`: a text that goes on from a prompt, as it arrives.

use std::io::{IsTerminal, Read, Write as _};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tintype::text::{CacheType, Event, TextModelInfo, TextOptions, TextResult};
use tintype::{TextError, TextModel, TextRequest};

use crate::interrupt;
use crate::show::print;

/// Go on from a prompt with a language model.
///
/// The text is printed as it arrives; Ctrl-C stops it. What the prompt says is never taken for a
/// control token of the model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tintype write \"The capital of France is\" --model gemma3-270m.gguf
  tintype write \"Once upon a time\" --model m.gguf --max-tokens 200 --temperature 1 --seed 7
  tintype write --greedy --json \"1, 2, 3,\" --model m.gguf --max-tokens 16
  cat notes.txt | tintype write - --model m.gguf --stop \"\\n\\n\"")]
pub(crate) struct Write {
    /// What the text goes on from; - reads standard input.
    prompt: String,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    choice: ChoiceFlags,
    /// Leave the prompt out of the output.
    #[arg(long)]
    no_echo: bool,
    /// Read names of control tokens (<bos>) in the prompt as those tokens.
    #[arg(long)]
    special: bool,
    /// Print JSON at the end: text, tokens with their log probabilities, why it ended, timings.
    #[arg(long)]
    json: bool,
}

/// Which model, and how it is loaded.
#[derive(Debug, Args)]
pub(crate) struct ModelFlags {
    /// A GGUF file with a language model.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Tokens that prompt and text may have together.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context: Option<usize>,
    /// Keep earlier tokens in Q8_0 blocks: half the memory of F16.
    #[arg(long)]
    pub(crate) cache_q8: bool,
    /// Threads on the CPU; all cores if left out.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
}

impl ModelFlags {
    pub(crate) fn open(&self) -> Result<TextModel, TextError> {
        let cache = if self.cache_q8 { CacheType::Q8_0 } else { CacheType::F16 };
        let (threads, context) = (self.threads, self.context);
        let options = TextOptions { threads, context, cache, ..TextOptions::default() };
        TextModel::open(&self.model, &options)
    }
}

/// How tokens are chosen.
#[derive(Debug, Args)]
pub(crate) struct ChoiceFlags {
    /// Write at most so many tokens.
    #[arg(long, short = 'n', value_name = "TOKENS")]
    max_tokens: Option<usize>,
    /// Above 1 for surprise, below for safety, 0 for the likeliest token always.
    #[arg(long, default_value_t = 0.8)]
    temperature: f32,
    /// Always the likeliest token: temperature 0.
    #[arg(long, conflicts_with = "temperature")]
    greedy: bool,
    /// Choose among the likeliest so many; 0 for all.
    #[arg(long, value_name = "TOKENS", default_value_t = 40)]
    top_k: usize,
    /// Choose among the likeliest that have this probability together.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f32,
    /// Leave out what is less likely than this share of the likeliest.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    min_p: f32,
    /// Make the last 64 tokens less likely; 1 does nothing.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    repeat_penalty: f32,
    /// Where chance begins.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// End before this string (may be repeated).
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
}

impl ChoiceFlags {
    pub(crate) fn request(&self, prompt: &str) -> TextRequest {
        let temperature = if self.greedy { 0.0 } else { self.temperature };
        let mut request = TextRequest::new(prompt)
            .temperature(temperature)
            .top_k(self.top_k)
            .top_p(self.top_p)
            .min_p(self.min_p)
            .repeat_penalty(self.repeat_penalty, 64)
            .seed(self.seed);
        for stop in &self.stop {
            request = request.stop(stop);
        }
        match self.max_tokens {
            Some(tokens) => request.max_tokens(tokens),
            None => request,
        }
    }
}

impl Write {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let prompt = match &self.prompt[..] {
            "-" => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                read.context("standard input is no UTF-8 text")?;
                text
            }
            prompt => prompt.to_owned(),
        };
        let request = self.choice.request(&prompt).parse_special(self.special);
        request.validate()?;
        interrupt::watch()?;
        let model = self.model.open()?;
        let mut echo = !self.json && !self.no_echo;
        let result = stream(&model, request.logprobs(self.json), |piece| {
            let lead = if std::mem::take(&mut echo) { &prompt } else { "" };
            if self.json { Ok(()) } else { put(&format!("{lead}{piece}")) }
        })?;
        if self.json {
            return print(&serde_json::to_string_pretty(&Json::of(model.info(), &result))?);
        }
        put("\n")?;
        if std::io::stderr().is_terminal() {
            eprintln!("{}", rates(&result));
        }
        Ok(())
    }
}

/// Runs a request; Ctrl-C stops it within a token.
pub(crate) fn stream(
    model: &TextModel,
    request: TextRequest,
    mut tell: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<TextResult> {
    let mut work = model.start(request)?;
    let cancel = work.cancel_token();
    loop {
        if interrupt::asked() {
            cancel.cancel();
        }
        match work.next_within(std::time::Duration::from_millis(20)) {
            Some(Some(Event::Text(piece))) => tell(&piece)?,
            Some(Some(Event::Progress(_))) | None => {}
            Some(None) => return Ok(work.finish()?),
        }
    }
}

/// Prints at once; a reader that has had enough ends the command.
pub(crate) fn put(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the text")
}

/// How fast it went, in words.
fn rates(result: &TextResult) -> String {
    let rate = |tokens: usize, time: std::time::Duration| {
        format!("{tokens} tokens, {:.1} tokens/s", tokens as f64 / time.as_secs_f64().max(1e-9))
    };
    let read = result.prompt_tokens - result.reused_tokens;
    let (prompt, written) = (rate(read, result.timings.prompt), result.tokens.len());
    format!("prompt {prompt}; text {}", rate(written, result.timings.write))
}

#[derive(Serialize)]
struct Json<'a> {
    model: &'a str,
    architecture: &'a str,
    device: &'a str,
    text: &'a str,
    finish: &'a str,
    prompt_tokens: usize,
    reused_tokens: usize,
    tokens: Vec<JsonToken>,
    seconds: Seconds,
}

#[derive(Serialize)]
struct JsonToken {
    id: u32,
    logprob: Option<f64>,
}

#[derive(Serialize)]
struct Seconds {
    load: f64,
    prompt: f64,
    write: f64,
}

impl<'a> Json<'a> {
    fn of(model: &'a TextModelInfo, result: &'a TextResult) -> Self {
        let token =
            |token: &tintype::text::TextToken| JsonToken { id: token.id, logprob: token.logprob };
        Json {
            model: &model.name,
            architecture: &model.architecture,
            device: &model.device,
            text: &result.text,
            finish: result.finish.name(),
            prompt_tokens: result.prompt_tokens,
            reused_tokens: result.reused_tokens,
            tokens: result.tokens.iter().map(token).collect(),
            seconds: Seconds {
                load: model.load_time.as_secs_f64(),
                prompt: result.timings.prompt.as_secs_f64(),
                write: result.timings.write.as_secs_f64(),
            },
        }
    }
}
