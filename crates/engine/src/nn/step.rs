//! One step of a model that continues texts: ids and places in, rows of states out, with the keys and
//! values of earlier tokens in rings. It must not know any family.

use tintype_gpu::DType;
use tintype_tensor::graph::Value;
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::ops::rope::Rope;
use tintype_tensor::{Result, Tensor};

use super::Net;

/// Keys and values of a layer, each `[slots, heads of keys, places, numbers of a head]`.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
}

/// A step under construction. Its inputs, all I32: `ids` and `positions` `[slots, tokens]` (position
/// −1: no token), `lengths` `[slots]`: tokens of each text, these included, and `rows` `[slots, rows]`:
/// which of these tokens' states are asked for.
pub(crate) struct Step<'a> {
    ids: Value,
    positions: Value,
    lengths: Value,
    rows: Value,
    caches: &'a [Cache],
}

impl<'a> Step<'a> {
    pub(crate) fn begin(
        net: &mut Net<'_>,
        caches: &'a [Cache],
        [slots, tokens, rows]: [usize; 3],
    ) -> Result<Self> {
        Ok(Step {
            ids: net.graph.input("ids", DType::I32, &[slots, tokens])?,
            positions: net.graph.input("positions", DType::I32, &[slots, tokens])?,
            lengths: net.graph.input("lengths", DType::I32, &[slots])?,
            rows: net.graph.input("rows", DType::I32, &[slots, rows])?,
            caches,
        })
    }

    /// States of the tokens, `[slots, tokens, width]`: rows of `table` times `scale`.
    pub(crate) fn embed(&self, net: &mut Net<'_>, table: &str, scale: f32) -> Result<Value> {
        let table = net.matrix(table)?;
        net.graph.embedding(table, self.ids, scale, DType::F32)
    }

    /// `[slots, heads, tokens, numbers]`, turned by the tokens' positions; all of a head's pairs if
    /// `frequencies` `[pairs]` has as many.
    pub(crate) fn turn(
        &self,
        net: &mut Net<'_>,
        x: Value,
        frequencies: Value,
        interleaved: bool,
    ) -> Result<Value> {
        let shape = net.graph.shape(self.positions)?;
        let pairs = net.graph.shape(frequencies)?[0];
        let positions = net.graph.reshape(self.positions, &[1, shape[0], 1, shape[1]])?;
        let rope = Rope { interleaved, scale: 1.0, sections: [pairs, 0, 0, 0] };
        net.graph.rope(rope, x, positions, frequencies)
    }

    /// Puts keys and values into the layer's rings, then attends to them. All are `[slots, heads,
    /// tokens, numbers]`; gives `[slots, tokens, heads · numbers]`.
    pub(crate) fn attend(
        &self,
        net: &mut Net<'_>,
        layer: usize,
        [q, k, v]: [Value; 3],
        op: AttentionOp,
    ) -> Result<Value> {
        let cache = self.caches.get(layer).ok_or_else(|| {
            let reason = format!("there are {} caches", self.caches.len());
            tintype_tensor::Error::Graph { node: format!("cache of layer {layer}"), reason }
        })?;
        let keys = net.graph.state(&format!("keys {layer}"), &cache.keys);
        let values = net.graph.state(&format!("values {layer}"), &cache.values);
        let keys = net.graph.kv_copy(keys, k, self.positions)?;
        let values = net.graph.kv_copy(values, v, self.positions)?;
        let op = AttentionOp { causal: true, q_positions: true, lengths: true, ..op };
        let y = net.graph.attention(op, [q, keys, values], &[self.positions, self.lengths])?;
        let shape = net.graph.shape(y)?;
        net.graph.reshape(y, &[shape[0], shape[1], shape[2] * shape[3]])
    }

    /// `[slots, tokens, width]` → `[slots, rows, width]`: the states that are asked for.
    pub(crate) fn asked(&self, net: &mut Net<'_>, x: Value) -> Result<Value> {
        let shape = net.graph.shape(self.rows)?;
        let rows = net.graph.reshape(self.rows, &[shape[0], shape[1], 1])?;
        net.graph.gather(x, 1, rows)
    }
}

/// Radians a position that each of `pairs` is turned by: `base^(−n / pairs)`, times `scale`.
pub(crate) fn frequencies(pairs: usize, base: f64, scale: f64) -> Vec<f32> {
    (0..pairs).map(|n| (scale * base.powf(-(n as f64) / pairs as f64)) as f32).collect()
}
