//! Random graphs of pointwise functions, products and views, with a float64 interpreter beside them.

use tintype_gpu::DType;
use tintype_tensor::graph::{Graph, Value};
use tintype_tensor::ops::pointwise::{Binary, Unary};

/// A value in float64, row-major.
#[derive(Clone)]
pub(crate) struct Exact {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f64>,
}

impl Exact {
    fn count(shape: &[usize]) -> usize {
        shape.iter().product()
    }

    /// Element by element: the index in the output's shape gives the index here.
    fn gather(&self, shape: &[usize], at: impl Fn(&[usize]) -> Vec<usize>) -> Exact {
        let mut data = Vec::new();
        for flat in 0..Self::count(shape) {
            let (mut rest, mut index) = (flat, vec![0; shape.len()]);
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            let own = at(&index);
            data.push(self.data[own.iter().zip(&self.shape).fold(0, |sum, (i, n)| sum * n + i)]);
        }
        Exact { shape: shape.to_vec(), data }
    }

    fn repeated(&self, shape: &[usize]) -> Exact {
        let new = shape.len() - self.shape.len();
        self.gather(shape, |index| {
            index[new..]
                .iter()
                .zip(&self.shape)
                .map(|(i, n)| if *n == 1 { 0 } else { *i })
                .collect()
        })
    }
}

/// A graph, what to write, and what it should give.
pub(crate) struct Sample {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<(String, Vec<f32>)>,
    pub(crate) outputs: Vec<String>,
    pub(crate) exact: Vec<Exact>,
}

/// A graph of about `size` operations from `seed`.
pub(crate) fn sample(seed: u64, size: usize) -> Sample {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut graph = Graph::new();
    let mut inputs = Vec::new();
    let mut values: Vec<(Value, Exact)> = Vec::new();
    let extent = [1usize, 2, 3, 5, 8, 17][random.usize(2..6)];
    for n in 0..random.usize(1..4) {
        let shape = [vec![extent, extent], vec![2, extent, extent], vec![extent]]
            [random.usize(..3)]
        .clone();
        let name = format!("in{n}");
        let data: Vec<f32> = (0..Exact::count(&shape)).map(|_| random.f32() * 2.0 - 1.0).collect();
        let value = graph.input(&name, DType::F32, &shape).unwrap();
        values.push((value, Exact { shape, data: data.iter().map(|v| f64::from(*v)).collect() }));
        inputs.push((name, data));
    }
    for _ in 0..size {
        // The latest values more often: chains, not only fans.
        let mut pick = || {
            let back = random.usize(..values.len()).min(random.usize(..values.len()));
            values[values.len() - 1 - back].clone()
        };
        let ((a, exact), (b, other)) = (pick(), pick());
        if let Some(made) = step(&mut graph, &mut random, (a, &exact), (b, &other)) {
            values.push(made);
        }
    }
    let mut outputs = Vec::new();
    let mut exact = Vec::new();
    for n in 0..random.usize(1..4) {
        let (value, at) = values[values.len() - 1 - random.usize(..values.len().min(4))].clone();
        let name = format!("out{n}");
        graph.output(&name, value).unwrap();
        outputs.push(name);
        exact.push(at);
    }
    Sample { graph, inputs, outputs, exact }
}

type Made = Option<(Value, Exact)>;

fn step(
    graph: &mut Graph,
    random: &mut fastrand::Rng,
    (a, exact): (Value, &Exact),
    (b, other): (Value, &Exact),
) -> Made {
    let rank = exact.shape.len();
    match random.u32(..10) {
        0..=2 => {
            let choices =
                [Unary::Tanh, Unary::Sigmoid, Unary::Silu, Unary::Gelu, Unary::Affine, Unary::Neg];
            let function = choices[random.usize(..choices.len())];
            let value = graph.unary(function, [0.5, 0.25], a).unwrap();
            let apply = |v: &f64| function.reference()(*v, 0.5, 0.25);
            let data = exact.data.iter().map(apply).collect();
            Some((value, Exact { shape: exact.shape.clone(), data }))
        }
        3..=5 => {
            let function = [Binary::Add, Binary::Sub, Binary::Max][random.usize(..3)];
            let value = graph.binary(function, a, b).ok()?;
            let shape = graph.shape(value).unwrap();
            let (left, right) = (exact.repeated(&shape), other.repeated(&shape));
            let pairs = left.data.iter().zip(&right.data);
            // Kept near 1, or long chains overflow.
            let data: Vec<f64> = pairs.map(|(v, w)| function.reference()(*v, *w) * 0.5).collect();
            Some((graph.scale(value, 0.5).unwrap(), Exact { shape, data }))
        }
        6 if rank >= 2 => {
            let value = graph.transpose(a).unwrap();
            let shape = graph.shape(value).unwrap();
            let made = exact.gather(&shape, |index| {
                let mut index = index.to_vec();
                index.swap(rank - 1, rank - 2);
                index
            });
            Some((value, made))
        }
        7 => {
            let mut shape = vec![exact.data.len()];
            if exact.data.len() % 2 == 0 && random.bool() {
                shape = vec![2, exact.data.len() / 2];
            }
            let value = graph.reshape(a, &shape).unwrap();
            Some((value, Exact { shape, data: exact.data.clone() }))
        }
        8 if exact.shape[rank - 1] > 2 => {
            let end = exact.shape[rank - 1];
            let value = graph.slice(a, rank - 1, 1..end).unwrap();
            let shape = graph.shape(value).unwrap();
            let made = exact.gather(&shape, |index| {
                let mut index = index.to_vec();
                index[rank - 1] += 1;
                index
            });
            Some((value, made))
        }
        9 if rank >= 2 && other.shape.len() >= 2 => {
            let value = graph.matmul(a, b).ok()?;
            let shape = graph.shape(value).unwrap();
            let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
            let k = exact.shape[rank - 1];
            let lead = &shape[..shape.len() - 2];
            let left = exact.repeated(&[lead, &[m, k]].concat());
            let right = other.repeated(&[lead, &[k, n]].concat());
            let mut data = Vec::new();
            for batch in 0..Exact::count(lead) {
                for row in 0..m {
                    for column in 0..n {
                        let sum: f64 = (0..k)
                            .map(|i| {
                                left.data[(batch * m + row) * k + i]
                                    * right.data[(batch * k + i) * n + column]
                            })
                            .sum();
                        data.push(sum / k as f64);
                    }
                }
            }
            Some((graph.scale(value, 1.0 / k as f32).unwrap(), Exact { shape, data }))
        }
        _ => None,
    }
}
