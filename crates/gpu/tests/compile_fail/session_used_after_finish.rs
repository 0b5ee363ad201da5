//! A finished session records nothing more.
use tintype_gpu::Session;

fn late(mut session: Session<'_>) {
    let _pass = session.finish();
    session.barrier();
}

fn main() {}
