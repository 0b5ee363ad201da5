//! `tintype inspect` and `tintype convert` as a person and as a program see them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn tintype(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tintype")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let out = tintype(arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

/// A llama of `layers` layers, whose tensors are a hole of zeros, in a file of `rows` rows each.
fn sparse(path: &Path, layers: u64, rows: u64) -> u64 {
    let bytes = rows * 4096 * 2;
    let entry = |n: u64| {
        let (layer, name) =
            (n / 2, if n.is_multiple_of(2) { "mlp.gate_proj" } else { "self_attn.q_proj" });
        let (start, end) = (n * bytes, (n + 1) * bytes);
        format!(
            r#""model.layers.{layer}.{name}.weight":{{"dtype":"BF16","shape":[{rows},4096],"data_offsets":[{start},{end}]}}"#
        )
    };
    let entries: Vec<_> = (0..2 * layers).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let length = 8 + header.len() as u64 + 2 * layers * bytes;
    file.set_len(length).unwrap();
    length
}

#[test]
fn a_file_of_20_gigabytes_is_looked_at_in_under_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.safetensors");
    let length = sparse(&path, 40, 32_768);
    assert!(length > 20_000_000_000);
    let start = Instant::now();
    let out = succeed(&["inspect", path.to_str().unwrap()]);
    let took = start.elapsed();
    println!("{length} bytes in {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(out.contains("llama (by tensors named"), "{out}");
    assert!(out.contains("10.74 B"), "{out}");
    assert!(out.contains("BF16     100.0 %  80 tensors"), "{out}");
    assert!(out.contains("model.layers"), "{out}");
    assert!(out.contains("0..39"), "{out}");
    assert!(out.contains("cpu:0"), "{out}");
}

#[test]
fn a_tree_of_very_many_tensors_is_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let entry = |n: u32| format!(r#""t{n}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}"#);
    let header = format!("{{{}}}", (0..20_000).map(entry).collect::<Vec<_>>().join(","));
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    let out = succeed(&["inspect", path]);
    assert!(out.lines().count() < 1100 && out.contains("…; --tensors lists"), "{out}");
    assert!(succeed(&["inspect", path, "--tensors"]).lines().count() > 20_000);
}

#[test]
fn inspect_json_names_every_tensor_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    sparse(&path, 2, 8);
    let json = succeed(&["inspect", "--json", path.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"]["parameters"], 4 * 8 * 4096);
    assert_eq!(json["summary"]["architecture"]["name"], "llama");
    assert_eq!(json["tensors"].as_array().unwrap().len(), 4);
    let second = &json["tensors"][1];
    assert_eq!(second["name"], "model.layers.0.self_attn.q_proj.weight");
    assert_eq!(second["shape"], serde_json::json!([8, 4096]));
    let first = json["tensors"][0]["offset"].as_u64().unwrap();
    assert_eq!(second["offset"].as_u64().unwrap(), first + 8 * 4096 * 2);
    assert!(json["devices"].as_array().unwrap().iter().all(|d| d["fits"].is_boolean()));
}

#[test]
fn convert_writes_says_and_does_not_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.safetensors"), folder.path().join("m.gguf"));
    sparse(&from, 2, 8);
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let plan = succeed(&["convert", from, to, "--type", "q8_0", "--dry-run"]);
    assert!(plan.contains("gate_proj.weight  BF16 → Q8_0"), "{plan}");
    assert!(!Path::new(to).exists());
    let arguments = ["convert", from, to, "--type", "q8_0", "--rule", "q_proj=q4_k", "--verify"];
    let out = succeed(&arguments);
    assert!(out.contains("4 tensors") && out.contains("verified"), "{out}");
    assert!(out.contains("2 from BF16 to Q4_K, worst relative error"), "{out}");
    let out = tintype(&arguments);
    assert!(!out.status.success());
    assert!(text(&out.stderr).contains("--force replaces it"), "{}", text(&out.stderr));
    let json = succeed(&[&arguments[..], &["--force", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tensors"].as_array().unwrap().len(), 4);
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    let shown = succeed(&["inspect", to]);
    assert!(shown.contains("gguf version 3") && shown.contains("Q4_K"), "{shown}");
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    sparse(&path, 1, 8);
    let path = path.to_str().unwrap();
    for (arguments, words) in [
        (&["inspect", "/nowhere/x.gguf"][..], "/nowhere/x.gguf: No such file"),
        (&["convert", path, "x.bin"], "must end in .gguf or .safetensors"),
        (&["convert", path, "x.gguf", "--type", "q9"], "\"q9\" is no type that can be written"),
        (&["convert", path, "x.gguf", "--rule", "(=q8_0"], "unclosed group"),
        (&["convert", path, "x.gguf", "--rule", "abc"], "a rule is PATTERN=TYPE"),
    ] {
        let out = tintype(arguments);
        assert!(!out.status.success());
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
}

#[test]
fn names_from_a_file_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let header = r#"{"\u001b[2Jevil":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    for extra in [&[][..], &["--tensors"]] {
        let out = succeed(&[&["inspect", path.to_str().unwrap()][..], extra].concat());
        assert!(out.contains("evil") && !out.contains('\u{1b}'), "{out:?}");
    }
}

/// Names in a folder, hidden ones too.
fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[cfg(unix)]
#[test]
fn a_convert_that_is_stopped_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("large.safetensors"), folder.path().join("m.gguf"));
    // Hundreds of gigabytes, so that it cannot be done before it is stopped.
    sparse(&from, 400, 65_536);
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_tintype"))
            .args(["convert", from.to_str().unwrap(), to.to_str().unwrap(), "--type", "q4_0"])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while files(folder.path()).len() == 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is written");
            std::thread::sleep(Duration::from_millis(5));
        }
        let names = files(folder.path());
        assert!(names[0].starts_with(".m.gguf") && names[0].ends_with(".part"), "{names:?}");
        let asked = Instant::now();
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let out = child.wait_with_output().unwrap();
        println!("SIG{signal}: ended after {:?}", asked.elapsed());
        assert_eq!(out.status.code(), Some(130), "{out:?}");
        let error = text(&out.stderr);
        assert!(error.starts_with("stopped: nothing was written: "), "{error}");
        assert_eq!(files(folder.path()), ["large.safetensors"]);
    }
}

/// A limit on file sizes fails a write in the middle, as a full disk does.
#[cfg(unix)]
#[test]
fn a_write_that_fails_in_the_middle_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.safetensors"), folder.path().join("m.gguf"));
    sparse(&from, 4, 1024);
    std::fs::write(&to, "the old file").unwrap();
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let out = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_tintype"), "convert", "--force"])
        .args([&from, &to])
        .output()
        .unwrap();
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("m.gguf: File too large"), "{message}");
    assert_eq!(message.matches("File too large").count(), 1, "{message}");
    assert_eq!(files(folder.path()), ["m.gguf", "m.safetensors"]);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "the old file");
}

#[test]
fn places_that_cannot_be_written_are_named_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    sparse(Path::new(&at("m.safetensors")), 40, 32_768);
    std::fs::create_dir(at("folder.gguf")).unwrap();
    let start = Instant::now();
    for (to, words) in [
        (at("folder.gguf"), "folder.gguf: not a regular file"),
        (at("missing/m.gguf"), "missing: No such file or directory"),
        (at("m.safetensors/m.gguf"), "m.safetensors: Not a directory"),
    ] {
        let out = tintype(&["convert", &at("m.safetensors"), &to, "--force"]);
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
        assert!(!text(&out.stderr).contains(".part"), "{}", text(&out.stderr));
        assert_eq!(out.status.code(), Some(1));
    }
    assert!(start.elapsed() < Duration::from_secs(5), "20 GB were read first");
}

#[test]
fn a_file_may_be_converted_onto_itself_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    sparse(&path, 2, 8);
    let before = std::fs::read(&path).unwrap();
    let path = path.to_str().unwrap();
    assert!(!tintype(&["convert", path, path, "--type", "f32"]).status.success());
    assert_eq!(std::fs::read(path).unwrap(), before);
    succeed(&["convert", path, path, "--type", "f32", "--verify", "--force"]);
    assert!(succeed(&["inspect", path]).contains("F32      100.0 %"));
    assert_eq!(files(folder.path()), ["m.safetensors"]);
}
