//! Starts a scenario as a process of its own, waits for its end, and compares.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Code(i32),
    Signal(i32),
    /// It did not, and was killed.
    Hung,
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) program: fn(),
    pub(crate) ends: Ends,
    /// At least and at most from the call of `exit` until the process is gone.
    pub(crate) gone_ms: [u64; 2],
    /// The lines it says, but "exiting".
    pub(crate) says: &'static [&'static str],
}

const NAME: &str = "EXIT_TEST_SCENARIO";
const HANGS_AFTER: Duration = Duration::from_secs(20);
/// A busy machine only ever adds time, so the best of this many runs must keep an upper bound.
const ATTEMPTS: usize = 4;

pub(crate) fn main(scenarios: &[Scenario]) -> ExitCode {
    if let Ok(name) = env::var(NAME) {
        let chosen = scenarios.iter().find(|scenario| scenario.name == name);
        (chosen.expect("a scenario of that name").program)();
        return ExitCode::SUCCESS;
    }
    let flag = |name: &str| env::args().any(|arg| arg == name);
    if flag("--list") {
        // Test runners ask for the tests first, and once more for the ignored ones: there are none.
        let listed = scenarios.iter().filter(|_| !flag("--ignored"));
        listed.for_each(|scenario| println!("{}: test", scenario.name));
        return ExitCode::SUCCESS;
    }
    let exact = flag("--exact");
    let filters: Vec<_> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut failed = 0;
    for scenario in scenarios {
        let wanted = |filter: &String| match exact {
            true => scenario.name == filter,
            false => scenario.name.contains(&**filter),
        };
        if !filters.is_empty() && !filters.iter().any(wanted) {
            continue;
        }
        // The moment matters in one of them: 200 quits within 5 ms of the start of the last free.
        let times = if scenario.name == "during_last_free" { 200 } else { 1 };
        let runs = (0..times).map(|run| check(scenario, run * 25));
        match runs.collect::<Result<Vec<_>, String>>() {
            Ok(gone) => {
                let gone = gone.iter().max().copied().unwrap_or_default();
                println!("ok     {:32} gone after {:6.1} ms", scenario.name, ms(gone));
            }
            Err(why) => {
                failed += 1;
                println!("FAILED {:32} {why}", scenario.name);
            }
        }
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The time from its call of `exit` until it was gone, or what was wrong.
fn check(scenario: &Scenario, delay_us: u64) -> Result<Duration, String> {
    let most = Duration::from_millis(scenario.gone_ms[1]);
    let mut gone = Duration::MAX;
    for _ in 0..ATTEMPTS {
        gone = gone.min(check_once(scenario, delay_us)?);
        if gone <= most {
            return Ok(gone);
        }
    }
    Err(format!("gone after {:.1} ms at best, not {:?}", ms(gone), scenario.gone_ms))
}

fn check_once(scenario: &Scenario, delay_us: u64) -> Result<Duration, String> {
    let run = run(scenario.name, delay_us);
    let mut says: Vec<_> = run.says.iter().map(String::as_str).collect();
    says.sort_unstable();
    let mut expected = scenario.says.to_vec();
    expected.sort_unstable();
    let least = Duration::from_millis(scenario.gone_ms[0]);
    if run.ends != scenario.ends {
        return Err(format!("ended with {:?}, not {:?}: {:?}", run.ends, scenario.ends, run.says));
    }
    if says != expected {
        return Err(format!("said {says:?}, not {expected:?}"));
    }
    if run.gone < least {
        return Err(format!("gone after {:.1} ms, not {:?}", ms(run.gone), scenario.gone_ms));
    }
    Ok(run.gone)
}

struct Run {
    ends: Ends,
    gone: Duration,
    says: Vec<String>,
}

fn run(name: &str, delay_us: u64) -> Run {
    let mut child = Command::new(env::current_exe().expect("this program's path"))
        .env(NAME, name)
        .env("EXIT_TEST_DELAY_US", delay_us.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .spawn()
        .expect("this program starts");
    let stdout = child.stdout.take().expect("a pipe");
    let (line, lines) = channel();
    let reader = thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = line.send((Instant::now(), text));
        }
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child to wait for") {
            break Some(status);
        }
        if begun.elapsed() > HANGS_AFTER {
            // With its own children, which hold the pipe open.
            let group = -i32::try_from(child.id()).expect("a process id");
            // SAFETY: the child leads this group and has not been waited for.
            assert_eq!(unsafe { libc::kill(group, libc::SIGKILL) }, 0);
            child.wait().expect("a child to wait for");
            break None;
        }
        thread::sleep(Duration::from_micros(300));
    };
    let ended = Instant::now();
    reader.join().expect("a reader that ends with the pipe");
    let (exiting, says): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|(_, text)| text == "exiting");
    let ends = match status {
        None => Ends::Hung,
        Some(status) => status
            .signal()
            .map_or_else(|| status.code().map_or(Ends::Hung, Ends::Code), Ends::Signal),
    };
    let exiting = exiting.first().map_or(begun, |(when, _)| *when);
    let says = says.into_iter().map(|(_, text)| text).collect();
    Run { ends, gone: ended.saturating_duration_since(exiting), says }
}
