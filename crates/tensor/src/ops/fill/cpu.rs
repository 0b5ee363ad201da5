//! Fills on the CPU: stretches of the innermost axis.

use tintype_gpu::kernel::{Unit, UnitError};

use crate::ops::walked::{Params, unit_runs};

pub(super) fn fill(unit: &mut Unit<'_>) -> Result<(), UnitError> {
    let params: Params = unit.immediates()?;
    match params.x {
        4.0 => fill_with(unit, &params, params.codes),
        _ => fill_with(unit, &params, params.codes as u16),
    }
}

fn fill_with<T: bytemuck::Pod>(
    unit: &mut Unit<'_>,
    params: &Params,
    value: T,
) -> Result<(), UnitError> {
    let out: &mut [T] = unit.write(0)?;
    let [stride] = params.walk::<1>().inner_strides();
    unit_runs(unit, params, size_of::<T>() as u64, |[to], len| match stride {
        1 => out[to..to + len].fill(value),
        _ => out[to..].iter_mut().step_by(stride.max(1)).take(len).for_each(|out| *out = value),
    })
}
