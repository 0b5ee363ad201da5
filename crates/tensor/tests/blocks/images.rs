//! Blocks of diffusion models and their decoders.

use tintype_tensor::Result;
use tintype_tensor::graph::Value;
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::ops::conv::Conv;

use crate::{Block, check};

const HEADS: usize = 2;

impl Block<'_> {
    fn conv(&mut self, name: &str, x: Value) -> Result<Value> {
        let w = self.get(&format!("{name}.weight"));
        let bias = self.get(&format!("{name}.bias"));
        let taps = self.graph.shape(w)?[2];
        self.graph.conv2d(x, w, Some(bias), Conv::default().padded(taps / 2))
    }

    fn residual(&mut self, name: &str, x: Value, time: Option<Value>) -> Result<Value> {
        let h = self.group_norm(&format!("{name}.norm1"), x, 1e-5, true)?;
        let mut h = self.conv(&format!("{name}.conv1"), h)?;
        if let Some(time) = time {
            let time = self.graph.silu(time)?;
            let time = self.linear(&format!("{name}.time"), time)?;
            let mut shape = self.graph.shape(time)?;
            shape.extend([1, 1]);
            let time = self.graph.reshape(time, &shape)?;
            h = self.graph.add(h, time)?;
        }
        let h = self.group_norm(&format!("{name}.norm2"), h, 1e-5, true)?;
        let h = self.conv(&format!("{name}.conv2"), h)?;
        let same = self.graph.shape(h)? == self.graph.shape(x)?;
        let skip = if same { x } else { self.conv(&format!("{name}.skip"), x)? };
        self.graph.add(h, skip)
    }

    /// `[n, c, h, w]` → `[n, h·w, c]`
    fn tokens(&mut self, x: Value) -> Result<Value> {
        let shape = self.graph.shape(x)?;
        let x = self.graph.reshape(x, &[shape[0], shape[1], shape[2] * shape[3]])?;
        self.graph.transpose(x)
    }

    fn pixels(&mut self, x: Value, shape: &[usize]) -> Result<Value> {
        let x = self.graph.transpose(x)?;
        self.graph.reshape(x, shape)
    }
}

#[test]
fn dit() {
    check("dit", &[("sums with norms", 1), ("pointwise chains", 3)], |block| {
        let (x, context) = (block.get("x"), block.get("context"));
        let (time, table) = (block.get("time"), block.get("scale_shift_table"));
        let all = block.graph.add(table, time)?;
        let parts = block.graph.chunk(all, 1, 6)?;
        let n = block.graph.modulated_norm(x, parts[1], parts[0], 1e-6)?;
        let y = block.attention("attn1", n, n, HEADS, AttentionOp::new, &[])?;
        let y = block.graph.mul(y, parts[2])?;
        let x = block.graph.add(x, y)?;
        let y = block.attention("attn2", x, context, HEADS, AttentionOp::new, &[])?;
        let x = block.graph.add(x, y)?;
        let n = block.graph.modulated_norm(x, parts[4], parts[3], 1e-6)?;
        let h = block.linear("ff1", n)?;
        let h = block.graph.gelu_tanh(h)?;
        let y = block.linear("ff2", h)?;
        let y = block.graph.mul(y, parts[5])?;
        block.graph.add(x, y)
    });
}

#[test]
fn resnet() {
    check("resnet", &[], |block| {
        let (x, time) = (block.get("x"), block.get("time"));
        block.residual("block", x, Some(time))
    });
}

#[test]
fn vae_mid() {
    check("vae_mid", &[], |block| {
        let x = block.get("x");
        let x = block.residual("first", x, None)?;
        let shape = block.graph.shape(x)?;
        let n = block.group_norm("norm", x, 1e-6, false)?;
        let n = block.tokens(n)?;
        let y = block.attention("attention", n, n, 1, AttentionOp::new, &[])?;
        let y = block.pixels(y, &shape)?;
        let x = block.graph.add(x, y)?;
        block.residual("second", x, None)
    });
}

#[test]
fn spatial_transformer() {
    check("spatial", &[("sums with norms", 2), ("pointwise chains", 2)], |block| {
        let (x, context) = (block.get("x"), block.get("context"));
        let shape = block.graph.shape(x)?;
        let h = block.group_norm("norm", x, 1e-6, false)?;
        let h = block.conv("proj_in", h)?;
        let h = block.tokens(h)?;
        let n = block.layer_norm("norm1", h)?;
        let y = block.attention("attn1", n, n, HEADS, AttentionOp::new, &[])?;
        let h = block.graph.add(h, y)?;
        let n = block.layer_norm("norm2", h)?;
        let y = block.attention("attn2", n, context, HEADS, AttentionOp::new, &[])?;
        let h = block.graph.add(h, y)?;
        let n = block.layer_norm("norm3", h)?;
        let both = block.linear("ff1", n)?;
        let halves = block.graph.chunk(both, 2, 2)?;
        let gate = block.graph.gelu(halves[1])?;
        let y = block.graph.mul(halves[0], gate)?;
        let y = block.linear("ff2", y)?;
        let h = block.graph.add(h, y)?;
        let h = block.pixels(h, &shape)?;
        let h = block.conv("proj_out", h)?;
        block.graph.add(x, h)
    });
}
