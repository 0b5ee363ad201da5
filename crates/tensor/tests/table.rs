//! `docs/operations.md` is generated from the list of operations and their cases, and is up to date.
//! `TINTYPE_UPDATE=1` writes it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write;

use tintype_gpu::DType;
use tintype_tensor::ops::OPERATIONS;

fn table() -> String {
    let mut text = String::from(
        "# Operations\n\n\
         Generated from the list in `crates/tensor/src/ops/mod.rs`: `TINTYPE_UPDATE=1 cargo test -p tintype-tensor --test table`.\n\n\
         A type is listed where test cases take it (\"in\") or give it (\"out\"); an empty cell is a hole. \
         Every case runs on the CPU and on every Vulkan device of the machine, against float64. \
         Metal: every kernel is translated to Metal source in a test; it has not run on a Mac yet.\n\n",
    );
    let types: Vec<DType> = DType::ALL.to_vec();
    let names: Vec<_> = types.iter().map(|dtype| dtype.name()).collect();
    writeln!(text, "| operation | what | kernels | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|---|---|{}", "---|".repeat(types.len())).unwrap();
    for operation in OPERATIONS {
        let cases = (operation.cases)();
        let kernels: BTreeSet<_> = (operation.kernels)().iter().map(|v| v.source.name).collect();
        let kernels: Vec<_> = kernels.into_iter().map(|name| format!("`{name}`")).collect();
        let cell = |dtype: &DType| {
            let taken = cases.iter().any(|case| case.inputs.iter().any(|o| o.dtype == *dtype));
            let given = cases.iter().any(|case| case.output.dtype == *dtype);
            match (taken, given) {
                (true, true) => "in out",
                (true, false) => "in",
                (false, true) => "out",
                (false, false) => "",
            }
        };
        let cells: Vec<_> = types.iter().map(cell).collect();
        let kernels = if kernels.is_empty() { "of others".into() } else { kernels.join(" ") };
        let (name, what) = (operation.name, operation.summary);
        writeln!(text, "| {name} | {what} | {kernels} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

#[test]
fn the_table_of_operations_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let wanted = table();
    if std::env::var_os("TINTYPE_UPDATE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == wanted, "docs/operations.md is not up to date: run with TINTYPE_UPDATE=1");
}
