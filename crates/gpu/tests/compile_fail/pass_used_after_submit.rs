//! A pass in flight cannot be submitted again.
use tintype_gpu::Pass;

fn twice(pass: Pass) {
    let _first = pass.submit();
    let _second = pass.submit();
}

fn main() {}
