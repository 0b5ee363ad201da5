//! What was made, for people and for programs.

use std::time::Duration;

use serde::Serialize;
use tintype::ImageRequest;
use tintype::image::{ImageModelInfo, ImageResult, Settled};

use super::watcher::Written;

/// All that there is to say.
pub(super) struct Summary<'a> {
    pub(super) model: &'a ImageModelInfo,
    pub(super) request: &'a ImageRequest,
    pub(super) settled: Settled,
    pub(super) result: &'a ImageResult,
    pub(super) written: &'a [Written],
    pub(super) total: Duration,
}

#[derive(Serialize)]
struct Json<'a> {
    model: &'a str,
    device: &'a str,
    prompt: &'a str,
    negative: &'a str,
    steps: usize,
    guidance: f32,
    sampler: &'a str,
    scheduler: &'a str,
    rng: &'a str,
    width: usize,
    height: usize,
    images: Vec<JsonImage>,
    timings: JsonTimings,
}

#[derive(Serialize)]
struct JsonImage {
    path: String,
    seed: u64,
    bytes: usize,
}

/// Seconds.
#[derive(Serialize)]
struct JsonTimings {
    load: f64,
    text: f64,
    encode: f64,
    denoise: f64,
    decode: f64,
    /// From the command's beginning to its end.
    total: f64,
}

impl Summary<'_> {
    fn timings(&self) -> JsonTimings {
        let times = self.result.timings;
        JsonTimings {
            load: (self.model.load_time + times.load).as_secs_f64(),
            text: times.text.as_secs_f64(),
            encode: times.encode.as_secs_f64(),
            denoise: times.denoise.as_secs_f64(),
            decode: times.decode.as_secs_f64(),
            total: self.total.as_secs_f64(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for image in self.written {
            text.push_str(&format!("{}  seed {}\n", image.path.display(), image.seed));
        }
        let times = self.timings();
        let (steps, device) = (self.result.steps, &self.model.device);
        let phases = [
            ("load", times.load),
            ("text", times.text),
            ("encode", times.encode),
            ("denoise", times.denoise),
            ("decode", times.decode),
        ];
        let phases: Vec<_> = phases
            .iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(name, seconds)| format!("{name} {seconds:.2}"))
            .collect();
        let plural = if steps == 1 { "" } else { "s" };
        text.push_str(&format!(
            "{}×{}, {steps} step{plural}, {:.2} s ({}) on {device}",
            self.model.width,
            self.model.height,
            times.total,
            phases.join(", ")
        ));
        text
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        let (model, request, result) = (self.model, self.request, self.result);
        let image = |image: &Written| JsonImage {
            path: image.path.display().to_string(),
            seed: image.seed,
            bytes: image.bytes,
        };
        Ok(serde_json::to_string_pretty(&Json {
            model: &model.name,
            device: &model.device,
            prompt: request.prompt(),
            negative: request.negative_prompt(),
            steps: result.steps,
            guidance: self.settled.guidance,
            sampler: self.settled.sampler.name(),
            scheduler: self.settled.scheduler.name(),
            rng: self.settled.source.name(),
            width: model.width,
            height: model.height,
            images: self.written.iter().map(image).collect(),
            timings: self.timings(),
        })?)
    }
}
