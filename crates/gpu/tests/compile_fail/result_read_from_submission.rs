//! Work in flight has no results to read.
use tintype_gpu::{Buffer, Submission};

fn early(submission: Submission, buffer: Buffer) {
    let _values: Result<Vec<f32>, _> = submission.read(&buffer);
}

fn main() {}
