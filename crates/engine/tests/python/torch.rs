//! What `torch.save` wrote, in the archive of today and the pickles of before: files of torch 2.15 kept
//! in `tests/data/torch` (made by `xtask/python/torch_files.py`), and where torch is installed, fresh
//! ones, and torch's own reading of what is made of them here.

use tintype::weights::Reason;

use super::*;

const SCRIPT: &str = "torch_files.py";

/// Every file of a folder that the script made holds what torch said that it holds.
fn same_as_torch(folder: &Path) {
    let at = |name: &str| folder.join(name);
    let expected = Weights::open(at("expected.safetensors")).unwrap();
    let single = Weights::open(at("expected_f32.safetensors")).unwrap();
    assert!(expected.tensors().len() >= 30);
    for (file, format) in [("new.pt", Format::PytorchZip), ("old.ckpt", Format::PytorchLegacy)] {
        let weights = Weights::open(at(file)).unwrap();
        assert_eq!(weights.format(), format);
        assert_eq!(weights.value("pytorch.root").unwrap().as_str(), Some("state_dict"));
        assert_eq!(weights.tensors().len(), expected.tensors().len(), "{file}");
        let strided = weights.tensors().iter().filter(|t| !t.is_contiguous()).count();
        assert_eq!(strided, 2, "{file}: the transposed and the window");
        for theirs in expected.tensors() {
            let (ours, name) = (weights.require(theirs.name()).unwrap(), theirs.name());
            assert_eq!((ours.dtype(), ours.shape()), (theirs.dtype(), theirs.shape()), "{name}");
            assert_eq!(ours.bytes().unwrap(), theirs.bytes().unwrap(), "{file}: {name}");
            let (ours, theirs) = (ours.to_f32().unwrap(), single.get(name).unwrap());
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(ours.iter().zip(&theirs.to_f32().unwrap()).all(same), "{file}: {name}");
        }
    }
    let base = expected.get("f32").unwrap();
    let mut others = vec![("one_new.pt".to_owned(), ""), ("one_old.ckpt".to_owned(), "")];
    others.extend((3..=5).map(|protocol| (format!("protocol{protocol}.pt"), "f32")));
    for (file, name) in others {
        let weights = Weights::open(at(&file)).unwrap();
        let tensor = &weights.tensors()[0];
        assert_eq!((tensor.name(), tensor.shape()), (name, base.shape()), "{file}");
        assert_eq!(tensor.bytes().unwrap(), base.bytes().unwrap(), "{file}");
    }
    // Pickles with code: refused by the name of it, and not run.
    for file in ["evil_new.pt", "evil_old.ckpt"] {
        let error = Weights::open(at(file)).unwrap_err();
        assert!(matches!(error.reason, Reason::Code { .. }), "{error}");
        assert!(error.to_string().contains("system\", which is code"), "{error}");
    }
    assert!(!Path::new("EXECUTED").exists() && !at("EXECUTED").exists());
}

#[test]
fn files_that_torch_saved_hold_what_torch_says() {
    same_as_torch(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch"));
}

#[test]
fn torch_reads_what_is_made_of_its_files() {
    let Some(python) = python() else { return };
    let there = Command::new(&python).args(["-c", "import torch"]).output().unwrap();
    if !there.status.success() {
        println!("skipped: live round trips with torch: no torch; `cargo xtask python --torch`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    script(&python, SCRIPT, "make", folder.path());
    same_as_torch(folder.path());
    write(&at("new.pt"), &at("rust_new.safetensors"), None);
    write(&at("old.ckpt"), &at("rust_old.safetensors"), None);
    write(&at("expected.safetensors"), &at("rust_expected.safetensors"), None);
    println!("{}", script(&python, SCRIPT, "check", folder.path()));
}
