//! A recording cannot outlive its device.
use tintype_gpu::Device;

fn orphan(device: Device) {
    let mut session = device.session().unwrap();
    drop(device);
    session.barrier();
}

fn main() {}
