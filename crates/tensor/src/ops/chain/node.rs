//! Chains as a graph's node. Builders do not make them; fusion does.

use tintype_gpu::{DType, Session};

use super::{Program, chain};
use crate::Tensor;
use crate::error::Result;
use crate::graph::{Layout, Meta, Op, broadcast_shape, refuse_shape};

/// A chain; operands are a, the sides, and the program's tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// The steps.
    pub program: Program,
    /// Type of the result.
    pub dtype: DType,
}

impl Op for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn outputs(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let wanted = 2 + self.program.sides();
        let Some((_, operands)) = inputs.split_last().filter(|_| inputs.len() == wanted) else {
            return Err(refuse_shape("chain", inputs, format!("it takes {wanted} operands")));
        };
        Ok(vec![Meta { dtype: self.dtype, shape: broadcast_shape("chain", operands)? }])
    }

    fn layout(&self, _input: usize) -> Layout {
        Layout::Any
    }

    fn reuse(&self, _output: usize, input: usize) -> bool {
        input == 0
    }

    fn flops(&self, _inputs: &[Meta], outputs: &[Meta]) -> f64 {
        (self.program.steps.len() * outputs[0].elements()) as f64
    }

    fn record(
        &self,
        session: &mut Session<'_>,
        inputs: &[Tensor],
        outputs: &[Tensor],
        _scratch: &[Tensor],
    ) -> Result<()> {
        let sides = 1..inputs.len() - 1;
        let steps = &inputs[inputs.len() - 1];
        chain(session, &self.program, &inputs[0], &inputs[sides], steps, &outputs[0])
    }

    fn describe(&self) -> String {
        let steps = self.program.steps.iter().map(|step| match step {
            super::Step::Unary(function, [x, y]) if *x == 0.0 && *y == 0.0 => {
                function.name().into()
            }
            super::Step::Unary(function, [x, y]) => format!("{}({x}, {y})", function.name()),
            super::Step::Own(function) => format!("{} itself", function.name()),
            super::Step::Binary { function, side, reversed } => {
                format!("{}{} #{}", function.name(), if *reversed { " from" } else { "" }, side + 1)
            }
        });
        format!("chain {} -> {}", steps.collect::<Vec<_>>().join(", "), self.dtype)
    }
}
