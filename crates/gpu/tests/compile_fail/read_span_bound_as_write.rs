//! A span for reading is no span for writing.
use tintype_gpu::{Buffer, Device};

fn overwrite(device: Device, buffer: Buffer) {
    let _ = device.upload(&buffer.read(), &[1.0f32]);
}

fn main() {}
