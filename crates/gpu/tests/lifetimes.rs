//! Ownership is a type: each program under `compile_fail/` misuses an object after its end, and must
//! not compile. The expected messages are those of one compiler version; with another the programs
//! would fail with other words, so the test says that it is skipped.

use std::process::Command;

const MESSAGES_OF: &str = "rustc 1.95";

#[test]
fn misuse_does_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    match version {
        Ok(version) if version.starts_with(MESSAGES_OF) => {}
        other => {
            eprintln!(
                "skipped: compile-fail messages are those of {MESSAGES_OF}, here is {other:?}"
            );
            return;
        }
    }
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/control.rs");
    for name in [
        "pass_used_after_submit",
        "session_used_after_finish",
        "session_outlives_device",
        "submission_used_after_wait",
        "result_read_from_submission",
        "result_read_without_proof",
        "read_span_bound_as_write",
        "mapping_used_after_drop",
    ] {
        cases.compile_fail(format!("tests/compile_fail/{name}.rs"));
    }
}
