//! Every case of every operation on every device: right against float64, the same bytes on every
//! run and for any number of CPU threads, nothing written beside the output.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tintype_tensor::ops::OPERATIONS;

#[test]
fn every_operation_is_right_on_every_device() {
    let seed = seed();
    let mut failures = Vec::new();
    for device in devices() {
        for operation in OPERATIONS {
            let started = std::time::Instant::now();
            let cases = (operation.cases)();
            for (at, case) in cases.iter().enumerate() {
                if !selected(operation.name, &case.name) {
                    continue;
                }
                if let Some(missing) = missing(&device, case) {
                    eprintln!("skipped: {} on {device:?}: no {missing}", case.name);
                    continue;
                }
                let data = Data::new(case, seed ^ at as u64);
                if let Err(reason) = data.check(case, &device) {
                    failures
                        .push(format!("{device:?}: {}: {}: {reason}", operation.name, case.name));
                }
            }
            eprintln!(
                "{device:?}: {}: {} cases, {:?}",
                operation.name,
                cases.len(),
                started.elapsed()
            );
        }
    }
    // Empty unless the validation layer is switched on, or speaks.
    failures.extend(tintype_gpu::testing::validation_messages());
    let shown = failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "seed {seed}: {} failures\n{shown}", failures.len());
}

#[test]
fn cpu_results_do_not_depend_on_the_number_of_threads() {
    let seed = seed();
    let devices = [cpu(1), cpu(2), cpu(3)];
    for operation in OPERATIONS {
        for (at, case) in (operation.cases)().iter().enumerate() {
            if !selected(operation.name, &case.name) {
                continue;
            }
            let data = Data::new(case, seed ^ at as u64);
            let all: Vec<_> =
                devices.iter().map(|device| data.run(case, device).unwrap()).collect();
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: {}", case.name);
        }
    }
}
