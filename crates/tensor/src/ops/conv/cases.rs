//! Convolutions at the edges of tiles: strides, paddings, dilations, groups, both directions, each
//! type, views of inputs, outputs and weights.

use tintype_gpu::DType;

use super::{Conv, Direction, conv_transpose1d, conv_transpose2d, conv1d, conv2d, reference};
use crate::ops::case::{Case, Layout, Operand, Values};
use crate::ops::pointwise::Unary;

/// What a case convolves.
#[derive(Clone)]
struct Shape {
    images: usize,
    channels: usize,
    filters: usize,
    input: [usize; 2],
    taps: [usize; 2],
    conv: Conv,
    direction: Direction,
    /// Rows and columns beyond the least, transposed.
    extra: [usize; 2],
    /// Types of x, weights, bias and out.
    types: [DType; 4],
    bias: bool,
    /// Layouts of x and out.
    layouts: [Layout; 2],
}

fn shape(channels: usize, filters: usize, input: [usize; 2], taps: usize, conv: Conv) -> Shape {
    Shape {
        images: 1,
        channels,
        filters,
        input,
        taps: [taps; 2],
        conv,
        direction: Direction::Forward,
        extra: [0; 2],
        types: [DType::F32; 4],
        bias: true,
        layouts: [Layout::Dense; 2],
    }
}

impl Shape {
    fn transposed(self) -> Self {
        Shape { direction: Direction::Transposed, ..self }
    }

    fn images(self, images: usize) -> Self {
        Shape { images, ..self }
    }

    fn types(self, types: [DType; 4]) -> Self {
        Shape { types, ..self }
    }

    fn laid(self, layouts: [Layout; 2]) -> Self {
        Shape { layouts, ..self }
    }

    fn output(&self) -> [usize; 4] {
        let [h, w] = match self.direction {
            Direction::Forward => self.conv.output(self.input, self.taps),
            Direction::Transposed => self.conv.output_transposed(self.input, self.taps),
        }
        .unwrap_or_default();
        [self.images, self.filters, h + self.extra[0], w + self.extra[1]]
    }

    fn operands(&self) -> Vec<Operand> {
        let groups = self.conv.groups;
        let weights = match self.direction {
            Direction::Forward => [self.filters, self.channels / groups],
            Direction::Transposed => [self.channels, self.filters / groups],
        };
        let [x, w, b, _] = self.types;
        let mut all = vec![
            Operand::new(x, &[self.images, self.channels, self.input[0], self.input[1]])
                .laid(self.layouts[0]),
            Operand::new(w, &[weights[0], weights[1], self.taps[0], self.taps[1]]),
        ];
        if self.bias {
            all.push(Operand::new(b, &[self.filters]));
        }
        all
    }

    fn case(self) -> Case {
        let out = self.output();
        let macs = out.iter().product::<usize>() * self.channels / self.conv.groups;
        let flops = match self.direction {
            Direction::Forward => 2 * macs * self.taps[0] * self.taps[1],
            Direction::Transposed => {
                2 * self.images
                    * self.channels
                    * self.input[0]
                    * self.input[1]
                    * (self.filters / self.conv.groups)
                    * self.taps[0]
                    * self.taps[1]
            }
        };
        let [conv, groups] = [&self.conv.stride, &self.conv.dilation].map(|pair| pair[1]);
        let name = format!(
            "conv {:?} stride {conv} dilation {groups} padding {:?} groups {} {}",
            self.direction,
            self.conv.padding,
            self.conv.groups,
            self.conv.activation.name()
        );
        let (a, b) = (self.clone(), self.clone());
        let reference = move |inputs: &[Values]| {
            reference::conv(&inputs[0], &inputs[1], inputs.get(2), &a.conv, a.direction, out)
        };
        let spread = move |inputs: &[Values]| {
            reference::spread(&inputs[0], &inputs[1], &b.conv, b.direction, out)
        };
        let output = Operand::new(self.types[3], &out).laid(self.layouts[1]);
        Case::new(
            name,
            self.operands(),
            output,
            move |session, inputs, out| {
                let record = match self.direction {
                    Direction::Forward => conv2d,
                    Direction::Transposed => conv_transpose2d,
                };
                record(session, &inputs[0], &inputs[1], inputs.get(2), &self.conv, out)
            },
            reference,
        )
        .spread(spread)
        .flops(flops as f64)
    }
}

/// Three axes; the reference sees a second one of extent 1.
fn one_axis(n: usize, [c, o, w, k]: [usize; 4], conv: Conv, direction: Direction) -> Case {
    let flat = Conv {
        stride: [1, conv.stride[1]],
        padding: [[0; 2], conv.padding[1]],
        dilation: [1, conv.dilation[1]],
        ..conv
    };
    let shape = Shape { images: n, taps: [1, k], direction, ..shape(c, o, [1, w], k, flat) };
    let out = shape.output();
    let three = |operand: Operand| {
        let kept = operand.shape.iter().enumerate().filter(|(axis, _)| *axis != 2);
        let kept: Vec<usize> = kept.map(|(_, n)| *n).collect();
        if operand.shape.len() == 4 { Operand { shape: kept, ..operand } } else { operand }
    };
    let four = |values: &Values| {
        let mut shape = values.shape.clone();
        if shape.len() == 3 {
            shape.insert(2, 1);
        }
        Values { shape, data: values.data.clone() }
    };
    let operands = shape.operands().into_iter().map(three).collect();
    Case::new(
        format!("conv1d {direction:?} {:?} stride {}", conv.padding[1], conv.stride[1]),
        operands,
        Operand::new(DType::F32, &[n, o, out[3]]),
        move |session, inputs, out| {
            let record = match direction {
                Direction::Forward => conv1d,
                Direction::Transposed => conv_transpose1d,
            };
            record(session, &inputs[0], &inputs[1], inputs.get(2), &conv, out)
        },
        move |inputs| {
            let inputs: Vec<Values> = inputs.iter().map(four).collect();
            reference::conv(&inputs[0], &inputs[1], inputs.get(2), &flat, direction, out)
        },
    )
    .spread(move |inputs| {
        let inputs: Vec<Values> = inputs.iter().map(four).collect();
        reference::spread(&inputs[0], &inputs[1], &flat, direction, out)
    })
}

pub(super) fn cases() -> Vec<Case> {
    let plain = Conv::default();
    let mut all = Vec::new();
    // Edges of tiles: channels, filters, extents.
    for (c, o, input) in [
        (1, 1, [1, 1]),
        (3, 5, [7, 9]),
        (4, 17, [16, 16]),
        (16, 64, [8, 8]),
        (17, 65, [5, 13]),
        (33, 31, [3, 70]),
        (64, 3, [19, 11]),
        (130, 19, [9, 5]),
    ] {
        all.push(shape(c, o, input, 1, plain).case());
        all.push(shape(c, o, input, 3, plain.padded(1)).case());
        all.push(shape(c, o, input, 3, plain.padded(1).strided(2)).images(2).case());
        all.push(shape(c, o, input, 2, plain.padded(1)).transposed().case());
        all.push(shape(c, o, input, 4, plain.padded(1).strided(2)).transposed().images(2).case());
    }
    // Forms.
    let uneven = Conv { padding: [[0, 1], [2, 0]], stride: [2, 3], dilation: [1, 2], ..plain };
    let wide = Conv { padding: [[5, 4], [6, 7]], ..plain };
    for conv in [
        plain.padded(2).dilated(2),
        plain.strided(3),
        plain.padded(2).strided(2).dilated(3),
        uneven,
        wide,
        plain.padded(1).then(Unary::Relu),
        plain.padded(1).then(Unary::Silu),
        plain.then(Unary::Gelu),
    ] {
        all.push(shape(6, 20, [15, 14], 3, conv).case());
        all.push(Shape { bias: false, ..shape(6, 10, [15, 14], 3, conv) }.images(3).case());
        if conv.padding == [[0; 2]; 2] || conv.padding == [[1; 2]; 2] || conv == uneven {
            all.push(shape(6, 20, [9, 8], 3, conv).transposed().case());
            let extra = [conv.stride[0] - 1, conv.stride[1] - 1];
            all.push(Shape { extra, ..shape(6, 10, [9, 8], 3, conv) }.transposed().case());
        }
    }
    // A tap less than the stride: some outputs are bias alone.
    all.push(shape(5, 18, [6, 7], 1, plain.strided(2)).transposed().case());
    // Groups and depthwise.
    for (c, o, groups) in [(12, 12, 12), (12, 24, 12), (8, 12, 4), (64, 64, 2), (20, 100, 5)] {
        for conv in [plain.padded(1).grouped(groups), plain.strided(2).grouped(groups)] {
            all.push(shape(c, o, [9, 17], 3, conv).case());
            all.push(shape(c, o, [5, 6], 3, conv).images(2).transposed().case());
        }
    }
    // Types: weights and activations of 16 bits, biases of 32.
    let (f, h, b) = (DType::F32, DType::F16, DType::Bf16);
    for types in
        [[h; 4], [b; 4], [f, h, f, f], [h, h, f, h], [f, h, h, h], [h, f, f, f], [f, b, f, f]]
    {
        all.push(shape(19, 33, [11, 13], 3, plain.padded(1)).types(types).case());
        all.push(shape(19, 3, [11, 13], 3, plain.padded(1).strided(2)).types(types).case());
        all.push(shape(40, 65, [8, 8], 1, plain).types(types).images(2).case());
        all.push(
            shape(7, 18, [5, 4], 4, plain.padded(1).strided(2)).types(types).transposed().case(),
        );
    }
    // Views.
    for from in [Layout::Offset(3), Layout::Padded(5), Layout::Transposed, Layout::Stepped(1)] {
        for types in [[f; 4], [h; 4]] {
            let conv = plain.padded(1);
            let laid = [from, Layout::Offset(7)];
            all.push(shape(9, 34, [10, 12], 3, conv).types(types).laid(laid).images(2).case());
            all.push(shape(9, 34, [10, 12], 1, plain).types(types).laid(laid).images(2).case());
        }
    }
    // Several units, rows cut apart.
    all.push(shape(24, 136, [40, 44], 3, plain.padded(1)).images(2).case());
    all.push(shape(3, 8, [3, 9000], 3, plain.padded(1)).case());
    for direction in [Direction::Forward, Direction::Transposed] {
        for (sizes, conv) in [
            ([3, 20, 50, 3], plain.padded(1)),
            ([8, 16, 33, 7], plain.padded(3).strided(2)),
            ([8, 8, 65, 4], plain.grouped(8).dilated(2)),
        ] {
            all.push(one_axis(2, sizes, conv, direction));
        }
    }
    all
}

pub(super) fn benches() -> Vec<Case> {
    let (f, h) = (DType::F32, DType::F16);
    let same = Conv::default().padded(1);
    let mut all = Vec::new();
    // TAESD, then UNet levels of Stable Diffusion 1.5, then its decoder.
    for (c, o, side) in [
        (64, 64, 16),
        (64, 64, 64),
        (64, 64, 128),
        (320, 320, 64),
        (640, 640, 32),
        (1280, 1280, 16),
        (512, 512, 64),
        (256, 256, 128),
        (128, 128, 256),
        (128, 3, 256),
        (4, 320, 64),
    ] {
        all.push(shape(c, o, [side; 2], 3, same).case());
    }
    all.push(shape(320, 320, [64; 2], 3, same.strided(2)).case());
    all.push(shape(320, 640, [32; 2], 1, Conv::default()).case());
    all.push(shape(960, 320, [64; 2], 1, Conv::default()).case());
    all.push(shape(256, 256, [64; 2], 3, same.grouped(256)).case());
    all.push(shape(64, 64, [64; 2], 4, same.strided(2)).transposed().case());
    all.push(shape(320, 320, [64; 2], 3, same).types([f, h, f, f]).case());
    all.push(shape(320, 320, [64; 2], 3, same).types([h, h, h, h]).case());
    all
}
