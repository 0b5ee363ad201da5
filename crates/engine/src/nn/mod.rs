//! What model files are written with: parameters by name, on a device, and the few layers that every
//! family shares. It must not know any family.

mod parameters;
mod step;

pub(crate) use parameters::{Made, Parameters};
pub(crate) use step::{Cache, Step, frequencies};

use tintype_gpu::{Device, DeviceOptions};
use tintype_tensor::Result;
use tintype_tensor::graph::{Graph, Value};
use tintype_tensor::ops::attention::AttentionOp;
use tintype_tensor::ops::conv::Conv;

/// The device that was asked for; else `TINTYPE_DEVICE`'s choice, or the best there is.
pub(crate) fn device(asked: Option<&Device>, threads: usize) -> Result<Device> {
    match asked {
        Some(device) => Ok(device.clone()),
        None => {
            let options = DeviceOptions { threads, ..DeviceOptions::with_default_cache() };
            Ok(Device::from_env(options)?)
        }
    }
}

/// A graph under construction over a file's parameters. Names are those of the checkpoint.
pub(crate) struct Net<'a> {
    pub(crate) graph: Graph,
    parameters: &'a Parameters<'a>,
    /// What stands before every name: `transformer.`.
    prefix: &'static str,
}

impl<'a> Net<'a> {
    pub(crate) fn new(parameters: &'a Parameters<'a>, prefix: &'static str) -> Self {
        Net { graph: Graph::new(), parameters, prefix }
    }

    /// From here on, names are those behind another prefix.
    pub(crate) fn enter(&mut self, prefix: &'static str) {
        self.prefix = prefix;
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.parameters.has(&self.name(name))
    }

    /// A matrix, dense or in quantized blocks.
    pub(crate) fn matrix(&mut self, name: &str) -> Result<Value> {
        let name = self.name(name);
        let tensor = self.parameters.matrix(&name)?;
        Ok(self.graph.weight(&name, &tensor))
    }

    /// A tensor of numbers.
    pub(crate) fn dense(&mut self, name: &str) -> Result<Value> {
        let name = self.name(name);
        let tensor = self.parameters.dense(&name)?;
        Ok(self.graph.weight(&name, &tensor))
    }

    /// Numbers made on the host, as a constant of the graph.
    pub(crate) fn constant(&mut self, name: &str, shape: &[usize], data: &[f32]) -> Result<Value> {
        let tensor = self.parameters.constant(name, shape, data)?;
        Ok(self.graph.weight(name, &tensor))
    }

    fn bias(&mut self, name: &str) -> Result<Option<Value>> {
        let name = format!("{name}.bias");
        self.has(&name).then(|| self.dense(&name)).transpose()
    }

    /// `x·Wᵀ`, plus the bias if the file has one.
    pub(crate) fn linear(&mut self, name: &str, x: Value) -> Result<Value> {
        let weight = self.matrix(&format!("{name}.weight"))?;
        let bias = self.bias(name)?;
        self.graph.linear(x, weight, bias)
    }

    /// A convolution in two dimensions, likewise.
    pub(crate) fn conv(&mut self, name: &str, x: Value, conv: Conv) -> Result<Value> {
        let weight = self.dense(&format!("{name}.weight"))?;
        let bias = self.bias(name)?;
        self.graph.conv2d(x, weight, bias, conv)
    }

    /// `[batch, tokens, heads · numbers]` → `[batch, heads, tokens, numbers]`
    pub(crate) fn heads(&mut self, x: Value, heads: usize) -> Result<Value> {
        let shape = self.graph.shape(x)?;
        let split = self.graph.reshape(x, &[shape[0], shape[1], heads, shape[2] / heads])?;
        self.graph.permute(split, &[0, 2, 1, 3])
    }

    /// Attention of every token to every key, heads joined again: `[batch, tokens, heads · numbers]`.
    pub(crate) fn attend(
        &mut self,
        qkv: [Value; 3],
        scale: f32,
        bias: Option<Value>,
    ) -> Result<Value> {
        let op = AttentionOp { bias: bias.is_some(), ..AttentionOp::new(scale) };
        let rest: Vec<_> = bias.into_iter().collect();
        let y = self.graph.attention(op, qkv, &rest)?;
        let shape = self.graph.shape(y)?;
        self.graph.reshape(y, &[shape[0], shape[1], shape[2] * shape[3]])
    }
}
