//! Pointwise functions on the CPU: blocks small enough for the first cache, in f32.

use tintype_gpu::kernel::{Unit, UnitError};

use super::functions::{Binary, Unary};
use crate::number::{Number, Numbers, NumbersMut};
use crate::ops::walked::{Params, unit_runs};

/// Elements converted and computed at a time.
const BLOCK: usize = 1024;

/// Function and types of a dispatch, packed for the CPU: 8 bits each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    pub(crate) function: u32,
    pub(crate) a: Number,
    pub(crate) b: Number,
    pub(crate) out: Number,
}

impl Codes {
    pub(crate) fn pack(self) -> u32 {
        self.function | (self.a as u32) << 8 | (self.b as u32) << 16 | (self.out as u32) << 24
    }

    fn unpack(codes: u32) -> Self {
        let number = |at: u32| Number::from_code(codes >> at & 0xff);
        Codes { function: codes & 0xff, a: number(8), b: number(16), out: number(24) }
    }
}

pub(super) fn unary(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let codes = Codes::unpack(params.codes);
    let a = Numbers::read(unit, 0, codes.a)?;
    let mut out = NumbersMut::write(unit, 1, codes.out)?;
    let function = Unary::from_code(codes.function);
    let strides = params.walk::<2>().inner_strides();
    let (mut before, mut after) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    unit_runs(unit, &params, codes.out.dtype().block_bytes(), |[to, from], len| {
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            let v = a.stretch(from + at * strides[1], strides[1], n, &mut before);
            function.apply(&mut after[..n], v, params.x, params.y);
            out.store(to + at * strides[0], strides[0], &after[..n]);
        }
    })
}

pub(super) fn unary_in_place(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let codes = Codes::unpack(params.codes);
    let mut out = NumbersMut::write(unit, 0, codes.out)?;
    let function = Unary::from_code(codes.function);
    let [stride] = params.walk::<1>().inner_strides();
    let (mut before, mut after) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    unit_runs(unit, &params, codes.out.dtype().block_bytes(), |[to], len| {
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            let v = out.shared().stretch(to + at * stride, stride, n, &mut before);
            function.apply(&mut after[..n], v, params.x, params.y);
            out.store(to + at * stride, stride, &after[..n]);
        }
    })
}

pub(super) fn binary(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let codes = Codes::unpack(params.codes);
    let a = Numbers::read(unit, 0, codes.a)?;
    let b = Numbers::read(unit, 1, codes.b)?;
    let mut out = NumbersMut::write(unit, 2, codes.out)?;
    let function = Binary::from_code(codes.function);
    let strides = params.walk::<3>().inner_strides();
    let (mut first, mut second, mut after) = ([0.0f32; BLOCK], [0.0f32; BLOCK], [0.0f32; BLOCK]);
    unit_runs(unit, &params, codes.out.dtype().block_bytes(), |[to, from, other], len| {
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            let v = a.stretch(from + at * strides[1], strides[1], n, &mut first);
            let w = b.stretch(other + at * strides[2], strides[2], n, &mut second);
            function.apply(&mut after[..n], v, w);
            out.store(to + at * strides[0], strides[0], &after[..n]);
        }
    })
}

/// The output is operand a; slot 0 is b.
pub(super) fn binary_in_place(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let codes = Codes::unpack(params.codes);
    let b = Numbers::read(unit, 0, codes.b)?;
    let mut out = NumbersMut::write(unit, 1, codes.out)?;
    let function = Binary::from_code(codes.function);
    let strides = params.walk::<2>().inner_strides();
    let (mut first, mut second, mut after) = ([0.0f32; BLOCK], [0.0f32; BLOCK], [0.0f32; BLOCK]);
    unit_runs(unit, &params, codes.out.dtype().block_bytes(), |[to, other], len| {
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            let v = out.shared().stretch(to + at * strides[0], strides[0], n, &mut first);
            let w = b.stretch(other + at * strides[1], strides[1], n, &mut second);
            function.apply(&mut after[..n], v, w);
            out.store(to + at * strides[0], strides[0], &after[..n]);
        }
    })
}
