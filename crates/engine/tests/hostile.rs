//! Hostile and damaged files: each is refused with an error that names file, tensor and reason.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;

use common::*;
use tintype::weights::{
    Access, Format, OpenOptions, Reason, WeightError, Weights, parse_index, parse_model_index,
};

/// Refused, with the file's name, this tensor (or none) and these words.
#[track_caller]
fn refused(result: Result<Weights, WeightError>, tensor: Option<&str>, words: &str) -> Reason {
    let error = match result {
        Ok(weights) => panic!("opened, with {} tensors; wanted: {words}", weights.tensors().len()),
        Err(error) => error,
    };
    assert_eq!(error.file, Path::new("bad"), "{error}");
    assert_eq!(error.tensor.as_deref(), tensor, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("bad: "), "{text}");
    assert!(text.contains(words), "{text}\nlacks {words:?}");
    error.reason
}

#[track_caller]
fn gguf(change: impl FnOnce(&mut Gguf), tensor: Option<&str>, words: &str) -> Reason {
    let mut file = Gguf::sample();
    change(&mut file);
    refused(open("bad", file.bytes()), tensor, words)
}

#[track_caller]
fn header(header: &str, data: usize, tensor: Option<&str>, words: &str) -> Reason {
    refused(open("bad", safetensors(header, &vec![0; data])), tensor, words)
}

#[track_caller]
fn pickle(pickle: Vec<u8>, tensor: Option<&str>, words: &str) {
    refused(open("bad", zip(&pytorch_entries(pickle.clone()))), tensor, words);
    refused(open("bad", legacy(&pickle, true)), tensor, words);
}

#[test]
fn the_samples_are_good() {
    let file = open("good", Gguf::sample().bytes()).unwrap();
    assert_eq!((file.format(), file.version()), (Format::Gguf, Some(3)));
    assert_eq!(file.get("a.weight").unwrap().shape(), [2, 3]);
    assert_eq!(file.get("a.weight").unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let file = open("good", safetensors_sample()).unwrap();
    assert_eq!(file.get("w").unwrap().to_f32().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(file.get("i").unwrap().to_f32().unwrap(), [1.0, 2.0, -1.0]);
    for bytes in [pytorch_sample(), legacy_sample()] {
        let file = open("good", bytes).unwrap();
        assert_eq!(file.get("w").unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }
    let transposed = zip(&pytorch_entries(pickle_of(&tensor_opcodes(3, 2, (1, 3), 6))));
    let file = open("good", transposed).unwrap();
    let tensor = file.get("w").unwrap();
    assert!(!tensor.is_contiguous());
    assert_eq!(tensor.to_f32().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}

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

#[test]
fn pickles_with_code() {
    let call = |global: &str, arguments: &[u8]| {
        let mut out = format!("c{global}\n").into_bytes();
        out.push(b'(');
        out.extend(arguments);
        out.extend(b"tR");
        pickle_of(&out)
    };
    let shell = pickle_text("echo no");
    for (global, name) in [
        ("os\nsystem", "os.system"),
        ("posix\nsystem", "posix.system"),
        ("builtins\neval", "builtins.eval"),
        ("builtins\ngetattr", "builtins.getattr"),
        ("torch\nload", "torch.load"),
        ("torch.storage\n_load_from_bytes", "torch.storage._load_from_bytes"),
        ("torch._utils\n_import_dotted_name", "torch._utils._import_dotted_name"),
    ] {
        let words = format!("wants {name:?}, which is code");
        pickle(call(global, &shell), None, &words);
    }
    // By another opcode each: a new object, a name from the stack, an instance, a state.
    let mut object = b"csubprocess\nPopen\n".to_vec();
    object.extend(pickle_text("x"));
    object.extend([0x85, 0x81]);
    pickle(pickle_of(&object), None, "subprocess.Popen");
    let mut stacked = pickle_text("os");
    stacked.extend(pickle_text("system"));
    stacked.push(0x93);
    stacked.extend(pickle_text("x"));
    stacked.extend([0x85, b'R']);
    pickle(pickle_of(&stacked), None, "os.system");
    pickle(pickle_of(b"(ios\nsystem\n"), None, "which is code");
    pickle(pickle_of(b"cargparse\nNamespace\n}b"), None, "argparse.Namespace");
    pickle(pickle_of(b"\x82\x01"), None, "which is code");
    // A name that nothing calls runs nothing.
    let mut named = b"\x80\x02}cos\nsystem\nNs".to_vec();
    named.extend(pickle_text("w"));
    named.extend(tensor_opcodes(2, 3, (3, 1), 6));
    named.extend(b"s.");
    assert_eq!(open("good", legacy(&named, true)).unwrap().tensors().len(), 1);
}

#[test]
fn pickles_that_grow() {
    // Dictionaries of one dictionary, over and over: 10^9 names of one tensor.
    let mut bomb = b"\x80\x02}".to_vec();
    bomb.extend(pickle_text("w"));
    bomb.extend(tensor_opcodes(2, 3, (3, 1), 6));
    bomb.extend(b"sq\x00");
    for level in 0..9u8 {
        bomb.extend(b"}(");
        for key in 0..10u8 {
            bomb.extend([b'K', key, b'h', level]);
        }
        bomb.extend([b'u', b'q', level + 1]);
    }
    bomb.push(b'.');
    pickle(bomb, None, "a bomb");
    // A list in itself.
    let mut cycle = b"\x80\x02]q\x00".to_vec();
    cycle.extend(tensor_opcodes(2, 3, (3, 1), 6));
    cycle.extend(b"ah\x00a.");
    let name = format!("{}0", "1.".repeat(32));
    pickle(cycle, Some(&name), "containers in");
    // Copies of a long list.
    let mut copies = b"\x80\x02](".to_vec();
    copies.extend([b'N'; 2000]);
    copies.extend(b"eq\x00");
    for _ in 0..100 {
        copies.extend(b"ctorch\nSize\nh\x00\x85R");
    }
    copies.push(b'.');
    pickle(copies, None, "a bomb");
    pickle(b"\x80\x02h\x05.".to_vec(), None, "memo slot 5 is empty");
    pickle(b"\x80\x02t.".to_vec(), None, "not there");
    pickle(b"\x80\x02X\xff\xff\xff\xff.".to_vec(), None, "truncated: a text");
}

#[test]
fn archives_that_are_bombs() {
    let sample = || pytorch_entries(pickle_of(&tensor_opcodes(2, 3, (3, 1), 6)));
    let mut entries = sample();
    entries[2].method = 8;
    entries[2].size = u32::MAX - 1;
    refused(open("bad", zip(&entries)), None, "\"m/data/0\" is compressed");
    let mut entries = sample();
    entries[2].size = u32::MAX - 1;
    refused(open("bad", zip(&entries)), None, "\"m/data/0\" is compressed");
    let mut entries = sample();
    entries[2].flags = 1;
    refused(open("bad", zip(&entries)), None, "\"m/data/0\" is encrypted");
    let mut entries = sample();
    entries[3].place = Some(0);
    refused(open("bad", zip(&entries)), None, "archive");
    let mut entries = sample();
    entries.push(entry("m/constants.pkl", Vec::new()));
    refused(open("bad", zip(&entries)), None, "TorchScript");
    refused(open("bad", zip(&[entry("x", Vec::new())])), None, "without one data.pkl");
    let mut entries = sample();
    entries.remove(2);
    refused(open("bad", zip(&entries)), Some("w"), "is not in the archive");
}

#[test]
fn other_files_are_named() {
    for (bytes, words) in [
        (&b"\x89HDF\r\n\x1a\n"[..], "HDF5"),
        (b"tjgg\x03\0\0\0", "before GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html>", "web page"),
        (b"hello, this is text", "neither safetensors"),
        (b"\x80\x04N.", "torch.save did not write"),
    ] {
        refused(open("bad", bytes), None, words);
    }
}

#[test]
fn shard_paths_do_not_leave_the_folder() {
    for shard in [
        "../secret.safetensors",
        "/etc/passwd",
        "a/../../b.safetensors",
        "sub/a.safetensors",
        "..",
        ".",
        "",
        "C:\\\\weights.safetensors",
        "a\\\\b.safetensors",
        "a.safetensors:stream",
        "a\\u0000b",
        "\\u001b[2J",
    ] {
        let index = INDEX.replace("a.safetensors", shard);
        let error = parse_index(Path::new("bad"), index.as_bytes()).unwrap_err();
        assert_eq!(error.tensor.as_deref(), Some("w"), "{shard}");
        assert!(matches!(error.reason, Reason::ShardPath { .. }), "{shard}: {error}");
        let model = MODEL_INDEX.replace("unet", shard);
        let error = parse_model_index(Path::new("bad"), model.as_bytes()).unwrap_err();
        assert!(matches!(error.reason, Reason::ShardPath { .. }), "{shard}: {error}");
    }
    let twice = r#"{"weight_map":{"w":"a.safetensors","w":"b.safetensors"}}"#;
    let error = parse_index(Path::new("bad"), twice.as_bytes()).unwrap_err();
    assert!(matches!(error.reason, Reason::Duplicate { .. }), "{error}");
}

fn open_folder(path: &Path) -> Result<Weights, WeightError> {
    Weights::open_with(path, &OpenOptions { access: Access::Copy, variant: None })
}

#[test]
fn shards_are_what_the_index_says() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    let file = folder.path().join("a.safetensors");
    std::fs::write(&index, INDEX).unwrap();
    let error = open_folder(&index).unwrap_err();
    assert!(error.to_string().contains("a.safetensors"), "{error}");
    std::fs::write(&file, safetensors_sample()).unwrap();
    let error = open_folder(&index).unwrap_err();
    assert_eq!(error.tensor.as_deref(), Some("i"), "{error}");
    let whole = r#"{"weight_map":{"w":"a.safetensors","i":"a.safetensors"}}"#;
    std::fs::write(&index, whole).unwrap();
    assert_eq!(open_folder(&index).unwrap().tensors().len(), 2);
    assert_eq!(open_folder(folder.path()).unwrap().tensors().len(), 2);
    let more = whole.replace("}}", r#","x":"a.safetensors"}}"#);
    std::fs::write(&index, more).unwrap();
    let error = open_folder(&index).unwrap_err();
    assert!(matches!(error.reason, Reason::NotInShard { .. }), "{error}");
    assert_eq!(error.tensor.as_deref(), Some("x"));
}

#[cfg(unix)]
#[test]
fn links_do_not_leave_the_folder() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let (outside, inside) = (place.path().join("outside"), place.path().join("model"));
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(outside.join("b.safetensors"), safetensors_sample()).unwrap();
    std::fs::write(
        inside.join("model.safetensors.index.json"),
        r#"{"weight_map":{"w":"a.safetensors","i":"a.safetensors"}}"#,
    )
    .unwrap();
    symlink(outside.join("b.safetensors"), inside.join("a.safetensors")).unwrap();
    let error = open_folder(&inside).unwrap_err();
    assert!(matches!(error.reason, Reason::ShardPath { .. }), "{error}");
    assert!(error.to_string().contains("outside the folder"), "{error}");
    // The Hugging Face cache: snapshots link to the blobs of the same model.
    let snapshot = place.path().join("models--a--b/snapshots/0123");
    let blobs = place.path().join("models--a--b/blobs");
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join("abc"), safetensors_sample()).unwrap();
    symlink("../../blobs/abc", snapshot.join("model.safetensors")).unwrap();
    assert_eq!(open_folder(&snapshot).unwrap().tensors().len(), 2);
    // A pipe would block for ever, a device would never end.
    let device = inside.join("zero.gguf");
    symlink("/dev/zero", &device).unwrap();
    let error = open_folder(&device).unwrap_err();
    assert!(matches!(error.reason, Reason::NotAFile), "{error}");
}

#[test]
fn a_mapped_file_that_changes_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    std::fs::write(&path, safetensors_sample()).unwrap();
    let weights = Weights::open(&path).unwrap();
    assert!(weights.get("w").unwrap().to_f32().is_ok());
    let mut longer = safetensors_sample();
    longer.push(0);
    std::fs::write(&path, longer).unwrap();
    let error = weights.get("w").unwrap().to_f32().unwrap_err();
    assert!(matches!(error.reason, Reason::Changed { .. }), "{error}");
}
