//! Other programs: is one there, run it, hear what it said. It must not know why one is run.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The first executable of this name in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs to the end with our own output streams; an error names the command and how it ended.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// What the command printed on standard output; an error holds what it printed on standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = show(command);
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{line}`"))?;
    if !out.status.success() {
        bail!("`{line}` failed ({}): {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// How a command ended and every line it printed, both streams, as shown while it ran.
pub(crate) struct Heard {
    pub(crate) ok: bool,
    pub(crate) how: String,
    pub(crate) lines: Vec<String>,
}

/// Runs to the end; prints everything at once as it comes and keeps it too.
pub(crate) fn hear(command: &mut Command) -> Result<Heard> {
    let line = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{line}`"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = std::sync::mpsc::channel();
    let other = sender.clone();
    let readers = [
        std::thread::spawn(move || {
            out.map_or(Ok(()), |out| pass_on(out, std::io::stdout(), &sender))
        }),
        std::thread::spawn(move || {
            err.map_or(Ok(()), |err| pass_on(err, std::io::stderr(), &other))
        }),
    ];
    let lines = receiver.iter().collect();
    for reader in readers {
        match reader.join() {
            Ok(read) => read.with_context(|| format!("lost the output of `{line}`"))?,
            Err(_) => bail!("lost the output of `{line}`"),
        }
    }
    let status = child.wait().with_context(|| format!("could not wait for `{line}`"))?;
    Ok(Heard { ok: status.success(), how: format!("`{line}` ended with {status}"), lines })
}

fn pass_on(
    from: impl Read,
    mut to: impl Write,
    keep: &std::sync::mpsc::Sender<String>,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while from.read_until(b'\n', &mut bytes)? > 0 {
        to.write_all(&bytes)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&bytes);
        // The receiver outlives both readers, and a lost line would only shorten the summary.
        let _kept = keep.send(without_colours(text.trim_end()));
        bytes.clear();
    }
    Ok(())
}

/// The text without terminal colour sequences (`ESC [ … letter`).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    plain.push_str(rest);
    plain
}

/// The command as a person would type it.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_dropped_and_text_stays() {
        assert_eq!(without_colours("\u{1b}[32;1m Summary\u{1b}[0m 3 run"), " Summary 3 run");
        assert_eq!(without_colours("plain [text]"), "plain [text]");
        assert_eq!(without_colours("cut \u{1b}[3"), "cut ");
    }

    #[test]
    fn both_streams_are_heard_and_failure_is_told() {
        let heard =
            hear(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert!(!heard.ok && heard.how.contains('3'), "{}", heard.how);
        let mut lines = heard.lines;
        lines.sort();
        assert_eq!(lines, ["err", "out"]);
        assert!(run(&mut Command::new("no-such-program-here")).is_err());
    }
}
