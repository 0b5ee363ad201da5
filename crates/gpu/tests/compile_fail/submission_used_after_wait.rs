//! A submission that was waited for is gone.
use std::time::Duration;

use tintype_gpu::Submission;

fn twice(submission: Submission) {
    let _first = submission.wait(Duration::from_secs(1));
    let _second = submission.wait(Duration::from_secs(1));
}

fn main() {}
