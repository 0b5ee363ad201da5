//! Attention on the CPU: a unit's queries walk their keys in blocks that stay in the cache, with a
//! running maximum and sum. Scores and outputs are products of matrices, or, for few queries, dot
//! products that load each key once. Memory does not grow with the keys.

use tintype_gpu::kernel::{Rows, Unit, UnitError};

use super::kernels::BLOCKS;
use super::rows::{FEW, Owner, Share};
use super::{
    BIAS, CAUSAL, K_POSITIONS, K_POSITIONS_BATCHED, LENGTHS, Params, Q_POSITIONS,
    Q_POSITIONS_BATCHED,
};
use crate::number::{Number, Numbers, Stored};
use crate::simd::attend::{Lines, PAD, dots, weighted};
use crate::simd::dense::{Matrix, gemm};
use crate::simd::fold::{exp_sum, max};
use crate::simd::quant::{Block as _, Q8_0, decode};
use crate::simd::{tanh, vectorize};

/// Keys of a block.
const KEYS: usize = 256;

/// Keys of a block for few queries: converted rows stay in the nearest cache.
const FEW_KEYS: usize = 64;

pub(super) fn attention(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    match Number::from_code(params.codes >> 6 & 3) {
        Number::F32 => into::<f32>(unit, &params),
        Number::F16 => into::<half::f16>(unit, &params),
        Number::Bf16 => into::<half::bf16>(unit, &params),
    }
}

/// A unit's part of the output.
enum Output<'a, T> {
    Tile(Rows<'a, T>),
    Flat(&'a mut [T]),
}

fn into<T: Stored>(unit: &mut Unit<'_>, p: &Params) -> Result<(), UnitError> {
    let inputs = Inputs::read(unit, p)?;
    let mut output = match unit.write_is_tiled(6) {
        true => Output::Tile(unit.rows::<T>(6)?),
        false => Output::Flat(unit.write::<T>(6)?),
    };
    let share = p.share(unit.index() as usize);
    let shared_by = p.shared_by as usize;
    // Queries whose keys are the same go together while they are few; else head by head.
    let step = if p.t as usize <= FEW { shared_by } else { 1 };
    let [_, sh, st] = p.out.map(|stride| stride as usize);
    let mut head = share.heads.start;
    while head < share.heads.end {
        let end = (head / step * step + step).min(share.heads.end);
        let some = Share { heads: head..end, ..share.clone() };
        Block::new(&inputs, p, &some).run(&inputs, p, |at_head, at_token, values| {
            let (own_head, own_token) =
                (at_head - share.heads.start, at_token - share.tokens.start);
            match (&mut output, p.owner()) {
                (Output::Tile(rows), Owner::Heads) => {
                    if let Some(row) = rows.row(own_head) {
                        T::store(&mut row[own_token * st..][..values.len()], values);
                    }
                }
                (Output::Tile(rows), _) => {
                    if let Some(row) = rows.row(own_token) {
                        T::store(&mut row[own_head * sh..][..values.len()], values);
                    }
                }
                (Output::Flat(all), Owner::Heads) => {
                    let at = own_head * sh + own_token * st;
                    T::store(&mut all[at..][..values.len()], values);
                }
                (Output::Flat(all), _) => {
                    let at = own_token * st + at_head * sh;
                    T::store(&mut all[at..][..values.len()], values);
                }
            }
        });
        head = end;
    }
    Ok(())
}

/// Keys or values as they lie.
#[derive(Clone, Copy)]
enum Kept<'a> {
    Numbers(Numbers<'a>),
    /// Q8_0.
    Blocks(&'a [u8]),
}

struct Inputs<'a> {
    q: Numbers<'a>,
    k: Kept<'a>,
    v: Kept<'a>,
    bias: Option<Numbers<'a>>,
    q_positions: Option<&'a [i32]>,
    k_positions: Option<&'a [i32]>,
    lengths: Option<&'a [i32]>,
}

impl<'a> Inputs<'a> {
    fn read(unit: &Unit<'a>, p: &Params) -> Result<Self, UnitError> {
        let number = |bit: u32| Number::from_code(p.codes >> bit & 3);
        let on = |bit: u32| p.codes & bit != 0;
        let kept = |slot: usize| match p.codes >> 2 & 3 {
            BLOCKS => Ok::<_, UnitError>(Kept::Blocks(unit.read(slot)?)),
            code => Ok(Kept::Numbers(Numbers::read(unit, slot, Number::from_code(code))?)),
        };
        Ok(Inputs {
            q: Numbers::read(unit, 0, number(0))?,
            k: kept(1)?,
            v: kept(2)?,
            bias: if on(BIAS) { Some(Numbers::read(unit, 3, number(4))?) } else { None },
            q_positions: if on(Q_POSITIONS) { Some(unit.read(4)?) } else { None },
            k_positions: if on(K_POSITIONS) { Some(unit.read(5)?) } else { None },
            lengths: if on(LENGTHS) { Some(unit.read(5)?) } else { None },
        })
    }
}

/// Queries that share a head of keys, and what was gathered for them so far.
struct Block {
    share: Share,
    /// Numbers of a head, and what rows are padded to.
    d: usize,
    width: usize,
    few: bool,
    /// [query][number], scaled.
    q: Vec<f32>,
    positions: Vec<i64>,
    /// Tokens of the sequence, where lengths are given.
    length: Option<i64>,
    largest: Vec<f32>,
    sums: Vec<f32>,
    /// [query][number]
    out: Vec<f32>,
}

impl Block {
    fn new(inputs: &Inputs<'_>, p: &Params, share: &Share) -> Self {
        let d = (p.codes >> 16) as usize;
        let few = p.t as usize <= FEW;
        let width = if few { d.next_multiple_of(PAD) } else { d };
        let rows = share.heads.len() * share.tokens.len();
        let mut block = Block {
            share: share.clone(),
            d,
            width,
            few,
            q: vec![0.0; rows * width],
            positions: Vec::with_capacity(rows),
            length: inputs.lengths.map(|all| i64::from(all[share.batch])),
            largest: vec![f32::NEG_INFINITY; rows],
            sums: vec![0.0; rows],
            out: vec![0.0; rows * width],
        };
        let batch = share.batch;
        let line = if p.codes & Q_POSITIONS_BATCHED != 0 { batch * p.t as usize } else { 0 };
        for (at, (head, token)) in queries(share).enumerate() {
            let from = place(p.q, batch, head, token);
            let row = &mut block.q[at * width..][..d];
            inputs.q.load(from, 1, row);
            vectorize(|| row.iter_mut().for_each(|x| *x *= p.scale));
            block.positions.push(match inputs.q_positions {
                Some(positions) => i64::from(positions[line + token]),
                None => {
                    let first = block.length.map_or(i64::from(p.offset), |n| n - i64::from(p.t));
                    first + token as i64
                }
            });
        }
        block
    }

    /// Attends, then calls `emit` with each query's head, token and numbers.
    fn run(mut self, inputs: &Inputs<'_>, p: &Params, mut emit: impl FnMut(usize, usize, &[f32])) {
        let (first, last) = self.seen(p);
        let block = if self.few { FEW_KEYS } else { KEYS };
        let rows = self.positions.len();
        let mut scores = vec![0.0f32; rows * block];
        let mut scratch = vec![0.0f32; block * self.width];
        let mut extra = vec![0.0f32; block];
        let mut key = first;
        while key < last {
            let n = block.min(last - key);
            let scores = &mut scores[..rows * n];
            self.score(inputs, p, key, n, scores, &mut scratch);
            self.weigh(inputs, p, key, n, scores, &mut extra);
            self.gather(inputs, p, key, n, scores, &mut scratch);
            key += n;
        }
        for (at, (head, token)) in queries(&self.share).enumerate() {
            let inverse = if self.sums[at] > 0.0 { 1.0 / self.sums[at] } else { 0.0 };
            let row = &mut self.out[at * self.width..][..self.d];
            vectorize(|| row.iter_mut().for_each(|x| *x *= inverse));
            emit(head, token, row);
        }
    }

    /// Keys that any query may see, as far as that follows from the block's place.
    fn seen(&self, p: &Params) -> (usize, usize) {
        let s = p.s as usize;
        if let Some(length) = self.length {
            return (0, length.clamp(0, s as i64) as usize);
        }
        if p.codes & (K_POSITIONS | Q_POSITIONS) != 0 || p.codes & CAUSAL == 0 {
            return (0, s);
        }
        let low = self.positions.iter().copied().min().unwrap_or(0);
        let high = self.positions.iter().copied().max().unwrap_or(0);
        let first = match p.window {
            0 => 0,
            window => (low + 1 - i64::from(window)).max(0) as usize / KEYS * KEYS,
        };
        (first, (high + 1).clamp(0, s as i64) as usize)
    }

    /// Rows `at ..` of keys or values: as they lie where they are f32, else converted.
    fn lines<'s>(
        &self,
        from: Kept<'s>,
        at: usize,
        stride: usize,
        n: usize,
        scratch: &'s mut [f32],
    ) -> Lines<'s> {
        let width = self.width;
        if let Kept::Numbers(Numbers::F32(all)) = from
            && self.d == width
        {
            return Lines { data: &all[at..], stride, count: n, width };
        }
        for (line, out) in scratch.chunks_exact_mut(width).take(n).enumerate() {
            let at = at + line * stride;
            match from {
                Kept::Numbers(numbers) => numbers.load(at, 1, &mut out[..self.d]),
                Kept::Blocks(blocks) => {
                    let [first, bytes] = [at, self.d].map(|n| n / Q8_0::ELEMENTS * Q8_0::BYTES);
                    decode::<Q8_0>(&blocks[first..][..bytes], &mut out[..self.d]);
                }
            }
        }
        Lines { data: scratch, stride: width, count: n, width }
    }

    fn kv_head(&self, p: &Params) -> usize {
        self.share.heads.start / p.shared_by as usize
    }

    fn score(
        &self,
        inputs: &Inputs<'_>,
        p: &Params,
        key: usize,
        n: usize,
        scores: &mut [f32],
        scratch: &mut [f32],
    ) {
        let at = place(p.k, self.share.batch, self.kv_head(p), key);
        let keys = self.lines(inputs.k, at, p.k[2] as usize, n, scratch);
        let rows = self.positions.len();
        if self.few {
            let queries =
                Lines { data: &self.q, stride: self.width, count: rows, width: self.width };
            dots(queries, keys, scores);
        } else {
            let left = Matrix { data: &self.q, rows: self.width, columns: 1 };
            let right = Matrix { data: keys.data, rows: 1, columns: keys.stride };
            gemm([rows, n, self.d], left, right, scores, false);
        }
    }

    /// Scores become weights; what was gathered is rescaled to the new maximum.
    fn weigh(
        &mut self,
        inputs: &Inputs<'_>,
        p: &Params,
        key: usize,
        n: usize,
        scores: &mut [f32],
        extra: &mut [f32],
    ) {
        let batch = self.share.batch;
        for (at, (head, token)) in queries(&self.share).enumerate() {
            let row = &mut scores[at * n..][..n];
            if p.softcap > 0.0 {
                let cap = p.softcap;
                vectorize(
                    #[inline(always)]
                    || row.iter_mut().for_each(|x| *x = cap * tanh(*x / cap)),
                );
            }
            if let Some(bias) = inputs.bias {
                let from = place(p.bias, batch, head, token) + key;
                let bias = bias.stretch(from, 1, n, extra);
                vectorize(|| row.iter_mut().zip(bias).for_each(|(x, b)| *x += b));
            }
            mask(inputs, p, batch, self.length, self.positions[at], key, row);
            let now = max(row).max(self.largest[at]);
            if now <= f32::MIN {
                row.fill(0.0);
                continue;
            }
            let sum = exp_sum(row, now);
            let before = self.largest[at];
            let rescale = if before == f32::NEG_INFINITY { 0.0 } else { (before - now).exp() };
            self.sums[at] = self.sums[at].mul_add(rescale, sum);
            self.largest[at] = now;
            if rescale != 1.0 {
                let out = &mut self.out[at * self.width..][..self.width];
                vectorize(|| out.iter_mut().for_each(|x| *x *= rescale));
            }
        }
    }

    fn gather(
        &mut self,
        inputs: &Inputs<'_>,
        p: &Params,
        key: usize,
        n: usize,
        weights: &[f32],
        scratch: &mut [f32],
    ) {
        let at = place(p.v, self.share.batch, self.kv_head(p), key);
        let values = self.lines(inputs.v, at, p.v[2] as usize, n, scratch);
        let rows = self.positions.len();
        let mut out = std::mem::take(&mut self.out);
        if self.few {
            weighted(weights, values, &mut out);
        } else {
            let left = Matrix { data: weights, rows: n, columns: 1 };
            let right = Matrix { data: values.data, rows: values.stride, columns: 1 };
            gemm([rows, self.d, n], left, right, &mut out, true);
        }
        self.out = out;
    }
}

/// Head and token of each query of a share.
fn queries(share: &Share) -> impl Iterator<Item = (usize, usize)> + use<> {
    let tokens = share.tokens.clone();
    share.heads.clone().flat_map(move |head| tokens.clone().map(move |token| (head, token)))
}

fn place(strides: [u32; 3], batch: usize, head: usize, token: usize) -> usize {
    let [b, h, t] = strides.map(|stride| stride as usize);
    batch * b + head * h + token * t
}

/// −∞ where a query at `position` does not see keys `key ..`.
fn mask(
    inputs: &Inputs<'_>,
    p: &Params,
    batch: usize,
    length: Option<i64>,
    position: i64,
    key: usize,
    row: &mut [f32],
) {
    let causal = p.codes & CAUSAL != 0;
    // Positions that are seen.
    let low = if p.window == 0 { 0 } else { (position + 1 - i64::from(p.window)).max(0) };
    let high = match (causal, p.window) {
        (true, _) => position + 1,
        (false, 0) => i64::MAX,
        (false, window) => position + i64::from(window),
    };
    // A ring that has gone round: each row holds the latest position that falls on it.
    if let Some(length) = length.filter(|&length| length > i64::from(p.s)) {
        let last = length - 1;
        for (x, at) in row.iter_mut().zip(key as i64..) {
            if !(low..high).contains(&(last - (last - at) % i64::from(p.s))) {
                *x = f32::NEG_INFINITY;
            }
        }
        return;
    }
    match inputs.k_positions {
        Some(all) => {
            let line = if p.codes & K_POSITIONS_BATCHED != 0 { batch * p.s as usize } else { 0 };
            for (x, at) in row.iter_mut().zip(&all[line + key..]) {
                if !(low..high).contains(&i64::from(*at)) {
                    *x = f32::NEG_INFINITY;
                }
            }
        }
        None => {
            let n = row.len() as i64;
            let own = |position: i64| position.saturating_sub(key as i64).clamp(0, n) as usize;
            row[..own(low)].fill(f32::NEG_INFINITY);
            row[own(high)..].fill(f32::NEG_INFINITY);
        }
    }
}
