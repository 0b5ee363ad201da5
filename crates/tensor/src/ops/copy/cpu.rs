//! Copies on the CPU: stretches of the innermost axis, by `memcpy` where they are dense, in square
//! blocks where input and output run along different axes.

use tintype_gpu::kernel::{Unit, UnitError};

use crate::ops::walked::{Params, unit_runs};

pub(super) fn copy(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    match params.codes {
        4 => copy_as::<u32>(unit, &params),
        _ => copy_as::<u16>(unit, &params),
    }
}

fn copy_as<T: bytemuck::Pod>(unit: &mut Unit<'_>, params: &Params) -> Result<(), UnitError> {
    let a: &[T] = unit.read(0)?;
    let out: &mut [T] = unit.write(1)?;
    let strides = params.walk::<2>().inner_strides();
    unit_runs(unit, params, size_of::<T>() as u64, |[to, from], len| match strides {
        [1, 1] => out[to..to + len].copy_from_slice(&a[from..from + len]),
        [1, 0] => out[to..to + len].fill(a[from]),
        [step, 0] => {
            out[to..].iter_mut().step_by(step.max(1)).take(len).for_each(|out| *out = a[from]);
        }
        [step, source] => {
            let pairs =
                out[to..].iter_mut().step_by(step.max(1)).zip(a[from..].iter().step_by(source));
            pairs.take(len).for_each(|(out, a)| *out = *a);
        }
    })
}
