//! Blocks of real models with random weights equal what PyTorch computes in float64
//! (`xtask/python/block_goldens.py`, written by `cargo xtask golden`), fused and not, on every device, in
//! F32, and with everything in memory in F16 (sums stay in f32).
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod images;
mod text;

use std::path::Path;

use half::f16;
use safetensors::SafeTensors;
use tintype_gpu::{DType, Device, Ordering};
use tintype_tensor::graph::{Graph, Plan, PlanOptions, Value};
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::{Result, Tensor};

/// A golden's tensors by name, and the graph that is being built of them.
pub(crate) struct Block<'a> {
    pub(crate) graph: Graph,
    golden: SafeTensors<'a>,
    device: Device,
    /// Type of everything in memory.
    dtype: DType,
}

impl Block<'_> {
    /// The golden of this name as a weight.
    pub(crate) fn get(&mut self, name: &str) -> Value {
        let view = self.golden.tensor(name).unwrap();
        let halves = |bytes: &[u8]| f16::from_f32(number(bytes)).to_le_bytes();
        let bytes: Vec<u8> = match self.dtype {
            DType::F16 => view.data().chunks_exact(4).flat_map(halves).collect(),
            _ => view.data().to_vec(),
        };
        let buffer = self.device.buffer_from_bytes(self.dtype, view.shape(), &bytes).unwrap();
        self.graph.weight(name, &Tensor::of(&buffer.named(name)).unwrap())
    }

    fn find(&mut self, name: &str) -> Option<Value> {
        self.golden.tensor(name).is_ok().then(|| self.get(name))
    }

    pub(crate) fn linear(&mut self, name: &str, x: Value) -> Result<Value> {
        let w = self.get(&format!("{name}.weight"));
        let bias = self.find(&format!("{name}.bias"));
        self.graph.linear(x, w, bias)
    }

    pub(crate) fn layer_norm(&mut self, name: &str, x: Value) -> Result<Value> {
        let weights = ["weight", "bias"].map(|part| Some(self.get(&format!("{name}.{part}"))));
        self.graph.layer_norm(x, weights[0], weights[1], 1e-5)
    }

    pub(crate) fn group_norm(
        &mut self,
        name: &str,
        x: Value,
        eps: f32,
        silu: bool,
    ) -> Result<Value> {
        let weights = ["weight", "bias"].map(|part| Some(self.get(&format!("{name}.{part}"))));
        self.graph.group_norm(x, 8, weights, eps, silu)
    }

    /// `[batch, tokens, heads·numbers]` → `[batch, heads, tokens, numbers]`
    pub(crate) fn heads(&mut self, x: Value, heads: usize) -> Result<Value> {
        let shape = self.graph.shape(x)?;
        let split = [shape[0], shape[1], heads, shape[2] / heads];
        let split = self.graph.reshape(x, &split)?;
        self.graph.permute(split, &[0, 2, 1, 3])
    }

    pub(crate) fn attention(
        &mut self,
        name: &str,
        x: Value,
        context: Value,
        heads: usize,
        op: impl FnOnce(f32) -> AttentionOp,
        rest: &[Value],
    ) -> Result<Value> {
        let shape = self.graph.shape(x)?;
        let mut qkv = Vec::new();
        for (part, from) in [("q", x), ("k", context), ("v", context)] {
            let projected = self.linear(&format!("{name}.{part}"), from)?;
            qkv.push(self.heads(projected, heads)?);
        }
        let scale = ((shape[2] / heads) as f32).sqrt().recip();
        let y = self.graph.attention(op(scale), [qkv[0], qkv[1], qkv[2]], rest)?;
        let y = self.graph.reshape(y, &shape)?;
        self.linear(&format!("{name}.o"), y)
    }
}

fn number(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().unwrap())
}

/// Builds a block, runs it in every way, and compares with PyTorch.
pub(crate) fn check(
    name: &str,
    fused: &[(&str, usize)],
    build: impl Fn(&mut Block<'_>) -> Result<Value>,
) {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 5e-3)] {
        check_in(dtype, tolerance, name, fused, &build);
    }
}

fn check_in(
    dtype: DType,
    tolerance: f64,
    name: &str,
    fused: &[(&str, usize)],
    build: &dyn Fn(&mut Block<'_>) -> Result<Value>,
) {
    let path = format!("{}/tests/blocks/goldens/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(Path::new(&path)).unwrap();
    for device in common::devices() {
        let golden = SafeTensors::deserialize(&bytes).unwrap();
        let mut block = Block { graph: Graph::new(), golden, device: device.clone(), dtype };
        let y = build(&mut block).unwrap_or_else(|error| panic!("{name}: {error}"));
        block.graph.output("y", y).unwrap();
        assert_eq!(block.graph.dtype(y).unwrap(), dtype);
        let golden = block.golden.tensor("y").unwrap();
        assert_eq!(block.graph.shape(y).unwrap(), golden.shape());
        let expected: Vec<f32> = golden.data().chunks_exact(4).map(number).collect();
        let mut first: Option<Vec<f32>> = None;
        for fuse in [false, true] {
            for ordering in [Ordering::Automatic, Ordering::Checked] {
                let options = PlanOptions { fuse, ordering, ..PlanOptions::default() };
                let mut plan = Plan::compile(&block.graph, &device, options).unwrap();
                plan.run(&|| false, common::PATIENCE).unwrap();
                let result: Vec<f32> = match dtype {
                    DType::F16 => {
                        plan.read::<f16>("y").unwrap().into_iter().map(f16::to_f32).collect()
                    }
                    _ => plan.read("y").unwrap(),
                };
                let norm = |values: &mut dyn Iterator<Item = f32>| -> f64 {
                    values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt()
                };
                let size = norm(&mut expected.iter().copied());
                let of =
                    |other: &[f32]| norm(&mut result.iter().zip(other).map(|(a, b)| a - b)) / size;
                assert!(
                    of(&expected) < tolerance,
                    "{name} in {dtype} on {device:?}, fuse {fuse}: {:e}",
                    of(&expected)
                );
                if let Some(first) = &first {
                    assert!(
                        of(first) < tolerance,
                        "{name} in {dtype} on {device:?}: fusion moves {:e}",
                        of(first)
                    );
                }
                if ordering == Ordering::Automatic {
                    eprintln!(
                        "{name} in {dtype} on {}: {:.1e}; {}",
                        device.info().name,
                        of(&expected),
                        plan.stats()
                    );
                }
                let stats = plan.stats();
                let found: Vec<_> =
                    stats.fused.iter().copied().filter(|(_, count)| *count > 0).collect();
                assert_eq!(found, if fuse { fused } else { &[] }, "{name}");
                assert!(stats.arena_bytes < stats.sum_bytes, "{name}: {stats}");
                first.get_or_insert(result);
                if let Some(folder) = std::env::var_os("TINTYPE_DUMP").filter(|_| fuse) {
                    let file = Path::new(&folder).join(name);
                    std::fs::write(file.with_extension("dot"), plan.graph().to_dot()).unwrap();
                    std::fs::write(file.with_extension("txt"), plan.graph().to_text()).unwrap();
                }
            }
        }
    }
}
