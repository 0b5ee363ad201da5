//! Pickles that want to run code or grow, and the archives around them.

use super::*;

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
    // Said to be compressed, even to the same size.
    let mut entries = sample();
    entries[2].method = 8;
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
