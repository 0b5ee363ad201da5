//! Graphs: what is to be computed, as values and operations, before any memory exists; and plans:
//! the same, compiled for one device and replayed.
//!
//! ```text
//! Graph ──verify──▶ fuse ──▶ lay out ──▶ order ──▶ allocate ──▶ record ──▶ Plan
//! values,           rewrite   copies for   stages of   one arena,   passes with    write inputs,
//! operations        patterns  strides      independent spans reused barriers, cut  run, read outputs,
//!                                          nodes                    into segments  again and again
//! ```
//!
//! A builder makes [`Value`]s: inputs that change from run to run, weights and states that lie in
//! device memory, and results of operations. Every operation checks types and shapes as it is
//! applied, so a graph that was built is well typed. An operation becomes a node by implementing
//! [`Op`] in its own folder, and gives builders a method in an `impl Graph` block beside it.
//!
//! It must not know files or models.

mod allocate;
mod build;
mod dump;
mod fuse;
pub mod memory;
mod meta;
mod op;
mod order;
mod place;
mod plan;
mod rewrite;
mod storage;
mod verify;
mod view;

pub use build::{Graph, Value};
pub use meta::{Meta, broadcast_shape, exactly, refuse_dtype, refuse_shape};
pub use op::{Layout, Op};
pub use plan::{Plan, PlanOptions, PlanStats};
pub use view::View;
