//! Follows a generation: a bar, each picture to its file as soon as it is there, the checkpoint after
//! each step. It must not know flags.

use std::io::Write;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use tintype::ImageRequest;
use tintype::image::{
    CancelToken, Checkpoint, Generated, ImageModelInfo, Observer, Phase, Progress, parameters,
    write_whole,
};

use super::output::Output;
use crate::bar::bar;

const TEMPLATE: &str = "{prefix} {wide_bar} {pos}/{len} {rate} {left}";

/// A picture and its file.
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) seed: u64,
    pub(super) bytes: usize,
}

/// Where results go.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) output: &'a Output,
    pub(super) checkpoint: Option<&'a Path>,
}

pub(super) struct Watcher<'a> {
    cancel: &'a CancelToken,
    request: &'a ImageRequest,
    model: &'a ImageModelInfo,
    target: Target<'a>,
    bar: ProgressBar,
    written: Vec<Written>,
    failed: Option<anyhow::Error>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        cancel: &'a CancelToken,
        request: &'a ImageRequest,
        model: &'a ImageModelInfo,
        target: Target<'a>,
        quiet: bool,
    ) -> Self {
        let bar = bar(TEMPLATE, quiet);
        Watcher { cancel, request, model, target, bar, written: Vec::new(), failed: None }
    }

    /// The files; a checkpoint has served once all pictures are there.
    pub(super) fn finish(self, whole: bool) -> anyhow::Result<Vec<Written>> {
        self.bar.finish_and_clear();
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(path) = self.target.checkpoint
            && whole
        {
            // With a single step there never was one.
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => (),
            }
        }
        Ok(self.written)
    }

    fn write(&mut self, image: &Generated) -> anyhow::Result<()> {
        let text = parameters(self.request, self.model, image);
        let png = image.picture.to_png(Some(&text))?;
        let path = self.target.output.path(image.index, self.request.pictures(), image.seed);
        if self.target.output.is_stream() {
            let mut out = std::io::stdout().lock();
            out.write_all(&png)?;
            out.flush()?;
        } else {
            write_whole(&path, &png)?;
        }
        self.written.push(Written { path, seed: image.seed, bytes: png.len() });
        Ok(())
    }

    /// There is no use in going on.
    fn fail(&mut self, error: impl Into<anyhow::Error>) {
        self.cancel.cancel();
        self.failed.get_or_insert(error.into());
    }
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, progress: &Progress) {
        let phase = match progress.phase {
            Phase::Load => "loading",
            Phase::Text => "reading the prompt",
            Phase::Encode => "reading the picture",
            Phase::Denoise => "denoising",
            Phase::Decode => "decoding",
        };
        let prefix = match progress.pictures {
            1 => phase.to_owned(),
            all => format!("picture {} of {all}: {phase}", progress.picture + 1),
        };
        if self.bar.prefix() != prefix {
            self.bar.set_prefix(prefix);
            self.bar.reset();
        }
        self.bar.set_length(progress.total as u64);
        self.bar.set_position(progress.done as u64);
    }

    fn picture(&mut self, image: &Generated) {
        if let Err(error) = self.write(image) {
            self.fail(error);
        }
    }

    fn step(&mut self, checkpoint: &Checkpoint<'_>) {
        if let Some(path) = self.target.checkpoint
            && checkpoint.done() < checkpoint.steps()
            && let Err(error) = write_whole(path, &checkpoint.save())
        {
            self.fail(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use tintype::image::{ImageModel, LoadOptions};

    use super::*;

    #[test]
    fn the_bar_shows_phase_steps_rate_and_time_left() {
        let terminal = InMemoryTerm::new(4, 100);
        let cancel = CancelToken::new();
        let (request, target) =
            (ImageRequest::new("a cat"), Target { output: &Output::Stream, checkpoint: None });
        let model = ImageModel::built_in(&LoadOptions::default()).unwrap();
        let mut watcher = Watcher::new(&cancel, &request, model.info(), target, true);
        watcher.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let mut at = |done| {
            watcher.progress(&Progress {
                picture: 1,
                pictures: 3,
                phase: Phase::Denoise,
                done,
                total: 20,
                elapsed: Duration::from_secs(1),
            });
            watcher.bar.tick();
        };
        at(0);
        at(12);
        let shown = terminal.contents();
        assert!(shown.starts_with("picture 2 of 3: denoising █"), "{shown}");
        for part in ["12/20", "/s", "s left"] {
            assert!(shown.contains(part), "{shown}\nlacks {part}");
        }
    }
}
