//! Headers of GGUF and safetensors files, and what all formats share. It must not test folders.

use super::*;

#[test]
fn truncated_anywhere() {
    let samples = [Gguf::sample().bytes(), safetensors_sample(), pytorch_sample(), legacy_sample()];
    for sample in samples {
        for length in 0..sample.len() {
            // The padding after the last GGUF tensor may be missing.
            if sample.starts_with(b"GGUF") && length >= sample.len() - 28 {
                continue;
            }
            let error = open("bad", &sample[..length]).unwrap_err();
            assert_eq!(error.file, Path::new("bad"), "{length} bytes: {error}");
        }
    }
    let reason = gguf(|f| f.data.truncate(96), Some("b.weight"), "reach past the end");
    assert!(matches!(reason, Reason::OutOfRange { .. }));
    refused(open("bad", b"GGUF\x03\0\0\0\x01"), None, "truncated");
    refused(open("bad", b""), None, "empty");
}

#[test]
fn versions_and_byte_order() {
    gguf(|f| f.version = 1, None, "GGUF version 1");
    gguf(|f| f.version = 4, None, "GGUF version 4");
    let reason = gguf(|f| f.version = 3u32.swap_bytes(), None, "big-endian GGUF");
    assert!(matches!(reason, Reason::BigEndian(_)));
    let mut big = safetensors_sample();
    big[..8].reverse();
    refused(open("bad", big), None, "big-endian");
    let mut entries = pytorch_entries(pickle_of(&tensor_opcodes(2, 3, (3, 1), 6)));
    entries[1].bytes = b"big".to_vec();
    entries[1].size = 3;
    refused(open("bad", zip(&entries)), None, "big-endian PyTorch");
    refused(open("bad", legacy(&pickle_of(b"N"), false)), None, "big-endian PyTorch");
    let mut file = Gguf::sample();
    file.version = 2;
    assert_eq!(open("good", file.bytes()).unwrap().version(), Some(2));
}

#[test]
fn lengths_are_checked_before_anything_is_allocated() {
    for at in [8, 16] {
        let mut bytes = Gguf::sample().bytes();
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        refused(open("bad", bytes), None, "over the limit");
    }
    // The length of the first key, then of a value.
    let mut bytes = Gguf::sample().bytes();
    bytes[24..32].copy_from_slice(&(1u64 << 40).to_le_bytes());
    refused(open("bad", bytes), None, "over the limit");
    let array = |kind: u32, length: u64| {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend(length.to_le_bytes());
        value
    };
    for kind in [0, 5, 8, 9, 12] {
        let value = array(kind, u64::MAX / 2);
        gguf(|f| f.pairs.push(("bomb".into(), 9, value)), None, "truncated: an array");
    }
    // Arrays in arrays in arrays.
    let nested: Vec<u8> = (0..64).flat_map(|_| array(9, 1)).collect();
    gguf(|f| f.pairs.push(("deep".into(), 9, nested)), None, "arrays within arrays");
}

#[test]
fn header_bombs() {
    let mut bytes = safetensors_sample();
    bytes[..8].copy_from_slice(&200_000_000u64.to_le_bytes());
    refused(open("bad", bytes.clone()), None, "over the limit");
    bytes[..8].copy_from_slice(&90_000_000u64.to_le_bytes());
    refused(open("bad", bytes), None, "truncated: the header");
    // JSON that nests without end.
    let deep = format!("{{\"w\":{}", "[".repeat(100_000));
    header(&deep, 0, Some("w"), "no table of tensors");
    let value = format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":{}", "[".repeat(100_000));
    header(&value, 0, Some("w"), "no table of tensors");
    // Two files in one.
    header(r#"{"w":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}} {}"#, 1, None, "trailing");
}

#[test]
fn names_that_stand_twice() {
    let twice = r#"{"w":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}"#;
    let reason = header(twice, 2, Some("w"), "appears twice");
    assert!(matches!(reason, Reason::Duplicate { .. }));
    header(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0, None, "\"a\" appears twice");
    let again = |f: &mut Gguf| f.tensors[1].0 = "a.weight".into();
    gguf(again, Some("a.weight"), "appears twice");
    let again = |f: &mut Gguf| f.pairs[1].0 = "general.architecture".into();
    gguf(again, None, "appears twice");
    let mut entries = pytorch_entries(pickle_of(&tensor_opcodes(2, 3, (3, 1), 6)));
    entries.push(entry("m/data/0", storage()));
    refused(open("bad", zip(&entries)), None, "archive");
    // A dictionary that sets one key twice.
    let mut twice = b"\x80\x02}".to_vec();
    for _ in 0..2 {
        twice.extend(pickle_text("w"));
        twice.extend(tensor_opcodes(2, 3, (3, 1), 6));
        twice.push(b's');
    }
    twice.push(b'.');
    pickle(twice, Some("w"), "appears twice");
}

#[test]
fn tensors_that_overlap_or_lie_outside() {
    let reason = gguf(|f| f.tensors[1].3 = 0, Some("b.weight"), "overlap");
    assert!(matches!(reason, Reason::Overlap { .. }));
    gguf(|f| f.tensors[1].3 = 1 << 40, Some("b.weight"), "reach past the end");
    gguf(|f| f.tensors[1].3 = u64::MAX - 31, Some("b.weight"), "reach past the end");
    gguf(|f| f.tensors[1].3 = 33, Some("b.weight"), "not a multiple of 32");
    let two = |first: &str, second: &str| {
        format!(
            r#"{{"a":{{"dtype":"I8","shape":[4],"data_offsets":{first}}},"b":{{"dtype":"I8","shape":[4],"data_offsets":{second}}}}}"#
        )
    };
    header(&two("[0,4]", "[2,6]"), 8, Some("b"), "overlap those of \"a\"");
    header(&two("[0,4]", "[4,8]"), 7, Some("b"), "reach past the end");
    header(&two("[0,4]", "[8,4]"), 8, Some("b"), "reach past the end");
    header(&two("[0,4]", "[18446744073709551615,3]"), 8, Some("b"), "reach past the end");
    header(&two("[0,4]", "[5,9]"), 9, None, "invalid offset");
    header(&two("[0,4]", "[4,8]"), 9, None, "1 bytes after the last tensor");
    pickle(pickle_of(&tensor_opcodes(2, 4, (4, 1), 6)), Some("w"), "reach past the end");
    pickle(pickle_of(&tensor_opcodes(2, 3, (200, 1), 6)), Some("w"), "reach past the end");
    pickle(pickle_of(&tensor_opcodes(2, 3, (3, 1), 7)), Some("w"), "reach past the end");
}

#[test]
fn absurd_dimensions() {
    let huge = 1u64 << 40;
    let reason = gguf(|f| f.tensors[0].1 = vec![huge, huge], Some("a.weight"), "overflows");
    assert!(matches!(reason, Reason::ShapeOverflow(_)));
    gguf(|f| f.tensors[0].1 = vec![0, u64::MAX, 2], Some("a.weight"), "overflows");
    gguf(|f| f.tensors[0].1 = vec![huge], Some("a.weight"), "reach past the end");
    gguf(|f| f.tensors[0].1 = vec![1; 5], Some("a.weight"), "dimensions");
    gguf(|f| f.tensors[1].1 = vec![31, 2], Some("b.weight"), "do not fill Q8_0 blocks of 32");
    let shape =
        |shape: &str| format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[0,16]}}}}"#);
    header(&shape("[4294967296,4294967296]"), 16, Some("w"), "overflows");
    header(&shape("[2,3]"), 16, Some("w"), "takes 24 bytes, the file gives it 16");
    header(&shape("[-1]"), 16, Some("w"), "no table of tensors");
    header(&shape("[1e3]"), 16, Some("w"), "no table of tensors");
    let many = format!("[{}]", vec!["1"; 65].join(","));
    header(&shape(&many), 16, Some("w"), "dimensions");
    // A stride of zero claims any size from one number.
    pickle(pickle_of(&tensor_opcodes(200, 200, (0, 0), 6)), Some("w"), "repeats its storage");
}

#[test]
fn element_types_that_are_unknown() {
    gguf(|f| f.tensors[0].2 = 4, Some("a.weight"), "Q4_2");
    gguf(|f| f.tensors[0].2 = 31, Some("a.weight"), "Q4_0_4_4");
    gguf(|f| f.tensors[0].2 = 9999, Some("a.weight"), "number 9999");
    let of =
        |kind: &str| format!(r#"{{"w":{{"dtype":"{kind}","shape":[1],"data_offsets":[0,1]}}}}"#);
    header(&of("F7"), 1, Some("w"), "F7");
    header(&of("C64"), 1, Some("w"), "C64");
    gguf(|f| f.pairs[1].1 = 77, None, "77 is no type of metadata");
}
