//! Blocks of text encoders and language models.

use tintype_tensor::graph::Value;
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::{Result, graph::Graph};

use crate::{Block, check};

const HEADS: usize = 2;

impl Block<'_> {
    fn rms_norm(&mut self, name: &str, x: Value, offset: f32) -> Result<Value> {
        let gain = self.get(&format!("{name}.weight"));
        self.graph.rms_norm(x, Some(gain), offset, 1e-6)
    }
}

#[test]
fn t5() {
    check("t5", &[("sums with norms", 1), ("pointwise chains", 1)], |block| {
        let (x, bias) = (block.get("x"), block.get("bias"));
        let n = block.rms_norm("norm1", x, 0.0)?;
        let op = |_| AttentionOp { bias: true, ..AttentionOp::new(1.0) };
        let y = block.attention("attention", n, n, HEADS, op, &[bias])?;
        let x = block.graph.add(x, y)?;
        let n = block.rms_norm("norm2", x, 0.0)?;
        let gate = block.linear("wi_0", n)?;
        let gate = block.graph.gelu_tanh(gate)?;
        let up = block.linear("wi_1", n)?;
        let h = block.graph.mul(gate, up)?;
        let y = block.linear("wo", h)?;
        block.graph.add(x, y)
    });
}

#[test]
fn clip() {
    check("clip", &[("sums with norms", 1), ("pointwise chains", 2)], |block| {
        let x = block.get("x");
        let n = block.layer_norm("norm1", x)?;
        let op = |scale| AttentionOp { causal: true, ..AttentionOp::new(scale) };
        let y = block.attention("attention", n, n, HEADS, op, &[])?;
        let x = block.graph.add(x, y)?;
        let n = block.layer_norm("norm2", x)?;
        let h = block.linear("fc1", n)?;
        let h = block.graph.gelu_quick(h)?;
        let y = block.linear("fc2", h)?;
        block.graph.add(x, y)
    });
}

/// `v·cos + (−second half, first half)·sin`
fn turn(graph: &mut Graph, v: Value, cos: Value, sin: Value) -> Result<Value> {
    let shape = graph.shape(v)?;
    let half = shape[3] / 2;
    let second = graph.slice(v, 3, half..2 * half)?;
    let second = graph.neg(second)?;
    let first = graph.slice(v, 3, 0..half)?;
    let turned = graph.concat(&[second, first], 3)?;
    let (a, b) = (graph.mul(v, cos)?, graph.mul(turned, sin)?);
    graph.add(a, b)
}

#[test]
fn gemma() {
    check("gemma", &[("sums with norms", 1), ("pointwise chains", 3)], |block| {
        let x = block.get("x");
        let (cos, sin) = (block.get("cos"), block.get("sin"));
        let n = block.rms_norm("norm1", x, 1.0)?;
        let mut qkv = Vec::new();
        for (part, heads) in [("q", 4), ("k", 2), ("v", 2)] {
            let projected = block.linear(part, n)?;
            let split = block.heads(projected, heads)?;
            qkv.push(match part {
                "v" => split,
                _ => turn(&mut block.graph, split, cos, sin)?,
            });
        }
        let op = AttentionOp { causal: true, softcap: 50.0, ..AttentionOp::new(0.25) };
        let y = block.graph.attention(op, [qkv[0], qkv[1], qkv[2]], &[])?;
        let shape = block.graph.shape(y)?;
        let y = block.graph.reshape(y, &[shape[0], shape[1], shape[2] * shape[3]])?;
        let y = block.linear("o", y)?;
        let y = block.rms_norm("norm2", y, 1.0)?;
        let x = block.graph.add(x, y)?;
        let n = block.rms_norm("norm3", x, 1.0)?;
        let gate = block.linear("gate", n)?;
        let gate = block.graph.gelu_tanh(gate)?;
        let up = block.linear("up", n)?;
        let h = block.graph.mul(gate, up)?;
        let y = block.linear("down", h)?;
        let y = block.rms_norm("norm4", y, 1.0)?;
        block.graph.add(x, y)
    });
}
