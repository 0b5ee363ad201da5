//! The header is what the sources say, compiles as C and C++, and names every function that the library
//! exports and no other.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{NAME, compile, libraries, package, program, run, watch};

const HEADER: &str = "include/tintype.h";

#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(package().join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    let bindings = cbindgen::Builder::new().with_config(config).with_crate(package()).generate();
    bindings.unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = package().join(HEADER);
    if std::env::var("TINTYPE_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{HEADER} is not what the sources say: run this with TINTYPE_BLESS=1");
}

/// Names that are followed by an opening bracket in the header's declarations.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(package().join(HEADER)).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code =
        code.filter(|line| !line.starts_with("static inline")).collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices('(') {
        let before = &code[..at];
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        if before[start..].starts_with("tintype_") {
            names.insert(before[start..].to_owned());
        }
    }
    names
}

#[test]
#[cfg(target_os = "linux")]
fn exports_are_exactly_the_headers() {
    let Some(nm) = program("nm", "the library's exports") else { return };
    let library = libraries().join(NAME);
    let listed = run(Command::new(nm).args(["-D", "--defined-only"]).arg(library));
    let exported: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned))
        .collect();
    let declared = declared();
    assert!(declared.len() > 25, "{declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn the_header_compiles_alone_in_c_and_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, suffix, standards) in [
        ("gcc", "c", &["-std=c99", "-std=c11", "-std=c17"][..]),
        ("g++", "cpp", &["-std=c++11", "-std=c++20"][..]),
    ] {
        let Some(compiler) = program(compiler, "the header in C and C++") else { continue };
        let source = folder.path().join(format!("alone.{suffix}"));
        let text = "#include <tintype.h>\n#include <tintype.h>\n\
            int main(void) { return tintype_abi_version() == TINTYPE_ABI_VERSION ? 0 : 1; }\n";
        std::fs::write(&source, text).unwrap();
        for standard in standards {
            let to = folder.path().join("alone");
            compile(&compiler, &[standard], &source, &to);
            assert_eq!(watch(&to, [""; 0], &[], std::time::Duration::from_secs(20)).code, Some(0));
        }
    }
}

/// As a distribution installs it: `include`, `lib`, `lib/pkgconfig`.
#[test]
#[cfg(target_os = "linux")]
fn pkg_config_finds_header_and_library() {
    let for_what = "the pkg-config file";
    let Some(pkg_config) = program("pkg-config", for_what) else { return };
    let Some(gcc) = program("gcc", for_what) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    std::fs::create_dir_all(at("lib/pkgconfig")).unwrap();
    std::fs::create_dir_all(at("include")).unwrap();
    std::fs::copy(package().join(HEADER), at(HEADER)).unwrap();
    std::fs::copy(package().join("tintype.pc"), at("lib/pkgconfig/tintype.pc")).unwrap();
    std::fs::copy(libraries().join(NAME), at("lib").join(NAME)).unwrap();
    let asked = |what: &str| {
        let mut command = Command::new(&pkg_config);
        command.args([what, "tintype"]).env("PKG_CONFIG_PATH", at("lib/pkgconfig"));
        run(&mut command).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked("--modversion"), [env!("CARGO_PKG_VERSION")]);
    let source = at("uses.c");
    let text = "#include <stdio.h>\n#include <tintype.h>\n\
        int main(void) { puts(tintype_version()); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(gcc);
    command.args(asked("--cflags")).arg(&source).arg("-o").arg(at("uses"));
    run(command.args(asked("--libs")).arg(format!("-Wl,-rpath,{}", at("lib").display())));
    let said = watch(&at("uses"), [""; 0], &[], std::time::Duration::from_secs(20)).said;
    assert_eq!(said, [env!("CARGO_PKG_VERSION")]);
}
