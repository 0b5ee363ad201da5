//! Cooperative matrices of f16 that are loaded through wider words. WGSL derives a matrix's number
//! from the pointer it is loaded through, so kernels that move tiles in 16-byte cells declare their
//! factors over f32; here, where SPIR-V takes any pointer, such factors become what they mean: f16.
//! No factor is ever meant to be f32: devices are only asked for f16 ones.

use std::collections::HashMap;

const HEADER_WORDS: usize = 5;
const OP_CAPABILITY: u32 = 17;
const OP_TYPE_FLOAT: u32 = 22;
const OP_CONSTANT: u32 = 43;
const OP_TYPE_COOPERATIVE_MATRIX: u32 = 4456;
const FLOAT16: u32 = 9;
/// Uses of a cooperative matrix below this are those of a factor.
const ACCUMULATOR: u32 = 2;

/// `words` with every factor over f32 made one over f16.
pub fn halves(words: &[u32]) -> Result<Vec<u32>, String> {
    let all = instructions(words)?;
    let of = |opcode: u32| all.iter().filter(move |words| words[0] & 0xffff == opcode);
    let float = |bits| of(OP_TYPE_FLOAT).find(|words| words[2] == bits).map(|words| words[1]);
    let constants: HashMap<u32, u32> = of(OP_CONSTANT).map(|words| (words[2], words[3])).collect();
    let single = float(32);
    let means_half = |words: &[u32]| {
        words[0] & 0xffff == OP_TYPE_COOPERATIVE_MATRIX
            && Some(words[2]) == single
            && constants.get(&words[6]).is_some_and(|of| *of < ACCUMULATOR)
    };
    if !all.iter().any(|words| means_half(words)) {
        return Ok(words.to_vec());
    }
    let mut out = words[..HEADER_WORDS].to_vec();
    let half = float(16).unwrap_or_else(|| {
        out[3] += 1;
        out[3] - 1
    });
    if !of(OP_CAPABILITY).any(|words| words[1] == FLOAT16) {
        out.extend([2 << 16 | OP_CAPABILITY, FLOAT16]);
    }
    // The type goes before its first user and is declared once.
    let mut waiting = true;
    for words in all {
        let declares = words[0] & 0xffff == OP_TYPE_FLOAT && words[1] == half;
        if waiting && (declares || means_half(words)) {
            out.extend([3 << 16 | OP_TYPE_FLOAT, half, 16]);
            waiting = false;
        }
        if declares {
            continue;
        }
        let first = out.len();
        out.extend_from_slice(words);
        if means_half(words) {
            out[first + 2] = half;
        }
    }
    Ok(out)
}

/// The module's instructions, each at least as long as it is read to here.
fn instructions(words: &[u32]) -> Result<Vec<&[u32]>, String> {
    let mut rest = words.get(HEADER_WORDS..).ok_or("a module without a header")?;
    let mut all = Vec::new();
    while let Some(&first) = rest.first() {
        let least = match first & 0xffff {
            OP_CAPABILITY => 2,
            OP_TYPE_FLOAT => 3,
            OP_CONSTANT => 4,
            OP_TYPE_COOPERATIVE_MATRIX => 7,
            _ => 1,
        };
        let length = (first >> 16) as usize;
        let (words, after) = rest
            .split_at_checked(length)
            .filter(|_| length >= least)
            .ok_or_else(|| format!("an instruction of {length} words, {} left", rest.len()))?;
        all.push(words);
        rest = after;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u32; 5] = [0x0723_0203, 0, 0, 40, 0];
    const SINGLE: [u32; 3] = [3 << 16 | OP_TYPE_FLOAT, 2, 32];
    const HALF: [u32; 3] = [3 << 16 | OP_TYPE_FLOAT, 3, 16];
    const CAPABLE: [u32; 2] = [2 << 16 | OP_CAPABILITY, FLOAT16];
    /// Constants 20 and 22: a left factor, an accumulator.
    const USES: [u32; 8] = [4 << 16 | OP_CONSTANT, 1, 20, 0, 4 << 16 | OP_CONSTANT, 1, 22, 2];

    fn matrix(number: u32, of: u32) -> [u32; 7] {
        [7 << 16 | OP_TYPE_COOPERATIVE_MATRIX, 9, number, 5, 6, 6, of]
    }

    #[test]
    fn factors_over_words_become_halves() {
        let [factor, sum] = [matrix(2, 20), matrix(2, 22)];
        let input = [&HEADER[..], &CAPABLE, &SINGLE, &USES, &sum, &factor, &HALF].concat();
        let wanted = [&HEADER[..], &CAPABLE, &SINGLE, &USES, &sum, &HALF, &matrix(3, 20)].concat();
        assert_eq!(halves(&input).unwrap(), wanted);
    }

    #[test]
    fn a_module_without_halves_gets_them() {
        let mut header = HEADER;
        header[3] = 41;
        let input = [&HEADER[..], &SINGLE, &USES, &matrix(2, 20)].concat();
        let half = [3 << 16 | OP_TYPE_FLOAT, 40, 16];
        let wanted = [&header[..], &CAPABLE, &SINGLE, &USES, &half, &matrix(40, 20)].concat();
        assert_eq!(halves(&input).unwrap(), wanted);
    }

    #[test]
    fn others_stay_and_broken_modules_are_refused() {
        let input = [&HEADER[..], &SINGLE, &USES, &HALF, &matrix(3, 20), &matrix(2, 22)].concat();
        assert_eq!(halves(&input).unwrap(), input);
        assert!(halves(&[1, 2]).is_err());
        let bad = |words: &[u32]| halves(&[&HEADER[..], words].concat()).is_err();
        assert!(bad(&[2 << 16 | OP_TYPE_COOPERATIVE_MATRIX, 9]));
        assert!(bad(&[9 << 16 | 65, 1]));
        assert!(bad(&[0]));
    }
}
