//! A Mach-O library of ours, linked on Linux against stubs of Apple's libraries: text files that list
//! what those export. Proves that every symbol we call is known; runs nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::read::macho::{LoadCommandVariant, MachHeader, MachOFile64};
use object::{Architecture, Endianness, Object, ObjectKind};

use super::compiler::Compiler;
use crate::command::{cargo, run};
use crate::steps::Outcome;
use crate::workspace::Workspace;

/// Sections `[install name] stub files`, each followed by the symbols.
const EXPORTS: &str = include_str!("apple-exports.txt");

/// The oldest macOS whose kernel interfaces Apple silicon has.
const SDK_VERSION: &str = "11.0";

/// A Mach-O library without one of these makes no use of the GPU.
const ENTRY_POINTS: [&str; 2] = ["_MTLCreateSystemDefaultDevice", "_MTLCopyAllDevices"];

/// Links `package` for `target` and looks at the result.
pub(super) fn link(
    workspace: &Workspace,
    compiler: &Compiler,
    target: &str,
    package: &str,
) -> Result<Outcome> {
    let outputs = workspace.target.join("cross");
    let sdk = outputs.join("apple-sdk");
    write_sdk(&sdk, EXPORTS)?;
    let file = format!("lib{}.dylib", package.replace('-', "_"));
    let library = outputs.join(target).join("release").join(&file);
    let install_name = format!("@rpath/{file}");

    let mut command = cargo();
    command.current_dir(&workspace.root);
    command.args(["rustc", "--locked", "--release", "--lib", "--crate-type", "cdylib"]);
    command.args(["--target", target, "-p", package, "--"]);
    command.arg(format!("-Clinker={}", compiler.macho_linker().display()));
    command.args(["-Clinker-flavor=ld64.lld", "-Cstrip=none"]);
    // Keep every function of ours: what nothing exports yet must find its symbols too.
    command.arg("-Clink-dead-code=yes");
    // Every unknown symbol is named, not the first twenty.
    command.arg(format!("-Clink-args=-install_name {install_name} --error-limit=0"));
    compiler.drive(&mut command, &outputs);
    command
        .env("SDKROOT", &sdk)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    run(&mut command).with_context(|| {
        format!(
            "{package} does not link for {target}; known symbols: xtask/src/cross/apple-exports.txt"
        )
    })?;
    let bytes = std::fs::read(&library).with_context(|| format!("{}", library.display()))?;
    let seen = judge(&bytes, &install_name)
        .with_context(|| format!("{} is not what it should be", library.display()))?;
    Ok(Outcome::Passed(format!("{file}: {seen}")))
}

/// The library is one for Apple silicon, carries its name, and calls Metal through Metal's library.
fn judge(bytes: &[u8], install_name: &str) -> Result<String> {
    let file = MachOFile64::<Endianness>::parse(bytes).context("not a 64-bit Mach-O file")?;
    ensure!(file.architecture() == Architecture::Aarch64, "it is for {:?}", file.architecture());
    ensure!(file.kind() == ObjectKind::Dynamic, "it is {:?}, not a dynamic library", file.kind());
    let endian = file.endian();
    let mut commands = file.macho_header().load_commands(endian, bytes, 0)?;
    let (mut name, mut libraries) = (None, vec![]);
    while let Some(command) = commands.next()? {
        match command.variant()? {
            LoadCommandVariant::IdDylib(own) => {
                name = Some(text(command.string(endian, own.dylib.name)?));
            }
            LoadCommandVariant::Dylib(used) => {
                libraries.push(text(command.string(endian, used.dylib.name)?));
            }
            _ => {}
        }
    }
    ensure!(name.as_deref() == Some(install_name), "its install name is {name:?}");
    let imports = file.imports()?;
    let metal = imports.iter().find(|import| {
        ENTRY_POINTS.contains(&&*text(import.name())) && text(import.library()).contains("/Metal")
    });
    let Some(metal) = metal else {
        bail!(
            "it imports neither of {} from Metal; its libraries are {}",
            ENTRY_POINTS.join(", "),
            libraries.join(", ")
        );
    };
    Ok(format!(
        "arm64, {} libraries, {} imports, {} from Metal",
        libraries.len(),
        imports.len(),
        text(metal.name())
    ))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes the stub files under `sdk`.
fn write_sdk(sdk: &Path, exports: &str) -> Result<()> {
    for (path, stub) in stubs(exports)? {
        let path: PathBuf = sdk.join(path);
        let folder = path.parent().unwrap_or(sdk);
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        std::fs::write(&path, stub).with_context(|| format!("{}", path.display()))?;
    }
    let settings =
        format!("{{\"Version\": \"{SDK_VERSION}\", \"MinimalDisplayName\": \"stubs\"}}\n");
    std::fs::write(sdk.join("SDKSettings.json"), settings).context("SDKSettings.json")
}

/// Each stub file's path and its text in Apple's format for library stubs (TBD, version 4).
fn stubs(exports: &str) -> Result<Vec<(String, String)>> {
    let mut stubs = vec![];
    for section in exports.split("\n[").skip(1) {
        let (header, symbols) = section.split_once('\n').unwrap_or((section, ""));
        let (install_name, files) =
            header.split_once(']').with_context(|| format!("no `]` in `[{header}`"))?;
        let symbols: Vec<String> =
            symbols.split_whitespace().map(|symbol| format!("'{symbol}'")).collect();
        ensure!(!symbols.is_empty(), "no symbols under {install_name}");
        let text = format!(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos, x86_64-macos ]\n\
             install-name: '{install_name}'\nexports:\n\
             \x20 - targets: [ arm64-macos, x86_64-macos ]\n    symbols: [ {} ]\n...\n",
            symbols.join(", ")
        );
        stubs.extend(files.split_whitespace().map(|file| (file.to_string(), text.clone())));
    }
    Ok(stubs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_list_what_the_file_says() {
        let stubs =
            stubs("# note\n\n[/usr/lib/a.dylib] usr/lib/a.tbd usr/lib/b.tbd\n_x _y\n_z$1\n")
                .unwrap();
        assert_eq!(stubs.len(), 2);
        assert_eq!(stubs[1].0, "usr/lib/b.tbd");
        assert!(stubs[0].1.contains("install-name: '/usr/lib/a.dylib'"));
        assert!(stubs[0].1.contains("symbols: [ '_x', '_y', '_z$1' ]"), "{}", stubs[0].1);
        assert!(super::stubs("\n[/a] a.tbd\n").is_err());
    }

    #[test]
    fn our_stubs_cover_metal_and_every_symbol_once() {
        let stubs = stubs(EXPORTS).unwrap();
        let metal = stubs.iter().find(|(path, _)| path.ends_with("Metal.tbd")).unwrap();
        assert!(ENTRY_POINTS.iter().all(|symbol| metal.1.contains(&format!("'{symbol}'"))));
        let mut symbols: Vec<&str> = EXPORTS
            .split("\n[")
            .skip(1)
            .flat_map(|s| s.lines().skip(1))
            .flat_map(|line| line.split_whitespace())
            .collect();
        let all = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), all, "a symbol is listed twice");
    }

    #[test]
    fn other_files_are_not_taken_for_a_library() {
        assert!(judge(b"", "@rpath/a").is_err());
        assert!(
            judge(&std::fs::read(std::env::current_exe().unwrap()).unwrap(), "@rpath/a").is_err()
        );
    }
}
