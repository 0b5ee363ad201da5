//! Random sequences of valid and invalid calls of the whole session API: whatever the order, each
//! call returns (no panic), nothing leaks, and what a valid pass computes is right.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::*;
use proptest::prelude::*;
use tintype_gpu::{
    Binding, Buffer, CpuGrid, DType, Device, Dispatch, Done, Error, MappedWrite, Ordering, Pass,
    Placement, Pool, Session, SessionOptions, Split, Submission,
};

/// A buffer by number, whether it is bound for writing, and part of it.
type Bound = (usize, bool, Option<(u64, u64)>);

/// One call. Numbers are taken modulo what is there.
#[derive(Debug, Clone)]
enum Step {
    Allocate {
        dtype: usize,
        shape: Vec<usize>,
        host: bool,
        pooled: bool,
    },
    View {
        buffer: usize,
        offset: u64,
        dtype: usize,
        shape: Vec<usize>,
    },
    Free {
        buffer: usize,
    },
    Upload {
        buffer: usize,
        start: u64,
        end: u64,
        bytes: usize,
    },
    Begin {
        ordering: u8,
        timestamps: bool,
        adversary: Option<u64>,
    },
    Dispatch {
        kernel: usize,
        bindings: Vec<Bound>,
        immediates: usize,
        groups: [u32; 3],
        grid: (u32, Vec<u8>),
    },
    Barrier,
    BarrierBetween {
        reads: Vec<usize>,
        writes: Vec<usize>,
    },
    Reset,
    Finish,
    Submit {
        pass: usize,
    },
    Wait {
        submission: usize,
        micros: u64,
    },
    Cancel {
        submission: usize,
    },
    DropSubmission {
        submission: usize,
    },
    SetImmediates {
        pass: usize,
        dispatch: usize,
        bytes: usize,
    },
    SetBinding {
        pass: usize,
        dispatch: usize,
        slot: usize,
        buffer: usize,
        write: bool,
    },
    Read {
        buffer: usize,
    },
    Map {
        buffer: usize,
    },
    Unmap,
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    let extent = prop_oneof![12 => 0usize..300, 1 => Just(256), 1 => Just(usize::MAX), 1 => Just(1usize << 40)];
    prop::collection::vec(extent, 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let binding = (0usize..8, any::<bool>(), prop::option::weighted(0.3, (0u64..900, 0u64..900)));
    let groups = prop_oneof![
        6 => Just([4u32, 1, 1]),
        1 => Just([0, 1, 1]),
        1 => Just([u32::MAX; 3]),
        2 => (1u32..6, 1u32..3, 1u32..3).prop_map(|(x, y, z)| [x, y, z]),
    ];
    prop_oneof![
        6 => (0usize..DType::ALL.len() * 3, shape(), any::<bool>(), any::<bool>())
            .prop_map(|(dtype, shape, host, pooled)| Step::Allocate { dtype, shape, host, pooled }),
        2 => (0usize..8, 0u64..600, 0usize..DType::ALL.len(), shape())
            .prop_map(|(buffer, offset, dtype, shape)| Step::View { buffer, offset, dtype, shape }),
        1 => (0usize..8).prop_map(|buffer| Step::Free { buffer }),
        2 => (0usize..8, 0u64..900, 0u64..900, 0usize..900)
            .prop_map(|(buffer, start, end, bytes)| Step::Upload { buffer, start, end, bytes }),
        3 => (0u8..3, any::<bool>(), prop::option::of(0u64..9))
            .prop_map(|(ordering, timestamps, adversary)| Step::Begin { ordering, timestamps, adversary }),
        10 => (0usize..3, prop::collection::vec(binding, 0..4), prop_oneof![8 => Just(12usize), 1 => 0usize..40], groups, (0u32..6, prop::collection::vec(0u8..8, 0..3)))
            .prop_map(|(kernel, bindings, immediates, groups, grid)| Step::Dispatch { kernel, bindings, immediates, groups, grid }),
        3 => Just(Step::Barrier),
        2 => (prop::collection::vec(0usize..8, 0..3), prop::collection::vec(0usize..8, 0..3))
            .prop_map(|(reads, writes)| Step::BarrierBetween { reads, writes }),
        1 => Just(Step::Reset),
        3 => Just(Step::Finish),
        4 => (0usize..4).prop_map(|pass| Step::Submit { pass }),
        4 => (0usize..4, prop_oneof![Just(0u64), Just(10_000_000)])
            .prop_map(|(submission, micros)| Step::Wait { submission, micros }),
        1 => (0usize..4).prop_map(|submission| Step::Cancel { submission }),
        1 => (0usize..4).prop_map(|submission| Step::DropSubmission { submission }),
        2 => (0usize..4, 0usize..6, prop_oneof![Just(12usize), 0usize..40])
            .prop_map(|(pass, dispatch, bytes)| Step::SetImmediates { pass, dispatch, bytes }),
        2 => (0usize..4, 0usize..6, 0usize..4, 0usize..8, any::<bool>())
            .prop_map(|(pass, dispatch, slot, buffer, write)| Step::SetBinding { pass, dispatch, slot, buffer, write }),
        3 => (0usize..8).prop_map(|buffer| Step::Read { buffer }),
        1 => (0usize..8).prop_map(|buffer| Step::Map { buffer }),
        1 => Just(Step::Unmap),
    ]
}

/// Everything a caller may hold.
struct World<'d> {
    device: &'d Device,
    pool: Pool,
    buffers: Vec<Buffer>,
    session: Option<Session<'d>>,
    ids: Vec<tintype_gpu::DispatchId>,
    passes: Vec<Pass>,
    submissions: Vec<Submission>,
    done: Option<Done>,
    mapped: Option<MappedWrite<f32>>,
}

fn pick<T>(items: &[T], at: usize) -> Option<&T> {
    (!items.is_empty()).then(|| &items[at % items.len()])
}

fn take<T>(items: &mut Vec<T>, at: usize) -> Option<T> {
    (!items.is_empty()).then(|| items.swap_remove(at % items.len()))
}

impl World<'_> {
    /// Runs one step; `None` if there is nothing to run it on.
    fn step(&mut self, step: Step) -> Option<Result<(), Error>> {
        match step {
            Step::Allocate { dtype, shape, host, pooled } => {
                // Mostly f32, which the kernels take.
                let dtype = *DType::ALL.get(dtype).unwrap_or(&DType::F32);
                let place = if host { Placement::Host } else { Placement::Device };
                let made = match pooled {
                    true => self.pool.buffer(dtype, &shape, place),
                    false => self.device.buffer_in(dtype, &shape, place),
                };
                Some(made.map(|buffer| self.buffers.push(buffer)))
            }
            Step::View { buffer, offset, dtype, shape } => {
                let view = pick(&self.buffers, buffer)?.view(offset, DType::ALL[dtype], &shape);
                Some(view.map(|view| self.buffers.push(view)))
            }
            Step::Free { buffer } => take(&mut self.buffers, buffer).map(|_| Ok(())),
            Step::Upload { buffer, start, end, bytes } => {
                let span = pick(&self.buffers, buffer)?.write_bytes(start, end);
                Some(span.and_then(|span| self.device.upload(&span, &vec![7u8; bytes])))
            }
            Step::Begin { ordering, timestamps, adversary } => {
                let ordering = [Ordering::Checked, Ordering::Automatic, Ordering::Unchecked]
                    [ordering as usize];
                let judged = std::env::var_os("VK_INSTANCE_LAYERS").is_some();
                // Under the validation layer a race on purpose would count as a finding.
                let ordering = match ordering {
                    Ordering::Unchecked if judged => Ordering::Automatic,
                    other => other,
                };
                let options =
                    SessionOptions { ordering, timestamps, adversary, ..Default::default() };
                self.ids.clear();
                Some(self.device.session_with(options).map(|new| self.session = Some(new)))
            }
            Step::Dispatch { kernel, bindings, immediates, groups, grid } => {
                let source = [SCALE_ADD, SCALE_ADD_IN_PLACE, REVERSE][kernel];
                let kernel = self.device.kernel(&source, &[]).unwrap();
                let mut dispatch =
                    Dispatch::new(&kernel).groups(groups).immediate_bytes(&vec![0; immediates]);
                for (buffer, write, range) in bindings {
                    dispatch = dispatch.bind(self.span(buffer, write, range)?);
                }
                let splits: Vec<Split> = grid.1.into_iter().map(split).collect();
                let CpuGrid { units, splits } = CpuGrid { units: grid.0, splits };
                let session = self.session.as_mut()?;
                let recorded = session.dispatch(dispatch.cpu(units, splits));
                Some(recorded.map(|id| self.ids.push(id)))
            }
            Step::Barrier => self.session.as_mut().map(|session| {
                session.barrier();
                Ok(())
            }),
            Step::BarrierBetween { reads, writes } => {
                let read = |at: &usize| pick(&self.buffers, *at).map(Buffer::read);
                let write = |at: &usize| pick(&self.buffers, *at).map(Buffer::write);
                let reads: Option<Vec<_>> = reads.iter().map(read).collect();
                let writes: Option<Vec<_>> = writes.iter().map(write).collect();
                Some(self.session.as_mut()?.barrier_between(&reads?, &writes?))
            }
            Step::Reset => self.session.as_mut().map(|session| {
                session.reset();
                Ok(())
            }),
            Step::Finish => {
                let finished = self.session.take()?.finish();
                Some(finished.map(|pass| self.passes.push(pass)))
            }
            Step::Submit { pass } => {
                let submitted = take(&mut self.passes, pass)?.submit();
                Some(submitted.map(|submission| self.submissions.push(submission)))
            }
            Step::Wait { submission, micros } => {
                let submission = take(&mut self.submissions, submission)?;
                Some(match submission.wait(Duration::from_micros(micros)) {
                    Ok((pass, done)) => {
                        self.passes.push(pass);
                        self.done = Some(done);
                        Ok(())
                    }
                    Err(unfinished) => {
                        self.submissions.extend(unfinished.submission);
                        Err(unfinished.error)
                    }
                })
            }
            Step::Cancel { submission } => {
                pick(&self.submissions, submission)?.cancel();
                Some(Ok(()))
            }
            Step::DropSubmission { submission } => {
                take(&mut self.submissions, submission).map(|_| Ok(()))
            }
            Step::SetImmediates { pass, dispatch, bytes } => {
                let id = *pick(&self.ids, dispatch)?;
                let at = pass % self.passes.len().max(1);
                let pass = self.passes.get_mut(at)?;
                Some(match bytes {
                    12 => pass.set_immediates(id, &[0u32; 3]),
                    4 => pass.set_immediates(id, &0u32),
                    _ => pass.set_immediates(id, &[0u64; 5]),
                })
            }
            Step::SetBinding { pass, dispatch, slot, buffer, write } => {
                let id = *pick(&self.ids, dispatch)?;
                let span = self.span(buffer, write, None)?;
                let at = pass % self.passes.len().max(1);
                Some(self.passes.get_mut(at)?.set_binding(id, slot, span))
            }
            Step::Read { buffer } => {
                let buffer = pick(&self.buffers, buffer)?;
                let done = self.done.as_ref()?;
                if buffer.elements() > 1 << 20 {
                    return None;
                }
                Some(done.read::<f32>(buffer).map(drop))
            }
            Step::Map { buffer } => {
                let mapped = pick(&self.buffers, buffer)?.map_write::<f32>();
                Some(mapped.map(|mut mapped| {
                    mapped.fill(1.0);
                    self.mapped = Some(mapped);
                }))
            }
            Step::Unmap => self.mapped.take().map(|_| Ok(())),
        }
    }

    fn span(&self, buffer: usize, write: bool, range: Option<(u64, u64)>) -> Option<Binding> {
        let buffer = pick(&self.buffers, buffer)?;
        let (start, end) = range.unwrap_or((0, buffer.bytes()));
        // Kernels of the tests take f32 at multiples of 4 bytes; on the CPU others are errors, a
        // GPU's answer to them is its own.
        let (start, end) = match self.device.info().limits.threads {
            0 => (start / 256 * 256, end / 4 * 4),
            _ => (start, end),
        };
        match write {
            true => buffer.write_bytes(start, end).ok().map(Binding::Write),
            false => buffer.read_bytes(start, end).ok().map(Binding::Read),
        }
    }
}

fn split(number: u8) -> Split {
    match number {
        0 => Split::Whole,
        1 => Split::Chunks(0),
        2 => Split::Chunks(u64::MAX),
        3 => Split::Tiles { row_bytes: 0, tile_rows: 0, tile_bytes: 0, columns: 0 },
        4 => Split::Tiles { row_bytes: 4, tile_rows: u64::MAX, tile_bytes: 4, columns: 1 },
        _ => Split::Chunks(256),
    }
}

fn drive(device: &Device, steps: Vec<Step>) -> usize {
    let mut world = World {
        device,
        pool: Pool::new(device, 1 << 16),
        buffers: Vec::new(),
        session: None,
        ids: Vec::new(),
        passes: Vec::new(),
        submissions: Vec::new(),
        done: None,
        mapped: None,
    };
    let mut worked = 0;
    for step in steps {
        let shown = format!("{step:?}");
        match world.step(step) {
            Some(Err(Error::DeviceLost { .. } | Error::Driver { .. })) => {
                panic!("{shown} broke the device")
            }
            Some(Ok(())) => worked += 1,
            Some(Err(_)) | None => {}
        }
        let memory = device.memory();
        assert!(memory.free <= memory.total);
    }
    drop(world);
    let stats = device.stats();
    assert_eq!((stats.allocations, stats.allocated), (0, 0), "something leaked");
    worked
}

#[test]
fn any_sequence_of_calls_returns_and_leaks_nothing() {
    for device in devices() {
        let cases = if device.info().limits.threads > 0 { 1500 } else { 150 };
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases,
            failure_persistence: None,
            ..Default::default()
        });
        let worked = std::cell::Cell::new(0);
        let outcome = runner.run(&prop::collection::vec(step(), 1..60), |steps| {
            worked.set(worked.get() + drive(&device, steps));
            Ok(())
        });
        if let Err(failure) = outcome {
            panic!("{device:?}: {failure}");
        }
        // The generator must reach real work, or the test shows nothing.
        let submitted = device.stats().submitted;
        eprintln!("{device:?}: {} calls worked, {submitted} submissions", worked.get());
        assert!(submitted > u64::from(cases) / 10, "{submitted} submissions in {cases} cases");
    }
}
