//! The steps of a long task: a line before and after each, and a table at the end. A failed step
//! does not hide what later ones would say. It must not know what the steps do.

use std::time::Instant;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// How a step ended when it did not fail.
pub(crate) enum Outcome {
    /// Done; the words say what was seen.
    Passed(String),
    /// Not done, and why.
    Skipped(String),
}

/// The most characters of a note in the table.
const BRIEF: usize = 90;

struct Row {
    name: String,
    result: &'static str,
    seconds: f64,
    note: String,
}

/// Steps done so far.
pub(crate) struct Steps {
    planned: usize,
    rows: Vec<Row>,
    /// Parts of steps that were skipped, one line each.
    skips: Vec<String>,
    /// Lines of test runners that the summary repeats.
    closing: Vec<String>,
    begun: Instant,
}

impl Steps {
    /// `planned` is the number of steps that will follow.
    pub(crate) fn new(planned: usize) -> Self {
        Steps { planned, rows: vec![], skips: vec![], closing: vec![], begun: Instant::now() }
    }

    /// Runs one step; tells whether it passed or was skipped.
    pub(crate) fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<Outcome>,
    ) -> bool {
        let number = self.rows.len() + 1;
        let at = self.begun.elapsed().as_secs();
        eprintln!("\n[{number}/{}] {name} … (at {}:{:02})", self.planned, at / 60, at % 60);
        let begun = Instant::now();
        let (result, note) = match work(self) {
            Ok(Outcome::Passed(note)) => ("ok", note),
            Ok(Outcome::Skipped(why)) => ("skipped", why),
            Err(error) => ("FAILED", format!("{error:#}")),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let colon = if note.is_empty() { "" } else { ": " };
        eprintln!("[{number}/{}] {name} {result}{colon}{note} ({seconds:.1} s)", self.planned);
        self.rows.push(Row { name: name.into(), result, seconds, note });
        result != "FAILED"
    }

    /// Notes a part that is skipped; said now and again at the end.
    pub(crate) fn skip(&mut self, what: String) {
        if !self.skips.contains(&what) {
            eprintln!("skipped: {what}");
            self.skips.push(what);
        }
    }

    /// Keeps a closing line of a test runner for the end.
    pub(crate) fn close(&mut self, line: String) {
        self.closing.push(line);
    }

    /// Prints the table; true if no step failed.
    pub(crate) fn finish(self) -> bool {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["step", "result", "seconds", ""]);
        for row in &self.rows {
            let first = brief(&row.note);
            table.add_row([&row.name, row.result, &format!("{:.1}", row.seconds), &first]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("\n{table}");
        for skip in &self.skips {
            println!("skipped: {skip}");
        }
        for line in &self.closing {
            println!("{line}");
        }
        let failed: Vec<&str> =
            self.rows.iter().filter(|row| row.result == "FAILED").map(|row| &*row.name).collect();
        let all = self.begun.elapsed().as_secs();
        let (minutes, seconds) = (all / 60, all % 60);
        if failed.is_empty() {
            println!("all steps passed in {minutes}:{seconds:02}");
        } else {
            println!("failed: {} (after {minutes}:{seconds:02})", failed.join(", "));
        }
        failed.is_empty()
    }
}

/// As much of a note as fits beside the other columns; the whole was printed with its step.
fn brief(note: &str) -> String {
    let first = note.lines().next().unwrap_or_default();
    if first.chars().count() <= BRIEF {
        return first.into();
    }
    first.chars().take(BRIEF - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_and_short_ones_stay() {
        assert_eq!(brief("short\nrest"), "short");
        assert_eq!(brief(&"ä".repeat(90)).chars().count(), 90);
        assert!(
            brief(&"ä".repeat(91)).ends_with("ä…") && brief(&"ä".repeat(91)).chars().count() == 90
        );
    }

    #[test]
    fn one_failed_step_fails_the_task_and_the_rest_still_runs() {
        let mut steps = Steps::new(3);
        assert!(steps.step("good", |_| Ok(Outcome::Passed(String::new()))));
        assert!(!steps.step("bad", |_| anyhow::bail!("broken")));
        assert!(steps.step("absent", |_| Ok(Outcome::Skipped("no tool".into()))));
        assert_eq!(steps.rows.len(), 3);
        assert!(!steps.finish());
        let mut steps = Steps::new(1);
        steps.step("absent", |_| Ok(Outcome::Skipped("no tool".into())));
        assert!(steps.finish());
    }
}
