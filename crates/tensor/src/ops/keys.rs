//! Keys that sort as numbers do, for operations that put rows in order (WGSL: `prelude/keys.wgsl`).

/// A number's key: the smaller goes first. NaN has the largest.
pub(crate) fn key(v: f32, ascending: bool) -> u32 {
    if v.is_nan() {
        return u32::MAX;
    }
    // Of the zeros, the positive one.
    let bits = (v + 0.0).to_bits();
    let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    if ascending { rising } else { !rising }
}

/// A key with its place behind it: equals sort by place.
pub(crate) fn placed(v: f32, ascending: bool, place: u64) -> u64 {
    u64::from(key(v, ascending)) << 32 | place
}

/// The place behind a key.
pub(crate) fn place(placed: u64) -> usize {
    (placed & 0xffff_ffff) as usize
}
