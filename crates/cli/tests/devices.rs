//! `tintype devices` as a person and as a program see it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn tintype(args: &[&str], device: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tintype"));
    command.args(args).env_remove("TINTYPE_DEVICE");
    if let Some(device) = device {
        command.env("TINTYPE_DEVICE", device);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_table_marks_one_device() {
    let out = tintype(&["devices"], Some("cpu"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    let marked: Vec<&str> =
        table.lines().filter(|line| line.trim_start().starts_with('*')).collect();
    assert_eq!(marked.len(), 1, "{table}");
    assert!(marked[0].contains("cpu:0"), "{table}");
}

#[test]
fn json_is_json_and_free_memory_never_exceeds_the_total() {
    let out = tintype(&["devices", "--json"], None);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let devices = json["devices"].as_array().unwrap();
    assert!(!devices.is_empty());
    assert_eq!(devices.iter().filter(|d| d["chosen"] == true).count(), 1);
    for device in devices {
        let bytes = |key: &str| device[key].as_u64().unwrap();
        assert!(bytes("memory_free_bytes") <= bytes("memory_total_bytes"), "{device}");
        assert!(bytes("max_binding_bytes") > 0);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_lists_what_is() {
    let out = tintype(&["devices"], Some("no such device"));
    assert!(!out.status.success());
    let error = text(&out.stderr);
    assert!(error.contains("no such device") && error.contains("cpu:0"), "{error}");
    let out = tintype(&["devices"], Some("vulkan:first"));
    assert!(text(&out.stderr).contains("no number"), "{}", text(&out.stderr));
}

#[test]
fn a_mistyped_command_suggests_the_near_one() {
    let out = tintype(&["devces"], None);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("'devices'"), "{}", text(&out.stderr));
}
