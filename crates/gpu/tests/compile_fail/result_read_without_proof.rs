//! Host reads need the proof that the device is done: a buffer alone cannot be read, and the proof
//! cannot be made up.
use tintype_gpu::{Buffer, Done};

fn early(buffer: Buffer) {
    let done = Done {};
    let _values: Vec<f32> = done.read(&buffer).unwrap();
    let _mapped = buffer.map_read::<f32>();
}

fn main() {}
