//! What the tests of the C ABI share: where the library is, compilers, and programs that are run with a
//! bound. It must not know what programs do.
#![allow(unreachable_pub, dead_code, clippy::unwrap_used, reason = "each test uses its part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// This package's folder.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the library is. Cargo builds no C library for tests, so it is asked to; the second time that
/// costs it a moment.
pub fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", "tintype-capi", "--lib"]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(package());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        run(&mut cargo);
        assert!(profile.join(NAME).exists(), "no {NAME} in {}", profile.display());
        profile.to_owned()
    };
    BUILT.get_or_init(build).clone()
}

/// The shared library's file name.
pub const NAME: &str =
    if cfg!(target_vendor = "apple") { "libtintype.dylib" } else { "libtintype.so" };

/// The first program of this name in `PATH`; a skip is told, unless the environment forbids it.
pub fn program(name: &str, for_what: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file());
    if found.is_none() {
        let required = std::env::var("TINTYPE_TEST_HOSTS").is_ok_and(|value| value == "required");
        assert!(!required, "{name} is promised");
        eprintln!("skipped: {for_what}: no {name} on this machine");
    }
    found
}

/// Runs a command to its end; an error tells what it said.
pub fn run(command: &mut Command) -> String {
    let out = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{said}\n{complained}", out.status);
    said
}

/// Compiles a C or C++ program against the library.
pub fn compile(compiler: &Path, flags: &[&str], source: &Path, to: &Path) {
    let libraries = libraries();
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]).args(flags);
    command.arg("-I").arg(package().join("include")).arg(source).arg("-o").arg(to);
    command.arg("-L").arg(&libraries).args(["-ltintype", "-pthread"]);
    command.arg(format!("-Wl,-rpath,{}", libraries.display()));
    run(&mut command);
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its standard output, without the line that told of the exit.
    pub said: Vec<String>,
    /// Its standard error.
    pub complained: String,
    /// From the line "exiting" (else from its start) until it was gone.
    pub gone: Duration,
}

/// Runs a program that writes the line "exiting" before it ends; one that hangs is killed.
pub fn watch<S: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = S>,
    environment: &[(&str, &str)],
    bound: Duration,
) -> Ended {
    use std::io::{BufRead, BufReader, Read};
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(environment.iter().copied());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.map(|line| (Instant::now(), line)).collect::<Vec<_>>()
    });
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    let mut hung = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > bound && !hung {
            hung = true;
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_micros(300));
    };
    let ended = Instant::now();
    let lines = reader.join().unwrap();
    let complained = complaints.join().unwrap();
    let exiting = lines.iter().find(|(_, line)| line == "exiting").map_or(begun, |(at, _)| *at);
    let said: Vec<_> =
        lines.into_iter().map(|(_, line)| line).filter(|line| line != "exiting").collect();
    assert!(!hung, "{command:?} hangs; it said {said:?}\n{complained}");
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    let gone = ended.saturating_duration_since(exiting);
    Ended { code: status.code(), signal, said, complained, gone }
}
