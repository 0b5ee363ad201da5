//! `tintype imagine` as a person and as a program see it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tintype::image::{Picture, png_parameters};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tintype"));
    command.current_dir(folder).env("TINTYPE_DEVICE", "cpu").arg("imagine").args(arguments);
    command
}

fn imagine(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let out = imagine(folder, arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], parts: &[&str]) {
    let out = imagine(folder, arguments);
    assert!(!out.status.success(), "{arguments:?}");
    let error = text(&out.stderr);
    for part in parts {
        assert!(error.contains(part), "{arguments:?}: {error}\nlacks {part}");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_picture_carries_what_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let out = succeed(
        at,
        &["a red fox", "--negative", "blue", "--seed", "7", "--steps", "3", "-o", "f.png"],
    );
    assert!(out.starts_with("f.png  seed 7\n128×128, 3 steps, "), "{out}");
    assert_eq!(files(at), ["f.png"]);
    let png = std::fs::read(at.join("f.png")).unwrap();
    let parameters = png_parameters(&png).unwrap();
    for part in ["a red fox\nNegative prompt: blue\nSteps: 3, Sampler: DDIM", "Seed: 7", "128x128"]
    {
        assert!(parameters.contains(part), "{parameters}");
    }
    assert_eq!(Picture::read(at.join("f.png")).unwrap().width(), 128);
    let again =
        imagine(at, &["a red fox", "--negative", "blue", "--seed", "7", "--steps", "3", "-o", "-"]);
    assert_eq!(again.stdout, png, "standard output gets the same bytes");
}

#[test]
fn json_tells_files_seeds_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let out = succeed(
        at,
        &["a cat", "--batch", "2", "--steps", "2", "--seed", "9", "--json", "-o", "c{seed}.png"],
    );
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["images"][1]["path"], "c10.png");
    assert_eq!(json["images"][0]["seed"], 9);
    assert_eq!(json["steps"], 2);
    let seconds = |phase: &str| json["timings"][phase].as_f64().unwrap();
    assert!(seconds("denoise") > 0.0 && seconds("total") > seconds("denoise"));
    assert_eq!(files(at), ["c10.png", "c9.png"]);
    let out = succeed(at, &["A Cat!", "--steps", "1", "--seed", "1"]);
    assert!(out.starts_with("a-cat-1.png  seed 1"), "{out}");
    let out = succeed(at, &["A Cat!", "--steps", "1", "--seed", "1"]);
    assert!(out.starts_with("a-cat-1-2.png"), "names that were not chosen replace nothing: {out}");
}

#[test]
fn a_first_picture_of_any_size_and_a_mask_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let picture = Picture::new(300, 200, [20, 180, 60].repeat(300 * 200)).unwrap();
    std::fs::write(at.join("init.png"), picture.to_png(None).unwrap()).unwrap();
    let mut mask = vec![0; 128 * 128 * 3];
    mask[..128 * 64 * 3].fill(255);
    let mask = Picture::new(128, 128, mask).unwrap();
    std::fs::write(at.join("mask.png"), mask.to_png(None).unwrap()).unwrap();
    let arguments = ["a star", "--init", "init.png", "--mask", "mask.png", "--strength", "0.9"];
    succeed(at, &[&arguments[..], &["--steps", "4", "-o", "out.png"]].concat());
    let out = Picture::read(at.join("out.png")).unwrap();
    assert!(out.rgb()[128 * 64 * 3..].as_chunks::<3>().0.iter().all(|p| *p == [20, 180, 60]));
    assert!(out.rgb()[..128 * 60 * 3].as_chunks::<3>().0.iter().any(|p| *p != [20, 180, 60]));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("bad.png"), b"no picture").unwrap();
    for (arguments, parts) in [
        (&["a cat", "--steps", "0"][..], &["steps: 0", "1 to 1000"][..]),
        (&["a cat", "--guidance", "0.5"], &["guidance: 0.5", "1 (off) to 100"]),
        (&["a cat", "--batch", "0"], &["batch: 0", "1 to"]),
        (&["a cat", "--sampler", "eulr"], &["did you mean `euler`", "dpm++2m_sde"]),
        (&["a cat", "--sheduler", "karras"], &["--scheduler"]),
        (&["a cat", "--init", "bad.png"], &["bad.png", "PNG, JPEG and WebP"]),
        (&["a cat", "--init", "none.jpg"], &["none.jpg"]),
        (&["a cat", "--strength", "0.5"], &["--init"]),
        (&["a cat", "-o", "a.gif"], &[".png"]),
        (&["a cat", "-o", "none/a.png"], &["no folder none"]),
        (&["a cat", "--preview"], &["terminal"]),
        (&["a cat", "--device", "no such"], &["no such", "cpu:0"]),
        (&["a cat", "--model", "bad.png"], &["bad.png"]),
        (&["--resume", "bad.png"], &["no checkpoint of a picture: bad.png"]),
        (&["a cat", "--resume", "bad.png"], &["cannot be used with"]),
        (&[], &["<PROMPT>"]),
    ] {
        refused(at, arguments, parts);
    }
    assert_eq!(files(at), ["bad.png"]);
}

/// Ends the command in the middle of its steps, as the terminal does.
#[cfg(unix)]
#[test]
fn a_stopped_command_leaves_a_checkpoint_that_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let prompt = ["a sailboat", "--seed", "3", "--steps", "120", "--sampler", "euler_a"];
    succeed(at, &[&prompt[..], &["-o", "whole.png"]].concat());
    let arguments = [&prompt[..], &["-o", "part.png", "--checkpoint", "c.tts"]].concat();
    let child = command(at, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    while !at.join("c.tts").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{out:?}");
    let error = text(&out.stderr);
    assert!(
        error.contains("stopped: no picture was written; `tintype imagine --resume"),
        "{error}"
    );
    assert_eq!(files(at), ["c.tts", "whole.png"]);
    succeed(at, &["--resume", "c.tts", "--checkpoint", "c.tts", "-o", "part.png"]);
    assert_eq!(files(at), ["part.png", "whole.png"], "the checkpoint has served");
    let read = |name| std::fs::read(at.join(name)).unwrap();
    assert_eq!(read("part.png"), read("whole.png"));
}
