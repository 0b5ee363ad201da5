//! Stopping a run: asked at every submission, obeyed before the next unit of work, units short; and the
//! plan runs again with the same bytes. Counted, never timed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tintype_gpu::kernel::{KernelSource, Unit, UnitError};
use tintype_gpu::{DType, Device, Dispatch, Session, Split};
use tintype_tensor::graph::{Graph, Meta, Op, Plan, PlanOptions};
use tintype_tensor::ops::OPERATIONS;
use tintype_tensor::ops::case::Case;
use tintype_tensor::{Result, Tensor};

use crate::{PATIENCE, common};

/// Products in a row.
fn products(operations: usize) -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", DType::F32, &[24, 24]).unwrap();
    let mut y = x;
    for _ in 0..operations {
        y = graph.matmul(y, x).unwrap();
    }
    graph.output("y", y).unwrap();
    graph
}

#[test]
fn a_run_is_asked_at_every_submission_and_the_plan_runs_again() {
    let mut random = fastrand::Rng::with_seed(common::seed());
    let x: Vec<f32> = (0..24 * 24).map(|_| random.f32() - 0.5).collect();
    for device in common::devices() {
        let options = PlanOptions { segment_dispatches: 2, ..PlanOptions::default() };
        let mut plan = Plan::compile(&products(14), &device, options).unwrap();
        let segments = plan.stats().segments;
        assert_eq!(segments, 7);
        plan.write("x", &x).unwrap();
        let asked = Cell::new(0);
        let stop_at = |patience: usize| {
            asked.set(0);
            let asked = &asked;
            move || {
                asked.set(asked.get() + 1);
                asked.get() > patience
            }
        };
        plan.run(&stop_at(usize::MAX), PATIENCE).unwrap();
        assert!(asked.get() >= segments, "{device:?}: asked {} times", asked.get());
        let expected = plan.read::<f32>("y").unwrap();
        for patience in 0..segments {
            let error = plan.run(&stop_at(patience), PATIENCE).unwrap_err();
            assert!(error.to_string().contains("cancelled"), "{device:?}: {error}");
            assert_eq!(asked.get(), patience + 1, "{device:?}: asked after it said yes");
            assert!(plan.read::<f32>("y").is_err());
        }
        plan.run(&|| false, PATIENCE).unwrap();
        assert_eq!(plan.read::<f32>("y").unwrap(), expected);
    }
}

/// Units of [`Slow`]: they would take many seconds.
const UNITS: u32 = 20_000;
static STARTED: AtomicU32 = AtomicU32::new(0);
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// From the tenth on, units wait until the run was asked whether to stop.
fn slow(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    if STARTED.fetch_add(1, SeqCst) >= 10 {
        while !ANSWERED.load(SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let out: &mut [f32] = unit.write(0)?;
    out.fill(1.0);
    Ok(())
}

const SLOW: KernelSource = KernelSource {
    name: "slow",
    wgsl: "@group(0) @binding(0) var<storage, read_write> out: array<f32>;
           @compute @workgroup_size(1) fn main() { out[0] = 1.0; }",
    entry: "main",
    aliases: &[],
    cpu: slow,
};

#[derive(Debug)]
struct Slow;

impl Op for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn outputs(&self, _inputs: &[Meta]) -> Result<Vec<Meta>> {
        Ok(vec![Meta::new(DType::F32, &[UNITS as usize])])
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        _inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let kernel = session.device().kernel(&SLOW, &[])?;
        let dispatch = Dispatch::new(&kernel).bind(outputs[0].write()?);
        session.dispatch(dispatch.cpu(UNITS, [Split::Chunks(4)]))?;
        Ok(())
    }
}

#[test]
fn a_stop_and_a_timeout_are_obeyed_between_units_of_work() {
    let mut graph = Graph::new();
    let y = graph.apply(Slow, &[]).unwrap();
    graph.output("y", y).unwrap();
    for threads in [1, 3] {
        let device = common::cpu(threads);
        let mut plan = Plan::compile(&graph, &device, PlanOptions::default()).unwrap();
        let again = |answered| {
            STARTED.store(0, SeqCst);
            ANSWERED.store(answered, SeqCst);
        };
        again(false);
        let stop = || {
            let now = STARTED.load(SeqCst) >= 10;
            ANSWERED.store(now, SeqCst);
            now
        };
        let error = plan.run(&stop, PATIENCE).unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
        assert!(STARTED.load(SeqCst) < UNITS, "all units ran though asked to stop");
        again(true);
        let error = plan.run(&|| false, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("had not completed"), "{error}");
        assert!(STARTED.load(SeqCst) < UNITS, "all units ran though time was up");
    }
}

/// Most work of a unit, so that a stop is obeyed within about 20 ms: what a core multiplies and adds
/// in that time at 30 GFLOP/s, and what it moves through memory at 2 GB/s.
const MOST_FLOPS: f64 = 6e8;
const MOST_BYTES: f64 = 4e7;

/// Operations and bytes of an average unit of a case.
fn unit_work(case: &Case, device: &Device) -> (f64, f64) {
    let tensor = |operand: &tintype_tensor::ops::case::Operand| {
        let (strides, start, elements) = operand.layout.place(&operand.shape);
        let whole = elements.next_multiple_of(operand.dtype.block_elements() as usize);
        let buffer = device.buffer(operand.dtype, &[whole]).unwrap();
        Tensor::strided(&buffer, &operand.shape, &strides, start).unwrap()
    };
    let inputs: Vec<Tensor> = case.inputs.iter().map(tensor).collect();
    let output = case.in_place.map_or_else(|| tensor(&case.output), |n| inputs[n].clone());
    let mut session = device.session().unwrap();
    (case.record)(&mut session, &inputs, &output).unwrap();
    let pass = session.finish().unwrap();
    let units: f64 = pass.units().map(|(_, units)| f64::from(units)).sum();
    (case.flops / units, case.bytes() / units)
}

#[test]
fn units_of_work_are_short_at_the_shapes_of_real_models() {
    let device = common::cpu(2);
    let mut long = Vec::new();
    for operation in OPERATIONS {
        for case in (operation.benches)() {
            let (flops, bytes) = unit_work(&case, &device);
            if flops > MOST_FLOPS || bytes > MOST_BYTES {
                long.push(format!(
                    "{} {}: {flops:.1e} operations, {bytes:.1e} bytes",
                    operation.name, case.name
                ));
            }
        }
    }
    assert!(long.is_empty(), "units too long to poll between:\n{}", long.join("\n"));
}
