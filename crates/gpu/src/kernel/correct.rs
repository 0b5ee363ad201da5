//! Small corrections to naga's SPIR-V, word by word; none changes what the module means.
//!
//! Arrays in workgroup memory lose their `ArrayStride`: SPIR-V allows explicit layout there only with
//! an extension, and newer validators refuse it.
//!
//! Nested access chains become one. naga writes `chain(chain(buffer, 0), i)`; the
//! Khronos synchronization validation recognises a buffer access only when the chain starts at the
//! variable. The rewrite changes no meaning: indices are concatenated.

use std::collections::{HashMap, HashSet};

const HEADER_WORDS: usize = 5;
const OP_TYPE_POINTER: u32 = 32;
const OP_DECORATE: u32 = 71;
const ARRAY_STRIDE: u32 = 6;
const WORKGROUP: u32 = 4;
const OP_ACCESS_CHAIN: u32 = 65;
const OP_IN_BOUNDS_ACCESS_CHAIN: u32 = 66;

/// Returns `words` with every access chain based on another chain rebased on that chain's base.
pub fn correct(words: &[u32]) -> Result<Vec<u32>, String> {
    if words.len() < HEADER_WORDS {
        return Err(format!("a module of {} words has no header", words.len()));
    }
    let mut out = Vec::with_capacity(words.len() + words.len() / 8);
    out.extend_from_slice(&words[..HEADER_WORDS]);
    let in_workgroup = workgroup_types(&words[HEADER_WORDS..]);
    // Result id of each chain seen → its base and indices, already folded.
    let mut chains: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut rest = &words[HEADER_WORDS..];
    while let Some(&first) = rest.first() {
        let (opcode, length) = (first & 0xffff, (first >> 16) as usize);
        if length == 0 || length > rest.len() {
            return Err(format!("instruction of length {length} with {} words left", rest.len()));
        }
        let (instruction, after) = rest.split_at(length);
        rest = after;
        let strides = opcode == OP_DECORATE && length > 2 && instruction[2] == ARRAY_STRIDE;
        if strides && in_workgroup.contains(&instruction[1]) {
            continue;
        }
        if !matches!(opcode, OP_ACCESS_CHAIN | OP_IN_BOUNDS_ACCESS_CHAIN) || length < 4 {
            out.extend_from_slice(instruction);
            continue;
        }
        let (result, base, indices) = (instruction[2], instruction[3], &instruction[4..]);
        let mut path = chains.get(&base).cloned().unwrap_or_else(|| vec![base]);
        path.extend_from_slice(indices);
        let folded = 3 + path.len();
        if folded > 0xffff {
            return Err("an access chain is too long".into());
        }
        out.push((folded as u32) << 16 | opcode);
        out.extend_from_slice(&instruction[1..3]);
        out.extend_from_slice(&path);
        chains.insert(result, path);
    }
    Ok(out)
}

/// Types that pointers into workgroup memory point to. Malformed words end the search; the walk
/// that follows reports them.
fn workgroup_types(mut rest: &[u32]) -> HashSet<u32> {
    let mut found = HashSet::new();
    while let Some((&first, _)) = rest.split_first() {
        let (opcode, length) = (first & 0xffff, (first >> 16) as usize);
        let Some((instruction, after)) = rest.split_at_checked(length).filter(|_| length > 0)
        else {
            break;
        };
        if opcode == OP_TYPE_POINTER && length == 4 && instruction[2] == WORKGROUP {
            found.insert(instruction[3]);
        }
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(result: u32, base: u32, indices: &[u32]) -> Vec<u32> {
        let mut words = vec![((4 + indices.len()) as u32) << 16 | OP_ACCESS_CHAIN, 7, result, base];
        words.extend_from_slice(indices);
        words
    }

    #[test]
    fn nested_chains_become_one() {
        let header = [0x0723_0203, 0, 0, 0, 0];
        let input = [&header[..], &chain(10, 1, &[2]), &chain(11, 10, &[3, 4])].concat();
        let wanted = [&header[..], &chain(10, 1, &[2]), &chain(11, 1, &[2, 3, 4])].concat();
        assert_eq!(correct(&input).unwrap(), wanted);
    }

    #[test]
    fn arrays_in_workgroup_memory_lose_their_stride_and_others_keep_it() {
        let header = [0x0723_0203, 0, 0, 0, 0];
        let stride = |target| [4 << 16 | OP_DECORATE, target, ARRAY_STRIDE, 4];
        let pointer = |storage, to| [4 << 16 | OP_TYPE_POINTER, 9, storage, to];
        let input =
            [&header[..], &stride(20), &stride(21), &pointer(WORKGROUP, 20), &pointer(12, 21)];
        let wanted = [&header[..], &stride(21), &pointer(WORKGROUP, 20), &pointer(12, 21)];
        assert_eq!(correct(&input.concat()).unwrap(), wanted.concat());
    }

    #[test]
    fn broken_modules_are_refused() {
        assert!(correct(&[1, 2]).is_err());
        assert!(correct(&[0, 0, 0, 0, 0, 9 << 16 | 65, 1]).is_err());
        assert!(correct(&[0, 0, 0, 0, 0, 0]).is_err());
    }
}
