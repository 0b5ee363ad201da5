// Prelude: bf16 travels as its bits in 16-bit integers, since WGSL has no such type.
enable wgpu_int16;

fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// Round to nearest even; NaN stays NaN.
fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    let nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return select(rounded, (bits >> 16u) | 0x40u, nan);
}
