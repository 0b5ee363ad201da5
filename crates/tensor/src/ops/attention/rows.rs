//! How the CPU shares out attention: units own some tokens of some heads, by where the output lies.
//! It must not know what they compute.

use tintype_gpu::{Dispatch, Session, Split};

use super::{Attention, Checked, Params, bound, kernels};
use crate::Tensor;
use crate::error::{Result, shape};

/// Tokens up to which queries are too few for products of matrices.
pub(super) const FEW: usize = 4;

/// Tokens of a unit, for many and for fewer.
const TOKENS: [usize; 2] = [128, 64];

/// Operations of a unit, at most, while it has more than [`LEAST`] tokens: a run that is to stop waits
/// for the units that have begun.
const OPERATIONS: usize = 600_000_000;

/// Tokens below which products of matrices waste most of their tiles.
const LEAST: usize = 16;

/// Units there should be at least, before heads that share keys are taken apart.
const UNITS: usize = 4;

/// How units own the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Owner {
    /// Tokens outside, heads inside, dense: tiles of tokens by heads.
    Tiles = 0,
    /// Heads outside: stretches of tokens of one head where all is dense, or whole heads.
    Heads = 1,
    /// Tokens outside, with gaps: stretches of tokens, all heads.
    Tokens = 2,
}

/// A unit's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) batch: usize,
    pub(super) heads: std::ops::Range<usize>,
    pub(super) tokens: std::ops::Range<usize>,
}

impl Params {
    fn tile(&self) -> (Owner, usize, usize) {
        let owner = match self.part & 0xff {
            0 => Owner::Tiles,
            1 => Owner::Heads,
            _ => Owner::Tokens,
        };
        (owner, (self.part >> 8 & 0xffff) as usize, (self.heads >> 16) as usize)
    }

    pub(super) fn owner(&self) -> Owner {
        self.tile().0
    }

    /// What unit `index` computes.
    pub(super) fn share(&self, index: usize) -> Share {
        let (owner, tile_heads, tile_tokens) = self.tile();
        let t = self.t as usize;
        let tile_tokens = if tile_tokens == 0 { t } else { tile_tokens };
        let heads = (self.shared_by * (self.heads & 0xffff)) as usize;
        let (batch, head, token) = match owner {
            Owner::Tiles => {
                let columns = heads / tile_heads;
                let row = index / columns * tile_tokens;
                (row / t, index % columns * tile_heads, row % t)
            }
            Owner::Heads if tile_tokens < t => {
                let columns = t.div_ceil(tile_tokens);
                let head = index / columns;
                (head / heads, head % heads, index % columns * tile_tokens)
            }
            Owner::Heads => (index * tile_heads / heads, index * tile_heads % heads, 0),
            Owner::Tokens => (0, 0, index * tile_tokens),
        };
        Share { batch, heads: head..head + tile_heads, tokens: token..(token + tile_tokens).min(t) }
    }
}

/// One dispatch, or one a batch where units cannot share out several.
pub(super) fn record(
    session: &mut Session<'_>,
    spec: &Attention<'_>,
    checked: &Checked,
    operands: [&Tensor; 4],
) -> Result<()> {
    let [q, k, _, out] = operands;
    let &[batch, heads, t, d] = q.shape() else { return Ok(()) };
    let [sb, sh, st] = [out.strides()[0], out.strides()[1], out.strides()[2]];
    let shared_by = heads / k.shape()[1];
    let mut tokens = t.min(TOKENS[usize::from(t < 1024)]);
    while tokens > LEAST && 4 * tokens * k.shape()[2] * d > OPERATIONS {
        tokens /= 2;
    }
    let mut together = 1;
    if t <= FEW {
        together = shared_by;
        while batch * heads / together < UNITS && together.is_multiple_of(2) {
            together /= 2;
        }
    }
    let tokens_outside = heads == 1 || sh >= d && (t == 1 || st >= (heads - 1) * sh + d);
    let heads_outside = t == 1 || st >= d && (heads == 1 || sh >= (t - 1) * st + d);
    let (owner, tokens, regular) = if tokens_outside && st == (heads - 1) * sh + d {
        (Owner::Tiles, tokens, sb == t * st && t.is_multiple_of(tokens))
    } else if heads_outside && heads > 1 {
        let cut = t > tokens && sh == t * st && st == d;
        (Owner::Heads, if cut { tokens } else { t }, sb == heads * sh)
    } else if tokens_outside {
        (Owner::Tokens, tokens, false)
    } else {
        let reason = "heads or tokens of the output share memory or interleave; copy it after";
        return Err(shape("attention", &operands, reason));
    };
    if batch > 1 && !regular {
        for at in 0..batch {
            let one = |tensor: &Tensor| tensor.slice(0, at..at + 1);
            let [q, k, v, out] = operands.map(one);
            let bias = checked.bias.as_ref().map(one).transpose()?;
            let checked = Checked { bias, ..*checked };
            let positions = |tensor: Option<&Tensor>| {
                let batched = |tensor: &&Tensor| tensor.rank() == 2;
                let own = tensor.filter(batched).map(one).transpose()?;
                Ok::<_, crate::Error>(own.or(tensor.cloned()))
            };
            let (of_q, of_k) = (positions(spec.q_positions)?, positions(spec.k_positions)?);
            let lengths = spec.lengths.map(one).transpose()?;
            let spec = Attention {
                q_positions: of_q.as_ref(),
                k_positions: of_k.as_ref(),
                lengths: lengths.as_ref(),
                ..*spec
            };
            record(session, &spec, &checked, [&q?, &k?, &v?, &out?])?;
        }
        return Ok(());
    }
    if owner == Owner::Tokens {
        together = heads;
    } else if owner == Owner::Heads && tokens < t {
        together = 1;
    }
    let size = out.dtype().block_bytes();
    let bytes = |elements: usize| elements as u64 * size;
    let (split, units) = match owner {
        Owner::Tiles => {
            let columns = heads / together;
            let split = Split::Tiles {
                row_bytes: bytes(st),
                tile_rows: tokens as u64,
                tile_bytes: bytes(together * sh),
                columns: columns as u32,
            };
            (split, columns * (batch * t).div_ceil(tokens))
        }
        Owner::Heads if tokens < t => {
            let columns = t.div_ceil(tokens);
            let split = Split::Tiles {
                row_bytes: bytes(t * st),
                tile_rows: 1,
                tile_bytes: bytes(tokens * st),
                columns: columns as u32,
            };
            (split, batch * heads * columns)
        }
        Owner::Heads => (Split::Chunks(bytes(together * sh)), batch * heads / together),
        Owner::Tokens => (Split::Chunks(bytes(tokens * st)), t.div_ceil(tokens)),
    };
    let (mut params, spans) = bound(spec, checked, operands)?;
    // A unit of whole heads may have more tokens than 16 bits hold: 0 says all.
    params.heads |= if tokens < t { (tokens as u32) << 16 } else { 0 };
    params.part = owner as u32 | (together as u32) << 8;
    let rows = params.shared_by * params.t;
    let kernel =
        kernels::tiled(checked.types, d as u32, kernels::rows_of_tile(rows, d as u32), false);
    let kernel = kernel.compile(session)?;
    let mut dispatch = Dispatch::new(&kernel).label("attention");
    for span in spans {
        dispatch = dispatch.bind(span);
    }
    let dispatch = dispatch.bind(out.write()?).immediates(&params).cpu(units as u32, [split]);
    session.dispatch(dispatch)?;
    Ok(())
}
