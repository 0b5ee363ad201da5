//! What the test runner and the benchmark runner share: an operation on operands of given types,
//! shapes and layouts, and what it should give. It must not know how cases are run.

use std::ops::Range;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{DType, Kernel, Session};

use crate::{Result, Tensor};

/// A kernel in one variation.
pub struct Variant {
    /// The source, aliases chosen.
    pub source: KernelSource,
    /// Overrides by name.
    pub overrides: Vec<(&'static str, f64)>,
}

impl Variant {
    /// The kernel on the session's device; compiled on the first request.
    pub(crate) fn compile(&self, session: &Session<'_>) -> Result<Kernel> {
        Ok(session.device().kernel(&self.source, &self.overrides)?)
    }
}

/// How a tensor of a shape lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Row-major from the start.
    Dense,
    /// Row-major, some elements in.
    Offset(usize),
    /// Row-major with a gap of some elements behind each row.
    Padded(usize),
    /// The last two axes exchanged in memory.
    Transposed,
    /// Every second element, some elements in.
    Stepped(usize),
}

impl Layout {
    /// Strides, first element, and elements needed in all.
    pub fn place(self, shape: &[usize]) -> (Vec<usize>, usize, usize) {
        let rank = shape.len();
        let mut memory: Vec<usize> = (0..rank).collect();
        if self == Layout::Transposed && rank >= 2 {
            memory.swap(rank - 1, rank - 2);
        }
        let mut strides = vec![0; rank];
        let mut next = if matches!(self, Layout::Stepped(_)) { 2 } else { 1 };
        for (inner, &axis) in memory.iter().rev().enumerate() {
            strides[axis] = next;
            next *= shape[axis];
            if let (Layout::Padded(gap), 0) = (self, inner) {
                next += gap;
            }
        }
        let start = match self {
            Layout::Offset(start) | Layout::Stepped(start) => start,
            _ => 0,
        };
        let last: usize = shape.iter().zip(&strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        (strides, start, start + last + 1)
    }
}

/// An operand.
#[derive(Debug, Clone)]
pub struct Operand {
    /// Type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Place in memory.
    pub layout: Layout,
    /// Where random values are drawn from.
    pub range: Range<f32>,
    /// The values, where they are not random (positions, lengths).
    pub values: Option<Vec<f32>>,
}

impl Operand {
    /// A dense operand with values in −1..1.
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        Operand {
            dtype,
            shape: shape.to_vec(),
            layout: Layout::Dense,
            range: -1.0..1.0,
            values: None,
        }
    }

    /// In another layout.
    pub fn laid(self, layout: Layout) -> Self {
        Operand { layout, ..self }
    }

    /// With these values, in logical order.
    pub fn holding(self, values: Vec<f32>) -> Self {
        Operand { values: Some(values), ..self }
    }

    /// With values from another interval.
    pub fn within(self, range: Range<f32>) -> Self {
        Operand { range, ..self }
    }
}

impl std::fmt::Display for Operand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)?;
        if self.layout == Layout::Dense { Ok(()) } else { write!(f, "{:?}", self.layout) }
    }
}

/// An operand's values in logical, row-major order, as its type holds them.
#[derive(Debug, Clone)]
pub struct Values {
    /// Extents.
    pub shape: Vec<usize>,
    /// The values.
    pub data: Vec<f64>,
}

impl Values {
    /// The value that position `at` of a broadcast to `shape` shows.
    pub fn broadcast(&self, shape: &[usize], at: usize) -> f64 {
        let (mut rest, mut index, mut stride) = (at, 0, 1);
        for axis in (0..shape.len()).rev() {
            let position = rest % shape[axis];
            rest /= shape[axis];
            if let Some(own) = (axis + self.shape.len()).checked_sub(shape.len()) {
                if self.shape[own] != 1 {
                    index += position * stride;
                }
                stride *= self.shape[own];
            }
        }
        self.data[index]
    }
}

type Record = Box<dyn Fn(&mut Session<'_>, &[Tensor], &Tensor) -> Result<()>>;
type Reference = Box<dyn Fn(&[Values]) -> Vec<f64>>;
type Sample = Box<dyn Fn(&[Values], usize) -> f64>;
type Spread = Box<dyn Fn(&[Values]) -> f64>;

/// An operation on operands, and what it should give.
pub struct Case {
    /// Name, types and shapes.
    pub name: String,
    /// Inputs, in the order `record` takes them.
    pub inputs: Vec<Operand>,
    /// The output.
    pub output: Operand,
    /// The output is this input, updated.
    pub in_place: Option<usize>,
    /// The output must equal the reference exactly.
    pub exact: bool,
    /// Records the operation; the arguments are the inputs and the output.
    pub record: Record,
    /// The float64 reference, in the output's logical order.
    pub reference: Reference,
    /// For sums that may cancel: the norm the output has when its terms' signs are independent,
    /// √ΣΣ term². Errors are measured against it where chance made the output itself smaller.
    pub spread: Option<Spread>,
    /// The reference of one output element: benchmarks check a few, where all would take too long.
    pub sample: Option<Sample>,
    /// Floating-point operations, for benchmarks; bytes follow from the operands.
    pub flops: f64,
}

impl Case {
    /// A case of `name` whose output is new.
    pub fn new(
        name: impl std::fmt::Display,
        inputs: Vec<Operand>,
        output: Operand,
        record: impl Fn(&mut Session<'_>, &[Tensor], &Tensor) -> Result<()> + 'static,
        reference: impl Fn(&[Values]) -> Vec<f64> + 'static,
    ) -> Self {
        let operands: Vec<_> = inputs.iter().map(Operand::to_string).collect();
        Case {
            name: format!("{name} {} -> {output}", operands.join(", ")),
            inputs,
            output,
            in_place: None,
            exact: false,
            record: Box::new(record),
            reference: Box::new(reference),
            spread: None,
            sample: None,
            flops: 0.0,
        }
    }

    /// The output is input `n`, updated.
    pub fn in_place(self, n: usize) -> Self {
        let name = format!("{} in place", self.name);
        Case { in_place: Some(n), name, ..self }
    }

    /// The output must equal the reference exactly.
    pub fn exact(self) -> Self {
        Case { exact: true, ..self }
    }

    /// Measures errors against at least this norm.
    pub fn spread(self, spread: impl Fn(&[Values]) -> f64 + 'static) -> Self {
        Case { spread: Some(Box::new(spread)), ..self }
    }

    /// Gives the reference of single output elements.
    pub fn sample(self, sample: impl Fn(&[Values], usize) -> f64 + 'static) -> Self {
        Case { sample: Some(Box::new(sample)), ..self }
    }

    /// Counts floating-point operations for benchmarks.
    pub fn flops(self, flops: f64) -> Self {
        Case { flops, ..self }
    }

    /// Bytes that must be read and written once.
    pub fn bytes(&self) -> f64 {
        let size = |operand: &Operand| {
            let block = operand.dtype.block_elements() as f64;
            operand.shape.iter().product::<usize>() as f64 * operand.dtype.block_bytes() as f64
                / block
        };
        self.inputs.iter().map(size).sum::<f64>() + size(&self.output)
    }
}

/// Sizes that show mistakes at the edges of vectors, tiles and workgroups.
pub const ODD_SIZES: [usize; 11] = [1, 2, 3, 31, 63, 64, 65, 127, 257, 1000, 4099];

/// Layouts to try for a tensor.
pub const LAYOUTS: [Layout; 5] =
    [Layout::Dense, Layout::Offset(3), Layout::Padded(5), Layout::Transposed, Layout::Stepped(1)];
