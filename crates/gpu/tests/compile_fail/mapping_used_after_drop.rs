//! Elements of a mapping do not outlive it.
use tintype_gpu::Buffer;

fn dangling(buffer: Buffer) -> f32 {
    let mapped = buffer.map_write::<f32>().unwrap();
    let first = &mapped[0];
    drop(mapped);
    *first
}

fn main() {}
