//! `tintype imagine`: a picture from a prompt. It must not know how pictures are made or drawn.

mod output;
mod preview;
mod summary;
mod watcher;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use tintype::ImageRequest;
use tintype::image::{CancelToken, ImageModel, LoadOptions, Picture, SavedGeneration};
use tintype::sampling::{RandomSource, Sampler, Scheduler};
use tintype_gpu::{Device, DeviceOptions, Selector};

use crate::interrupt;
use crate::show::print;
use output::Output;
use preview::Terminal;
use watcher::{Target, Watcher, Written};

/// Make a picture from a prompt.
///
/// Without --model it is made by the model that ships inside, "pocket": 128×128 pictures of single
/// things, the emoji's world, on a ground of a colour that you may name. The same prompt, seed and
/// flags give the same picture again; the PNG carries them all.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tintype imagine \"a slice of pizza\" -o pizza.png
  tintype imagine \"a red fox on a blue background\" --seed 7 --steps 30
  tintype imagine \"an owl, 3d\" --negative flat --batch 4 -o 'owl-{number}.png'
  tintype imagine \"a lion\" --init cat.png --strength 0.6 -o lion.png
  tintype imagine \"sunglasses\" --init cat.png --mask eyes.png -o cool-cat.png
  tintype imagine \"a castle\" -o - | feh -                      # to another program
  tintype imagine \"a castle\" --steps 500 --checkpoint c.tts     # Ctrl-C, and later:
  tintype imagine --resume c.tts -o castle.png
  tintype imagine \"a rocket\" --json | jq '.timings'")]
pub(crate) struct Imagine {
    /// What to draw.
    #[arg(required_unless_present = "resume")]
    prompt: Option<String>,
    /// What the picture shall not be like.
    #[arg(long, value_name = "PROMPT", default_value = "", hide_default_value = true)]
    negative: String,
    /// Steps from noise to picture: more is finer and slower [default: the model's, pocket's is 20]
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// The number that noise begins from [default: another each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How strongly the prompt pulls; 1 is not at all, and twice as fast [default: the model's]
    #[arg(long, value_name = "SCALE")]
    guidance: Option<f32>,
    /// How a step is taken: euler, euler_a, ddim, dpm++2m, dpm++2m_sde, lcm.
    #[arg(long, value_name = "NAME", default_value_t = Sampler::Ddim)]
    sampler: Sampler,
    /// Which noise levels are passed: discrete, karras, simple, sgm_uniform, trailing.
    #[arg(long, value_name = "NAME", default_value_t = Scheduler::Trailing)]
    scheduler: Scheduler,
    /// Whose random numbers: cuda (as PyTorch on a GPU) or cpu (as PyTorch without).
    #[arg(long, value_name = "NAME", default_value_t = RandomSource::Philox)]
    rng: RandomSource,
    /// Pictures to make; each has the next seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// A picture to begin from (PNG, JPEG or WebP); it is cut and resized to the model's size.
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
    /// How much of the first picture is drawn anew, above 0 to 1 [default: 0.75]
    #[arg(long, value_name = "SHARE", requires = "init")]
    strength: Option<f32>,
    /// Which parts of the first picture are drawn anew: white in this picture is, black is kept.
    #[arg(long, value_name = "FILE", requires = "init")]
    mask: Option<PathBuf>,
    /// A model file [default: the one inside]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Where to compute: cpu, vulkan, vulkan:1 or part of a name; `tintype devices` lists them
    /// [default: $TINTYPE_DEVICE, or the best]
    #[arg(long, value_name = "NAME")]
    device: Option<Selector>,
    /// Threads on the CPU; 0 for all cores.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// The file to write, replaced if it exists; {number} and {seed} stand for a picture's number and
    /// seed, - for standard output [default: a new name by the prompt]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show the pictures in the terminal.
    #[arg(long, conflicts_with = "json")]
    preview: bool,
    /// After every step, save what is needed to go on; removed once all pictures are there.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Go on with what --checkpoint saved: prompt and settings come from there.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "negative", "steps", "seed",
        "guidance", "sampler", "scheduler", "rng", "batch", "init"])]
    resume: Option<PathBuf>,
    /// Print JSON: files, seeds, settings and the time of each phase.
    #[arg(long)]
    json: bool,
}

impl Imagine {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let began = Instant::now();
        let saved = self.resume.as_ref().map(SavedGeneration::read).transpose()?;
        let (prompt, pictures) = match (&saved, &self.prompt) {
            (Some(saved), _) => (saved.request().prompt(), saved.request().pictures()),
            (None, Some(prompt)) => (prompt.as_str(), self.batch),
            (None, None) => bail!("there is no prompt"),
        };
        let output = Output::new(self.output.as_deref(), prompt, pictures)?;
        if output.is_stream() && (self.json || self.preview) {
            bail!("-o - gives the picture to standard output; --json and --preview need it too");
        }
        if self.preview && !std::io::stdout().is_terminal() {
            bail!("--preview shows pictures in a terminal, and standard output is none");
        }
        let pictures = [&self.init, &self.mask].map(|path| path.as_ref().map(Picture::read));
        let [init, mask] = pictures.map(Option::transpose);
        let (init, mask) = (init?, mask?);

        let cancel = CancelToken::new();
        let stop = cancel.clone();
        interrupt::watch_with(move || stop.cancel())?;
        let model = self.open(&cancel)?;
        let request = match &saved {
            Some(saved) => saved.request().clone(),
            None => self.request(&model, prompt, init, mask),
        };
        let settled = request.validate(model.info())?;
        let target = Target { output: &output, checkpoint: self.checkpoint.as_deref() };
        let mut watcher = Watcher::new(&cancel, &request, model.info(), target, self.json);
        let result = match &saved {
            Some(saved) => model.resume(saved, &cancel, &mut watcher),
            None => model.generate_observed(&request, &cancel, &mut watcher),
        };
        let written = watcher.finish(result.is_ok())?;
        let result = result.with_context(|| left(&written, &request, &self.checkpoint))?;
        if self.preview {
            let terminal = Terminal::of(|name| std::env::var(name).ok());
            for image in &result.images {
                print(&terminal.show(&image.picture)?)?;
            }
        }
        let summary = summary::Summary {
            model: model.info(),
            request: &request,
            settled,
            result: &result,
            written: &written,
            total: began.elapsed(),
        };
        match (self.json, output.is_stream()) {
            (true, _) => print(&summary.json()?),
            (false, false) => print(&summary.text()),
            (false, true) => Ok(()),
        }
    }

    fn open(&self, cancel: &CancelToken) -> anyhow::Result<ImageModel> {
        let selector = match &self.device {
            Some(selector) => selector.clone(),
            None => Selector::from_env()?,
        };
        let options =
            DeviceOptions { threads: self.threads, ..DeviceOptions::with_default_cache() };
        let device = Some(Device::open(&selector, options)?);
        let options = LoadOptions { device, cancel: cancel.clone(), ..LoadOptions::default() };
        Ok(match &self.model {
            Some(path) => ImageModel::open(path, &options)?,
            None => ImageModel::built_in(&options)?,
        })
    }

    fn request(
        &self,
        model: &ImageModel,
        prompt: &str,
        init: Option<Picture>,
        mask: Option<Picture>,
    ) -> ImageRequest {
        let (width, height) = (model.info().width, model.info().height);
        let mut request = ImageRequest::new(prompt)
            .negative(&self.negative)
            .seed(self.seed.unwrap_or_else(|| u64::from(fastrand::u32(..))))
            .batch(self.batch)
            .sampler(self.sampler)
            .scheduler(self.scheduler)
            .random_source(self.rng);
        if let Some(steps) = self.steps {
            request = request.steps(steps);
        }
        if let Some(guidance) = self.guidance {
            request = request.guidance(guidance);
        }
        if let Some(init) = init {
            request = request.init(init.fitted(width, height), self.strength.unwrap_or(0.75));
        }
        if let Some(mask) = mask {
            request = request.mask(mask.fitted(width, height));
        }
        request
    }
}

/// What there is of a generation that was stopped or failed.
fn left(written: &[Written], request: &ImageRequest, checkpoint: &Option<PathBuf>) -> String {
    let all = request.pictures();
    let text = match written.len() {
        0 => "no picture was written".to_owned(),
        some => format!("{some} of {all} pictures were written"),
    };
    match checkpoint {
        Some(path) if path.exists() => {
            format!("{text}; `tintype imagine --resume {}` goes on", path.display())
        }
        _ => text,
    }
}
