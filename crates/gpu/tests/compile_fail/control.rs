//! The right way: what the failing programs are variations of.
use std::time::Duration;

use tintype_gpu::{DType, Device, DeviceOptions, Done, Pass, Placement, Submission};

fn main() -> Result<(), tintype_gpu::Error> {
    let device = Device::cpu(DeviceOptions::default())?;
    let buffer = device.buffer_in(DType::F32, &[4], Placement::Host)?;
    let session = device.session()?;
    let pass: Pass = session.finish()?;
    let submission: Submission = pass.submit()?;
    let (pass, done): (Pass, Done) = submission.wait(Duration::from_secs(5))?;
    let values: Vec<f32> = done.read(&buffer)?;
    drop((pass, values));
    Ok(())
}
