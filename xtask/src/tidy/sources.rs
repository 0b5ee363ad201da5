//! Rules about one source file: it says what it is for, stays readable in size, holds no unfinished
//! work; and where unsafe code may stand.

use super::{File, Finding};

/// Past this many lines a file should be split …
const LONG: usize = 300;
/// … and past this many it must be.
const TOO_LONG: usize = 700;

/// Marks of unfinished work. Spelled in two halves, since this file is checked too.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!"),
    concat!("db", "g!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Crates without unsafe code, but for one named module each at most.
const SAFE_CRATES: [&str; 2] = ["crates/tensor", "crates/engine"];

/// All rules about one file.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some((_, kind)) = path.rsplit_once('.') else { return vec![] };
    if !["rs", "wgsl", "py"].contains(&kind) {
        return vec![];
    }
    let mut findings: Vec<Finding> =
        [opening(path, kind, text), size(path, text)].into_iter().flatten().collect();
    for (number, line) in text.lines().enumerate() {
        for mark in UNFINISHED.iter().filter(|mark| has_word(line, mark)) {
            let message = format!("`{mark}` is unfinished work: finish it or file an issue");
            findings.push(Finding::error(path, number + 1, message));
        }
    }
    findings
}

/// A file opens with what it owns and what it must not know.
fn opening(path: &str, kind: &str, text: &str) -> Option<Finding> {
    let (begins, example): (&[&str], &str) = match kind {
        "rs" => (&["//!"], "//! What this module owns, and what it must not know."),
        "wgsl" => (&["//"], "// What this kernel computes."),
        _ => (&["\"\"\"", "#"], "\"\"\"What this script is for.\"\"\""),
    };
    // A shebang and inner attributes may come first.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with("#!")).unwrap_or_default();
    let opened = begins.iter().any(|mark| first.strip_prefix(mark).is_some_and(has_letters))
        || (kind == "py" && first == "\"\"\"");
    let message = format!("the file must open with its documentation: `{example}`");
    (!opened).then(|| Finding::error(path, 1, message))
}

fn has_letters(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

fn size(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines > TOO_LONG {
        let message = format!("{lines} lines, more than {TOO_LONG}: split it by idea");
        return Some(Finding::error(path, 0, message));
    }
    (lines > LONG).then(|| {
        Finding::warning(path, 0, format!("{lines} lines, more than {LONG}: is it one idea?"))
    })
}

/// Whether `line` holds `word` with no letter, digit or `_` around it.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next())
    })
}

/// A safe crate forbids unsafe code, or denies it and allows it once. Crates that do not exist are
/// not judged.
pub(super) fn check_unsafe(files: &[File]) -> Vec<Finding> {
    SAFE_CRATES.iter().filter_map(|folder| safe_crate(folder, files)).collect()
}

fn safe_crate(folder: &str, files: &[File]) -> Option<Finding> {
    let sources = format!("{folder}/src/");
    let root = format!("{sources}lib.rs");
    let text = &files.iter().find(|file| file.path == root)?.text;
    let states = |text: &str, rule: &str| {
        text.lines().filter(|line| line.trim_start().starts_with(rule)).count()
    };
    if states(text, "#![forbid(unsafe_code)]") > 0 {
        return None;
    }
    if states(text, "#![deny(unsafe_code)]") == 0 {
        let message = "needs `#![forbid(unsafe_code)]`, or `deny` with one module that allows it";
        return Some(Finding::error(&root, 1, message));
    }
    let allowing: Vec<(&str, usize)> = files
        .iter()
        .filter(|file| file.path.starts_with(&sources))
        .map(|file| {
            let inner = states(&file.text, "#![allow(unsafe_code");
            (file.path.as_str(), inner + states(&file.text, "#[allow(unsafe_code"))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let total: usize = allowing.iter().map(|(_, count)| count).sum();
    let names: Vec<&str> = allowing.iter().map(|(path, _)| *path).collect();
    (total != 1).then(|| {
        let message = format!(
            "unsafe code is denied and allowed {total} times ({}); one module may allow it, with \
             none use `forbid`",
            if names.is_empty() { "nowhere".into() } else { names.join(", ") }
        );
        Finding::error(&root, 1, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, told};
    use super::*;

    #[test]
    fn files_open_with_documentation() {
        let good = [
            ("a.rs", "//! Owns a.\n"),
            ("a.rs", "#![allow(dead_code)]\n\n//! Owns a.\n"),
            ("a.wgsl", "// Adds.\n"),
            ("a.py", "#!/usr/bin/env python3\n\"\"\"Makes a.\"\"\"\n"),
            ("a.py", "\"\"\"\nMakes a.\n\"\"\"\n"),
            ("a.txt", "x"),
        ];
        for (path, text) in good {
            assert!(check(path, text).is_empty(), "{path}: {text}");
        }
        let bad = [
            ("a.rs", "// Owns a.\n"),
            ("a.rs", "use std;\n//! late\n"),
            ("a.rs", "//!\nfn a() {}\n"),
            ("a.rs", ""),
            ("a.wgsl", "fn a() {}\n"),
            ("a.py", "import a\n"),
        ];
        for (path, text) in bad {
            let told = told(check(path, text));
            assert!(told.len() == 1 && told[0].contains("must open"), "{path}: {text}: {told:?}");
        }
    }

    #[test]
    fn long_files_warn_then_fail() {
        let of = |lines: usize| check("a.rs", &"//! a\n".repeat(lines));
        assert!(of(300).is_empty());
        assert!(!of(301)[0].fatal && !of(700)[0].fatal);
        assert!(of(701)[0].fatal);
    }

    #[test]
    fn unfinished_work_is_found_as_a_word() {
        for mark in UNFINISHED {
            let told = told(check("a.rs", &format!("//! a\nfn a() {{}}\n {mark}()")));
            assert!(told[0].contains("a.rs:3") && told[0].contains(mark), "{told:?}");
            assert!(check("a.rs", &format!("//! a\nmy_{mark}")).is_empty());
        }
        assert!(check("a.rs", &format!("//! {}X", UNFINISHED[4])).is_empty());
    }

    #[test]
    fn safe_crates_say_so() {
        let lib = |text| file("crates/tensor/src/lib.rs", text);
        let simd = |text| file("crates/tensor/src/simd.rs", text);
        let allow = "#![allow(unsafe_code)]\n";
        assert!(check_unsafe(&[]).is_empty());
        assert!(check_unsafe(&[lib("#![forbid(unsafe_code)]")]).is_empty());
        assert!(check_unsafe(&[lib("#![deny(unsafe_code)]"), simd(allow)]).is_empty());
        assert_eq!(check_unsafe(&[lib("//! tensor")]).len(), 1);
        assert_eq!(check_unsafe(&[lib("// #![forbid(unsafe_code)]")]).len(), 1);
        assert_eq!(check_unsafe(&[lib("#![deny(unsafe_code)]")]).len(), 1);
        let twice = [lib("#![deny(unsafe_code)]\n#[allow(unsafe_code)]\nmod a;"), simd(allow)];
        assert!(told(check_unsafe(&twice))[0].contains("2 times"));
    }
}
