//! Running a plan: inputs in, recorded passes submitted one after another, outputs out. Two
//! submissions are kept in flight, so that a GPU does not wait for the host; whoever runs is asked
//! between and while waiting whether to stop. It must not know graphs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tintype_gpu::{Done, Element, Submission, Timing};

use super::Plan;
use crate::Tensor;
use crate::error::{Error, Result};

/// How long a wait may last before it is asked again whether to stop.
const POLL: Duration = Duration::from_millis(5);

/// Submissions in flight.
const IN_FLIGHT: usize = 2;

impl Plan {
    fn refuse(&self, what: &str, reason: impl Into<String>) -> Error {
        Error::Graph {
            node: format!("{} {what}", self.recipe.options.label),
            reason: reason.into(),
        }
    }

    fn names(map: &std::collections::HashMap<String, Tensor>) -> String {
        let mut names: Vec<_> = map.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// The tensor that an input lies in.
    pub fn input(&self, name: &str) -> Result<&Tensor> {
        self.inputs.get(name).ok_or_else(|| {
            let reason = format!("there is none; inputs are {}", Self::names(&self.inputs));
            self.refuse(&format!("input {name}"), reason)
        })
    }

    /// The tensor that an output lies in after a run.
    pub fn output(&self, name: &str) -> Result<&Tensor> {
        self.outputs.get(name).ok_or_else(|| {
            let reason = format!("there is none; outputs are {}", Self::names(&self.outputs));
            self.refuse(&format!("output {name}"), reason)
        })
    }

    /// Writes an input, row-major; it keeps these values until it is written again.
    pub fn write<T: Element>(&mut self, name: &str, data: &[T]) -> Result<()> {
        let dtype = self.input(name)?.dtype();
        if dtype != T::DTYPE {
            let reason = format!("it holds {dtype}, {} is given", T::DTYPE);
            return Err(self.refuse(&format!("input {name}"), reason));
        }
        self.write_bytes(name, bytemuck::cast_slice(data))
    }

    /// Writes an input's bytes.
    pub fn write_bytes(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let input = self.input(name)?;
        if input.span_bytes() != data.len() as u64 {
            let reason =
                format!("it is {input}, {} bytes; {} are given", input.span_bytes(), data.len());
            return Err(self.refuse(&format!("input {name}"), reason));
        }
        Ok(self.device.upload(&input.write()?, data)?)
    }

    /// Runs the plan. `stop` is asked at least every few milliseconds; once it says yes the run ends
    /// with [`tintype_gpu::Error::Cancelled`], its outputs unspecified, states perhaps half updated,
    /// and the plan can be run again.
    pub fn run(&mut self, stop: &dyn Fn() -> bool, timeout: Duration) -> Result<()> {
        self.done = None;
        self.timings.clear();
        let deadline = Instant::now() + timeout;
        let mut flight: VecDeque<(usize, Submission)> = VecDeque::new();
        let mut outcome = Ok(());
        for at in 0..self.passes.len() {
            if outcome.is_ok() && stop() {
                outcome = Err(tintype_gpu::Error::Cancelled.into());
            }
            if outcome.is_ok() {
                outcome = self.submit(at).map(|submission| flight.push_back((at, submission)));
            }
            if outcome.is_ok() && flight.len() >= IN_FLIGHT {
                outcome = self.finish_first(&mut flight, stop, deadline, timeout);
            }
            if outcome.is_err() {
                break;
            }
        }
        while outcome.is_ok() && !flight.is_empty() {
            outcome = self.finish_first(&mut flight, stop, deadline, timeout);
        }
        if outcome.is_err() {
            flight.iter().for_each(|(_, submission)| submission.cancel());
            self.done = None;
            // Dropping a submission waits for it.
        } else if self.passes.is_empty() {
            self.done = Some(self.device.idle(timeout)?);
        }
        outcome
    }

    fn submit(&mut self, at: usize) -> Result<Submission> {
        let pass = match self.passes[at].take() {
            Some(pass) => pass,
            None => {
                let segment = self.recipe.segments().swap_remove(at);
                self.recipe.record(&self.device, &segment)?
            }
        };
        Ok(pass.submit()?)
    }

    /// Waits for the earliest submission, asking `stop` again and again.
    fn finish_first(
        &mut self,
        flight: &mut VecDeque<(usize, Submission)>,
        stop: &dyn Fn() -> bool,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<()> {
        let Some((at, mut submission)) = flight.pop_front() else { return Ok(()) };
        loop {
            match submission.wait(POLL) {
                Ok((pass, done)) => {
                    self.passes[at] = Some(pass);
                    self.keep(done);
                    return Ok(());
                }
                Err(unfinished) => match unfinished.submission {
                    Some(running) => submission = running,
                    None => return Err(unfinished.error.into()),
                },
            }
            let late = Instant::now() >= deadline;
            if late || stop() {
                flight.iter().for_each(|(_, later)| later.cancel());
                submission.cancel();
                drop(submission);
                return Err(match late {
                    true => tintype_gpu::Error::Timeout { waited: timeout }.into(),
                    false => tintype_gpu::Error::Cancelled.into(),
                });
            }
        }
    }

    fn keep(&mut self, done: Done) {
        let offset = self.timings.iter().map(|timing| timing.end).max().unwrap_or_default();
        self.timings.extend(done.timings().iter().map(|timing| Timing {
            label: timing.label.clone(),
            start: offset + timing.start,
            end: offset + timing.end,
        }));
        self.done = Some(done);
    }

    /// Times of the last run's dispatches, in order, if the plan was compiled with timestamps.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Reads an output of the last run, row-major.
    pub fn read<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let output = self.output(name)?;
        if output.dtype() != T::DTYPE {
            let reason = format!("it holds {}, asked for {}", output.dtype(), T::DTYPE);
            return Err(self.refuse(&format!("output {name}"), reason));
        }
        let mut data = vec![T::zeroed(); output.elements()];
        self.read_into(name, bytemuck::cast_slice_mut(&mut data))?;
        Ok(data)
    }

    /// Reads an output's bytes; `data` must be exactly as long.
    pub fn read_into(&self, name: &str, data: &mut [u8]) -> Result<()> {
        let output = self.output(name)?;
        let Some(done) = &self.done else {
            let reason = "the plan has not run, or its last run did not complete";
            return Err(self.refuse(&format!("output {name}"), reason));
        };
        Ok(done.read_into(&output.read()?, data)?)
    }
}
