//! What every function answers to right and to wrong arguments: `c/abi.c`, as C and as C++, against the
//! shared library; and against the static one.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{compile, libraries, package, program, run, watch};

fn passes(program: &Path, folder: &Path) {
    let mut command = Command::new(program);
    let said = run(command.current_dir(folder));
    assert_eq!(said.trim(), "all as expected");
}

const VERSION: &str = concat!("-DVERSION=\"", env!("CARGO_PKG_VERSION"), "\"");

#[test]
fn every_call_answers_in_c() {
    let Some(gcc) = program("gcc", "the C ABI in C") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("abi");
    compile(&gcc, &["-std=c11", VERSION], &package().join("tests/c/abi.c"), &to);
    passes(&to, folder.path());
}

#[test]
fn every_call_answers_in_cpp() {
    let Some(gxx) = program("g++", "the C ABI in C++") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("abi");
    compile(&gxx, &["-std=c++17", "-xc++", VERSION], &package().join("tests/c/abi.c"), &to);
    passes(&to, folder.path());
}

#[test]
#[cfg(target_os = "linux")]
fn the_static_library_links_alone() {
    let Some(gcc) = program("gcc", "the static library") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, to) = (folder.path().join("static.c"), folder.path().join("static"));
    let text = "#include <stdio.h>\n#include <tintype.h>\nint main(void) { size_t count = 0;\n\
        tintype_status status = tintype_devices(NULL, 0, &count);\n\
        printf(\"%d %d\\n\", (int)status, count > 0); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let private = std::fs::read_to_string(package().join("tintype.pc")).unwrap();
    let private = private.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    let mut command = Command::new(gcc);
    command.arg("-I").arg(package().join("include")).arg(&source).arg("-o").arg(&to);
    command.arg(libraries().join("libtintype.a")).args(private.split_whitespace());
    run(&mut command);
    assert_eq!(watch(&to, [""; 0], &[], Duration::from_secs(60)).said, ["0 1"]);
}
