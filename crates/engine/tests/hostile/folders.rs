//! Shard indexes and folders: names and links that lead somewhere else.

use tintype::weights::{Access, OpenOptions, parse_index, parse_model_index};

use super::*;

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

#[cfg(unix)]
#[test]
fn configurations_and_indexes_are_no_links_to_other_files() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret.json");
    std::fs::write(&secret, r#"{"token":"hidden"}"#).unwrap();
    let model = place.path().join("model");
    for name in ["config.json", "model.safetensors.index.json", "model_index.json"] {
        std::fs::create_dir(&model).unwrap();
        std::fs::write(model.join("model.safetensors"), safetensors_sample()).unwrap();
        assert_eq!(open_folder(&model).unwrap().tensors().len(), 2);
        symlink(&secret, model.join(name)).unwrap();
        let error = open_folder(&model).unwrap_err();
        assert!(matches!(error.reason, Reason::ShardPath { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
        std::fs::remove_dir_all(&model).unwrap();
    }
}
