//! Blocks against what Python `gguf` and llama.cpp make of the same bytes and values. The
//! constants come from `xtask/python/quant_goldens.py`.

use super::{ENCODABLE, QuantError, decode, encode};
use crate::DType;

/// FNV-1a of the single-precision bits of 2 048 values, undefined ones made equal.
const DECODED: &[(DType, u64)] = &[
    (DType::Q4_0, 0x9a6ebf96a3a5a38e),
    (DType::Q4_1, 0x10c0fc125a2b9238),
    (DType::Q5_0, 0x2f2b6a84497a81ba),
    (DType::Q5_1, 0x04d5bac09142cd92),
    (DType::Q8_0, 0xbf01f829e702757e),
    (DType::Q2K, 0x69a1ce94a9eed8d3),
    (DType::Q3K, 0x10bcc01b0c42f941),
    (DType::Q4K, 0x13ebc9b51b3e74f3),
    (DType::Q5K, 0x26a657ed65099ce9),
    (DType::Q6K, 0xbebbc1a6bb819f05),
    (DType::Iq2Xxs, 0x5aa40a53aa408059),
    (DType::Iq2Xs, 0x1f78ed59b06a111f),
    (DType::Iq2S, 0x476ff23c9ec253c7),
    (DType::Iq3Xxs, 0x97b329ce23b2c08d),
    (DType::Iq3S, 0xd3047012bf3ef6b8),
    (DType::Iq1S, 0x63593519c7cb6b0f),
    (DType::Iq1M, 0x267df190870911e9),
    (DType::Iq4Nl, 0x6835517a5702464d),
    (DType::Iq4Xs, 0x46d16f27da8fe628),
    (DType::Tq1_0, 0x3ac5528f486e4517),
    (DType::Tq2_0, 0x286b9b3df25d3f41),
    (DType::Mxfp4, 0xa83e94d7f64249dc),
    (DType::Nvfp4, 0x7e54727dae1bd48e),
    (DType::Bf16, 0x928d4f8124e1489b),
    (DType::F16, 0x13d15d2b0f3e8bef),
];

/// FNV-1a of the bytes that 4 096 values become.
const ENCODED: &[(DType, u64)] = &[
    (DType::Q4_0, 0x8164158f5e5e18a5),
    (DType::Q4_1, 0xbba7d3ed9b554cc5),
    (DType::Q5_0, 0xacfff61244c3488f),
    (DType::Q5_1, 0x3295045778808343),
    (DType::Q8_0, 0x89566869423571ea),
    (DType::Bf16, 0x25d3fdc2e9ffb6c1),
    (DType::F16, 0x7cc0237020f75511),
];

const K_TYPES: [DType; 5] = [DType::Q2K, DType::Q3K, DType::Q4K, DType::Q5K, DType::Q6K];

/// Makes 65 536 values that are spread in one way.
type Spread = fn(usize) -> Vec<f32>;

/// Relative errors of llama.cpp's quantizers (0.3.36 of llama-cpp-python, no importance matrix) in the
/// order of [`K_TYPES`], for each way in which values are spread. Python `gguf` has none of its own:
/// its `quantize` raises NotImplementedError for these types.
const LLAMA_CPP: &[(&str, Spread, [f64; 5])] = &[
    ("cubed", random_values, [0.355228509, 0.138951848, 0.071869269, 0.0372965785, 0.0174454981]),
    ("bell", bell, [0.288720632, 0.145991286, 0.0689973913, 0.0347616136, 0.0170483993]),
    ("outliers", outliers, [0.22987907, 0.11839515, 0.0891895128, 0.0470877032, 0.0313929817]),
    ("shifted", shifted, [0.137374916, 0.111035555, 0.0309860665, 0.0153499308, 0.0132044338]),
];

/// Numerical Recipes' linear congruential generator, upper 16 bits.
fn generator(seed: u32) -> impl Iterator<Item = u16> {
    let step = |state: &u32| Some(state.wrapping_mul(1664525).wrapping_add(1013904223));
    std::iter::successors(Some(seed), step).skip(1).map(|state| (state >> 16) as u16)
}

fn random_bytes(count: usize) -> Vec<u8> {
    generator(1).take(count).map(|v| (v >> 8) as u8).collect()
}

fn uniform(seed: u32) -> impl Iterator<Item = f32> {
    generator(seed).map(|v| (f32::from(v) - 32768.0) / 32768.0)
}

/// Cubed uniform values: many small, few large, as weights are.
fn random_values(count: usize) -> Vec<f32> {
    uniform(5).take(count).map(|u| u * u * u).collect()
}

/// Sums of four uniform values: nearly normal.
fn bell(count: usize) -> Vec<f32> {
    let mut from = uniform(6);
    let mut four = || from.by_ref().take(4).fold(0.0, |sum, u| sum + u);
    (0..count).map(|_| four()).collect()
}

/// The same, with one value of 500 being 32 times larger.
fn outliers(count: usize) -> Vec<f32> {
    let larger = generator(7).map(|v| if v < 131 { 32.0 } else { 1.0 });
    bell(count).into_iter().zip(larger).map(|(v, times)| v * 0.05 * times).collect()
}

/// Nearly normal values about one that is not zero.
fn shifted(count: usize) -> Vec<f32> {
    bell(count).into_iter().map(|v| v * 0.05 + 0.125).collect()
}

fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf29ce484222325, |value, byte| {
        (value ^ u64::from(byte)).wrapping_mul(0x100000001b3)
    })
}

fn bytes_for(dtype: DType, elements: usize) -> usize {
    dtype.bytes_for(elements as u64).unwrap() as usize
}

fn decoded(dtype: DType, bytes: &[u8], elements: usize) -> Vec<f32> {
    let mut out = vec![0.0; elements];
    decode(dtype, bytes, &mut out).unwrap();
    out
}

fn encoded(dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut out = vec![0; bytes_for(dtype, values.len())];
    encode(dtype, values, &mut out).unwrap();
    out
}

fn relative_error(new: &[f32], old: &[f32]) -> f64 {
    let square = |v: f64| v * v;
    let difference: f64 =
        new.iter().zip(old).map(|(n, o)| square(f64::from(*n) - f64::from(*o))).sum();
    (difference / old.iter().map(|o| square(f64::from(*o))).sum::<f64>()).sqrt()
}

#[test]
fn every_block_type_decodes_as_gguf_does() {
    for (dtype, expected) in DECODED {
        let values = decoded(*dtype, &random_bytes(bytes_for(*dtype, 2048)), 2048);
        let bits = |v: &f32| if v.is_nan() { 0x7FC0_0000 } else { v.to_bits() };
        let found = fnv(values.iter().flat_map(|v| bits(v).to_le_bytes()));
        assert_eq!(found, *expected, "{dtype}");
    }
}

#[test]
fn simple_types_are_byte_for_byte_what_gguf_writes() {
    let values = random_values(4096);
    for (dtype, expected) in ENCODED {
        assert_eq!(fnv(encoded(*dtype, &values)), *expected, "{dtype}");
    }
}

#[test]
fn k_types_err_no_more_than_llama_cpp() {
    let mut worse = Vec::new();
    for (spread, make, errors) in LLAMA_CPP {
        let values = make(65536);
        for (dtype, theirs) in K_TYPES.into_iter().zip(errors) {
            let ours = relative_error(&decoded(dtype, &encoded(dtype, &values), 65536), &values);
            println!("{spread} {dtype}: {ours:.6}, llama.cpp {theirs:.6}");
            if ours > *theirs {
                worse.push(format!("{spread} {dtype}: {ours} is more than {theirs}"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

#[test]
fn odd_blocks_survive_every_encoder() {
    let ramp = |scale: f32| (0..256).map(|at| (at as f32 - 100.0) * scale).collect::<Vec<_>>();
    let mut spike = vec![0.0; 256];
    spike[77] = -3.0;
    let cases = [
        ("zeros", vec![0.0; 256], 0.0),
        ("a constant", vec![0.7; 256], 0.3),
        ("a negative constant", vec![-0.7; 256], 0.3),
        ("a spike", spike, 0.3),
        ("a ramp", ramp(0.01), 0.35),
        ("large values", ramp(50.0), 0.35),
        ("tiny values", ramp(1e-41), 1.0),
    ];
    for (name, values, bound) in &cases {
        for dtype in ENCODABLE {
            let back = decoded(*dtype, &encoded(*dtype, values), 256);
            assert!(back.iter().all(|v| v.is_finite()), "{name} in {dtype}");
            if values.iter().any(|v| *v != 0.0) {
                let error = relative_error(&back, values);
                assert!(error <= *bound, "{name} in {dtype}: {error}");
            } else {
                assert!(back.iter().all(|v| *v == 0.0), "{name} in {dtype}");
            }
        }
    }
}

#[test]
fn undefined_and_too_large_values_are_refused_by_place() {
    for dtype in ENCODABLE {
        let mut values = vec![0.5; 512];
        let mut out = vec![0; bytes_for(*dtype, 512)];
        values[300] = f32::INFINITY;
        let error = encode(*dtype, &values, &mut out).unwrap_err();
        assert_eq!(error, QuantError::NotFinite { at: 300, value: f32::INFINITY }, "{dtype}");
        values[300] = 3e38;
        let result = encode(*dtype, &values, &mut out);
        if matches!(dtype, DType::F32 | DType::Bf16) {
            assert_eq!(result, Ok(()), "{dtype}");
        } else {
            let expected = QuantError::TooLarge { at: 300, value: 3e38, dtype: *dtype };
            assert_eq!(result, Err(expected));
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let error = decode(DType::Q4K, &[0; 143], &mut [0.0; 256]).unwrap_err();
    assert_eq!(error, QuantError::Length { dtype: DType::Q4K, bytes: 143, elements: 256 });
    assert!(decode(DType::Q8_1, &[0; 36], &mut [0.0; 32]).is_err());
    assert!(encode(DType::Iq2S, &[0.0; 256], &mut [0; 82]).is_err());
    assert!(encode(DType::Q8_0, &[0.0; 31], &mut [0; 34]).is_err());
}
