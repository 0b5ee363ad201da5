//! Dense matrix products, f32 accumulation: out = lhs · rhs over any strides, so that lhs · rhsᵀ
//! (weights `[n, k]`) is the product with a transposed view, and a matrix times a vector is the
//! product with one row.
//!
//! | kernel | when | how |
//! |--------|------|-----|
//! | `coop` | f16 in, f32 out, m ≥ 128 and n of whole 128s, k of whole 32s, 16-byte rows, and the device has 16×16×16 cooperative matrices | 128×128 tiles, 64×64 a subgroup, two stages of workgroup memory |
//! | `rows` | few rows, both operands contiguous along k | 32 threads a sum |
//! | `tiled` | everything else | 64×64 tiles, 4×4 sums a thread |

mod cases;
mod cpu;
mod reference;

use tintype_gpu::kernel::KernelSource;
use tintype_gpu::{Dispatch, Session, Split};

use super::Operation;
use super::case::Variant;
use super::walked::Start;
use crate::Tensor;
use crate::error::{Result, dtype, shape};
use crate::number::{NUMBERS, Number, inputs_and_out};

/// The list's entry.
pub const OPERATION: Operation = Operation {
    name: "matmul",
    summary: "dense matrix products with f32 accumulation, batched, over any strides",
    cases: cases::cases,
    benches: cases::benches,
    kernels,
};

/// Immediates of all three kernels. Strides in elements.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Params {
    m: u32,
    n: u32,
    k: u32,
    lhs_start: u32,
    lhs_batch: u32,
    lhs_row: u32,
    lhs_k: u32,
    rhs_start: u32,
    rhs_batch: u32,
    rhs_k: u32,
    rhs_column: u32,
    out_start: u32,
    out_batch: u32,
    out_row: u32,
    /// The CPU kernel's: types of lhs, rhs and out, a byte each.
    types: u32,
    /// The CPU kernel's: rows and columns of a unit's tile.
    tile: [u32; 2],
}

const TILED: KernelSource = KernelSource {
    name: "matmul_tiled",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("tiled.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::tile,
};
const ROWS: KernelSource = KernelSource {
    name: "matmul_rows",
    wgsl: concat!(include_str!("../prelude/numbers.wgsl"), include_str!("rows.wgsl")),
    entry: "main",
    aliases: &[],
    cpu: cpu::columns,
};
const COOP: KernelSource = KernelSource {
    name: "matmul_coop",
    wgsl: include_str!("coop.wgsl"),
    entry: "main",
    aliases: &[],
    cpu: cpu::tile,
};

static TYPES: [[(&str, &str); 4]; 27] = inputs_and_out("LHS", "RHS");

/// Rows and columns of a `tiled` workgroup, and of a `coop` one.
const TILE: usize = 64;
const COOP_TILE: usize = 128;
/// Terms that `coop` takes a step.
const COOP_K: usize = 32;
/// Most rows that `rows` takes: beyond, tiles read the weights fewer times.
const FEW: usize = 4;
/// Sums of a `rows` workgroup.
const SUMS: usize = 4;

fn variant(source: KernelSource, types: [Number; 3]) -> Variant {
    let [lhs, rhs, out] = types;
    let aliases = &TYPES[lhs as usize * 9 + rhs as usize * 3 + out as usize];
    Variant {
        source: KernelSource { aliases, ..source },
        overrides: vec![
            ("LHS_BF16", lhs.is_bf16()),
            ("RHS_BF16", rhs.is_bf16()),
            ("OUT_BF16", out.is_bf16()),
        ],
    }
}

/// `coop` takes weights contiguous along k or along n.
fn coop_variant(k_inner: bool) -> Variant {
    let inner = f64::from(u8::from(k_inner));
    Variant { source: COOP, overrides: vec![("RHS_K_INNER", inner)] }
}

fn kernels() -> Vec<Variant> {
    let mut all = vec![coop_variant(false), coop_variant(true)];
    for lhs in NUMBERS {
        for rhs in NUMBERS {
            for out in NUMBERS {
                all.extend([TILED, ROWS].map(|source| variant(source, [lhs, rhs, out])));
            }
        }
    }
    all
}

/// `out = lhs · rhs`: lhs `[m, k]`, rhs `[k, n]`, out `[m, n]` with contiguous rows; or all with one
/// more axis in front, along which lhs and rhs may have extent 1 and repeat. F32, F16, BF16.
pub fn matmul(session: &mut Session<'_>, lhs: &Tensor, rhs: &Tensor, out: &Tensor) -> Result<()> {
    let operands = [lhs, rhs, out];
    let types = operands.map(|tensor| Number::of(tensor.dtype()));
    let [Some(tl), Some(tr), Some(to)] = types else {
        return Err(dtype("matmul", &operands, "operands must be F32, F16 or BF16"));
    };
    let refuse = |reason: &str| Err(shape("matmul", &operands, reason));
    let three = |tensor: &Tensor| match tensor.rank() {
        2 => tensor.insert_axis(0),
        _ => Ok(tensor.clone()),
    };
    let (lhs, rhs, out) = (three(lhs)?, three(rhs)?, three(out)?);
    if [&lhs, &rhs, &out].iter().any(|tensor| tensor.rank() != 3) {
        return refuse("operands must have two axes, or three with a batch");
    }
    let (batch, m, n) = (out.shape()[0], out.shape()[1], out.shape()[2]);
    let k = lhs.shape()[2];
    let repeats = |tensor: &Tensor| [1, batch].contains(&tensor.shape()[0]);
    if lhs.shape()[1] != m || rhs.shape()[1] != k || rhs.shape()[2] != n {
        return refuse("lhs [m, k] and rhs [k, n] give out [m, n]");
    }
    if !repeats(&lhs) || !repeats(&rhs) {
        return refuse("the batches of lhs and rhs must be 1 or the output's");
    }
    let rows_apart = m == 1 || out.strides()[1] >= n;
    if (n > 1 && out.strides()[2] != 1) || !rows_apart {
        return refuse("rows of the output must be contiguous and apart");
    }
    if out.elements() == 0 {
        return Ok(());
    }
    if k == 0 {
        return super::fill::fill(session, 0.0, &out);
    }
    let product = Product { lhs, rhs, out, types: [tl, tr, to], batch, m, n, k };
    product.record(session)
}

/// A checked product; every operand has three axes.
struct Product {
    lhs: Tensor,
    rhs: Tensor,
    out: Tensor,
    types: [Number; 3],
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

impl Product {
    fn record(self, session: &mut Session<'_>) -> Result<()> {
        let limit = session.device().info().limits.max_binding_bytes;
        if let Some(large) =
            [&self.lhs, &self.rhs, &self.out].into_iter().find(|t| t.span_bytes() > limit)
        {
            // Columns are independent: halve them until each piece fits.
            if self.n > 1 && (large.shape() == self.rhs.shape() || self.n > self.m) {
                let half = self.n.div_ceil(2);
                return self
                    .columns(0..half)?
                    .record(session)
                    .and_then(|()| self.columns(half..self.n)?.record(session));
            }
            if self.m > 1 {
                let half = self.m.div_ceil(2);
                return self
                    .rows(0..half)?
                    .record(session)
                    .and_then(|()| self.rows(half..self.m)?.record(session));
            }
            let operands = [&self.lhs, &self.rhs, &self.out];
            let reason = format!("one row does not fit in a binding of {limit} bytes");
            return Err(shape("matmul", &operands, reason));
        }
        if self.batch > 1 && !self.out.is_contiguous() && self.on_cpu(session) {
            // CPU units share out contiguous memory.
            for at in 0..self.batch {
                self.one(at)?.record(session)?;
            }
            return Ok(());
        }
        if self.fits_coop(session)? {
            let whole = self.m / COOP_TILE * COOP_TILE;
            self.rows(0..whole)?.coop(session)?;
            if whole < self.m {
                self.rows(whole..self.m)?.tiled(session)?;
            }
            return Ok(());
        }
        let contiguous = self.lhs.strides()[2] == 1 && self.rhs.strides()[1] == 1;
        if self.m <= FEW && (contiguous || self.k == 1) {
            return self.few(session);
        }
        self.tiled(session)
    }

    fn on_cpu(&self, session: &Session<'_>) -> bool {
        session.device().info().limits.threads > 0
    }

    fn with(&self, lhs: Tensor, rhs: Tensor, out: Tensor) -> Product {
        let (batch, m, n) = (out.shape()[0], out.shape()[1], out.shape()[2]);
        Product { lhs, rhs, out, types: self.types, batch, m, n, k: self.k }
    }

    fn columns(&self, range: std::ops::Range<usize>) -> Result<Product> {
        let rhs = self.rhs.slice(2, range.clone())?;
        Ok(self.with(self.lhs.clone(), rhs, self.out.slice(2, range)?))
    }

    fn rows(&self, range: std::ops::Range<usize>) -> Result<Product> {
        let lhs = self.lhs.slice(1, range.clone())?;
        Ok(self.with(lhs, self.rhs.clone(), self.out.slice(1, range)?))
    }

    fn one(&self, at: usize) -> Result<Product> {
        let pick = |tensor: &Tensor| match tensor.shape()[0] {
            1 => Ok(tensor.clone()),
            _ => tensor.slice(0, at..at + 1),
        };
        Ok(self.with(pick(&self.lhs)?, pick(&self.rhs)?, self.out.slice(0, at..at + 1)?))
    }

    /// Whether the cooperative kernel takes it (all but a remainder of its rows).
    fn fits_coop(&self, session: &Session<'_>) -> Result<bool> {
        let has = |shape: &tintype_gpu::CoopShape| (shape.m, shape.n, shape.k) == (16, 16, 16);
        let device = session.device().info();
        let sixteen = |tensor: &Tensor, axis: usize, start: u64| {
            tensor.strides()[axis] == 1
                && (0..3).all(|other| other == axis || tensor.strides()[other].is_multiple_of(8))
                && start.is_multiple_of(16)
        };
        let (lhs, rhs) = (self.lhs.read()?, self.rhs.read()?);
        let rhs_aligned = sixteen(&self.rhs, 1, rhs.start()) || sixteen(&self.rhs, 2, rhs.start());
        Ok(device.features.coop_f16.iter().any(has)
            && device.limits.subgroup_size == (32, 32)
            && self.types == [Number::F16, Number::F16, Number::F32]
            && self.m >= COOP_TILE
            && self.n.is_multiple_of(COOP_TILE)
            && self.k.is_multiple_of(COOP_K)
            && sixteen(&self.lhs, 2, lhs.start())
            && rhs_aligned)
    }

    fn coop(&self, session: &mut Session<'_>) -> Result<()> {
        let variant = coop_variant(self.rhs.strides()[1] == 1);
        let groups = [self.n / COOP_TILE, self.m / COOP_TILE, self.batch];
        self.dispatch(session, variant, groups, [COOP_TILE; 2])
    }

    fn few(&self, session: &mut Session<'_>) -> Result<()> {
        let groups = [self.n.div_ceil(SUMS), self.m, self.batch];
        // About a hundred microseconds of reading weights a unit.
        let columns = ((512 << 10) / (self.k * 4)).clamp(1, self.n);
        self.dispatch(session, variant(ROWS, self.types), groups, [1, columns])
    }

    fn tiled(&self, session: &mut Session<'_>) -> Result<()> {
        let groups = [self.n.div_ceil(TILE), self.m.div_ceil(TILE), self.batch];
        // With a batch a unit takes whole matrices' rows, so that none straddles two of them.
        let rows = if self.batch > 1 { self.m } else { self.m.min(192) };
        self.dispatch(session, variant(TILED, self.types), groups, [rows, self.n.min(512)])
    }

    fn dispatch(
        &self,
        session: &mut Session<'_>,
        variant: Variant,
        groups: [usize; 3],
        tile: [usize; 2],
    ) -> Result<()> {
        let kernel = variant.compile(session)?;
        let (lhs, rhs, out) = (self.lhs.read()?, self.rhs.read()?, self.out.write()?);
        let size = |tensor: &Tensor| tensor.dtype().block_bytes();
        let batch = |tensor: &Tensor| if tensor.shape()[0] == 1 { 0 } else { tensor.strides()[0] };
        let narrow = |n: usize| {
            u32::try_from(n).map_err(|_| {
                let operands = [&self.lhs, &self.rhs, &self.out];
                shape("matmul", &operands, "strides beyond 32 bits are not reached")
            })
        };
        let [tl, tr, to] = self.types.map(|number| number as u32);
        let whole = self.out.is_contiguous();
        // Without contiguous rows a unit owns whole strides.
        let columns = if whole { tile[1] } else { self.n };
        let params = Params {
            m: narrow(self.m)?,
            n: narrow(self.n)?,
            k: narrow(self.k)?,
            lhs_start: lhs.start_in(size(&self.lhs)),
            lhs_batch: narrow(batch(&self.lhs))?,
            lhs_row: narrow(self.lhs.strides()[1])?,
            lhs_k: narrow(self.lhs.strides()[2])?,
            rhs_start: rhs.start_in(size(&self.rhs)),
            rhs_batch: narrow(batch(&self.rhs))?,
            rhs_k: narrow(self.rhs.strides()[1])?,
            rhs_column: narrow(self.rhs.strides()[2])?,
            out_start: out.start_in(size(&self.out)),
            out_batch: narrow(batch(&self.out))?,
            out_row: narrow(self.out.strides()[1])?,
            types: tl | tr << 8 | to << 16,
            tile: [narrow(tile[0])?, narrow(columns)?],
        };
        let across = self.n.div_ceil(columns);
        let row = if whole { self.n } else { self.out.strides()[1] } as u64 * size(&self.out);
        let split = match whole {
            true => Split::Tiles {
                row_bytes: row,
                tile_rows: tile[0] as u64,
                tile_bytes: columns as u64 * size(&self.out),
                columns: across as u32,
            },
            false => Split::Chunks(tile[0] as u64 * row),
        };
        let units = (self.batch * self.m).div_ceil(tile[0]) * across;
        let most = session.device().info().limits.max_groups;
        let mut grid = [1u32; 3];
        for axis in 0..3 {
            grid[axis] = narrow(groups[axis])?;
            if grid[axis] > most[axis] {
                let operands = [&self.lhs, &self.rhs, &self.out];
                let reason = format!("{groups:?} workgroups, the device takes {most:?}; cut it");
                return Err(shape("matmul", &operands, reason));
            }
        }
        session.dispatch(
            Dispatch::new(&kernel)
                .label("matmul")
                .bind(lhs)
                .bind(rhs)
                .bind(out)
                .immediates(&params)
                .groups(grid)
                .cpu(narrow(units)?, [split]),
        )?;
        Ok(())
    }
}
