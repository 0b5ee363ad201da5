//! 8-bit floats to single precision, exactly. It must not know the scales that go with them.
//! Source: OCP 8-bit Floating Point Specification 1.0; agrees with PyTorch's float8 casts.

/// 4 exponent bits (bias 7), 3 mantissa bits, no infinities; 0x7F and 0xFF are NaN.
pub(super) fn e4m3(bits: u8) -> f32 {
    let magnitude = match (bits >> 3 & 0xF, bits & 7) {
        (0xF, 7) => f32::NAN,
        // Subnormals count in steps of 2^-9.
        (0, mantissa) => f32::from(mantissa) / 512.0,
        (exponent, mantissa) => {
            f32::from_bits((u32::from(exponent) + 120) << 23 | u32::from(mantissa) << 20)
        }
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// 5 exponent bits (bias 15), 2 mantissa bits: the upper byte of a half.
pub(super) fn e5m2(bits: u8) -> f32 {
    half::f16::from_bits(u16::from(bits) << 8).to_f32()
}

/// Unsigned E4M3, halved: the scale of NVFP4, whose table of values is doubled. 0x7F counts as 0.
pub(super) fn ue4m3_half(bits: u8) -> f32 {
    // The top bit is no sign here, and the readers of the field drop it from the exponent.
    let value = match (bits >> 3 & 0xF, bits & 7) {
        _ if bits == 0x7F => 0.0,
        (0, mantissa) => f32::from(mantissa) / 512.0,
        (exponent, mantissa) => {
            f32::from_bits((u32::from(exponent) + 120) << 23 | u32::from(mantissa) << 20)
        }
    };
    value * 0.5
}

/// A bare 8-bit exponent, halved: the scale of MXFP4, whose table of values is doubled.
pub(super) fn e8m0_half(bits: u8) -> f32 {
    f32::from_bits(if bits < 2 { 0x0020_0000 << bits } else { u32::from(bits - 1) << 23 })
}
