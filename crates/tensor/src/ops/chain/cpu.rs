//! Chains on the CPU: blocks small enough for the first cache, each step over a whole block.

use tintype_gpu::kernel::{Unit, UnitError};

use super::program::{MAX_STEPS, Step};
use super::{Params, RANK, UNIT_BYTES};
use crate::MAX_RANK;
use crate::layout::Walk;
use crate::number::{Number, Numbers, NumbersMut};

/// Elements computed at a time.
const BLOCK: usize = 1024;

/// The program's words, read back.
struct Words<'a>(&'a [u32]);

impl Words<'_> {
    fn number(&self, operand: usize) -> Number {
        Number::from_code(self.0[MAX_STEPS * 3 + operand])
    }

    fn steps(&self) -> Vec<Step> {
        let count = self.0[MAX_STEPS * 3 + 5] as usize;
        let words = self.0[..MAX_STEPS * 3].chunks_exact(3).take(count);
        words.map(|w| Step::decode(w[0], [f32::from_bits(w[1]), f32::from_bits(w[2])])).collect()
    }
}

fn walk(params: &Params) -> Walk<5> {
    let wide = |axes: &[u32; RANK], fill: u32| -> [u32; MAX_RANK] {
        std::array::from_fn(|axis| match axis.checked_sub(MAX_RANK - RANK) {
            Some(axis) => axes[axis],
            None => fill,
        })
    };
    let [a, b, c, d] = params.sides.map(|axes| wide(&axes, 0));
    let extents = wide(&params.extents, 1);
    Walk { extents, strides: [wide(&params.out, 0), a, b, c, d], rank: RANK }
}

pub(super) fn chain(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    run(unit, false)
}

pub(super) fn chain_in_place(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    run(unit, true)
}

fn run(unit: &mut Unit<'_>, in_place: bool) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    let first = usize::from(in_place);
    let words = Words(unit.read::<u32>(4 - first)?);
    let steps = words.steps();
    let used = steps.iter().fold([false; 3], |mut used, step| {
        if let Step::Binary { side, .. } = step {
            used[*side] = true;
        }
        used
    });
    let a = if in_place { None } else { Some(Numbers::read(unit, 0, words.number(0))?) };
    let mut sides = [None; 3];
    for (at, side) in sides.iter_mut().enumerate().filter(|(at, _)| used[*at]) {
        *side = Some(Numbers::read(unit, at + 1 - first, words.number(at + 1))?);
    }
    let own = words.number(4);
    let mut out = NumbersMut::write(unit, 5 - first, own)?;
    let walk = walk(&params);
    let strides = walk.inner_strides();
    let size = own.dtype().block_bytes();
    let start = u64::from(unit.index()) * UNIT_BYTES / size;
    let elements = walk.first_at(start)..walk.first_at(start + UNIT_BYTES / size);
    let (mut now, mut next) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    let mut loaded = [[0.0f32; BLOCK]; 3];
    walk.runs(elements, |mut offsets, len| {
        offsets[0] -= start as usize;
        for at in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - at);
            let place = |operand: usize| offsets[operand] + at * strides[operand];
            match a {
                Some(a) => a.load(place(1), strides[1], &mut now[..n]),
                None => out.shared().load(place(0), strides[0], &mut now[..n]),
            }
            for (side, (numbers, loaded)) in sides.iter().zip(&mut loaded).enumerate() {
                if let Some(numbers) = numbers {
                    numbers.load(place(side + 2), strides[side + 2], &mut loaded[..n]);
                }
            }
            for step in &steps {
                let (r, after) = (&now[..n], &mut next[..n]);
                match *step {
                    Step::Unary(function, [x, y]) => function.apply(after, r, x, y),
                    Step::Own(function) => function.apply(after, r, r),
                    Step::Binary { function, side, reversed: false } => {
                        function.apply(after, r, &loaded[side][..n]);
                    }
                    Step::Binary { function, side, reversed: true } => {
                        function.apply(after, &loaded[side][..n], r);
                    }
                }
                std::mem::swap(&mut now, &mut next);
            }
            out.store(place(0), strides[0], &now[..n]);
        }
    });
    Ok(())
}
