//! Real processes that end in bad moments: how each ends, what it says, and how long it takes.
//! A harness of its own: it starts itself once for each scenario. Arguments are substrings of names.

#![allow(clippy::unwrap_used, reason = "a test, beyond what clippy takes for one")]

#[cfg(target_os = "linux")]
mod copies;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod runner;
#[cfg(target_os = "linux")]
mod scenarios;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use copies::*;
    use runner::{Ends, Scenario};
    use scenarios::*;

    let aborts = Ends::Signal(libc::SIGABRT);
    let ok = Ends::Code(0);
    // Each child frees its own object and leaves its parent's alone.
    const CHILDREN: [&str; 41] = {
        let mut says = ["child: alive 1 freed 1"; 41];
        says[40] = "alive 0 freed 1";
        says
    };
    // name, host program, how it ends, milliseconds from exit to gone, what it says
    type Row = (&'static str, fn(), Ends, [u64; 2], &'static [&'static str]);
    let table: &[Row] = &[
        ("idle", idle, ok, [0, 30], &["alive 0 freed 1"]),
        ("leaked_context", leaked_context, ok, [0, 30], &["alive 0 freed 1"]),
        ("control_leaked_context", control_leaked_context, aborts, [0, 1000], &[]),
        ("dead_creator", dead_creator, ok, [0, 60], &["alive 0 freed 1"]),
        ("panicking_host", panicking_host, Ends::Code(101), [0, 200], &["alive 0 freed 1"]),
        ("during_load", during_load, ok, [0, 200], &["alive 0 freed 1"]),
        ("control_during_load", control_during_load, aborts, [0, 1000], &[]),
        ("during_generation", during_generation, ok, [0, 200], &["alive 0 freed 1"]),
        ("control_destroyed_too_late", control_destroyed_too_late, aborts, [0, 1000], &[]),
        ("late_driver", late_driver, ok, [0, 60], &["alive 0 freed 1"]),
        ("control_late_driver", control_late_driver, aborts, [0, 1000], &[]),
        ("during_last_free", during_last_free, ok, [0, 350], &["alive 0 freed 1"]),
        ("free_races_teardown", free_races_teardown, ok, [0, 500], &["alive 0 freed 20"]),
        ("double_free", double_free, ok, [0, 50], &["alive 0 freed 1"]),
        ("exit_in_callback", exit_in_callback, Ends::Code(7), [0, 60], &["alive 0 freed 1"]),
        (
            "exit_in_callback_of_a_worker",
            exit_in_callback_of_a_worker,
            Ends::Code(7),
            [0, 200],
            &["alive 0 freed 2"],
        ),
        ("bound_runs_out", bound_runs_out, ok, [150, 400], &["alive 1 freed 0"]),
        ("killed_creator", killed_creator, ok, [150, 400], &["alive 1 freed 0"]),
        ("thread_ends_in_its_call", thread_ends_in_its_call, ok, [0, 60], &["alive 0 freed 1"]),
        ("underscore_exit", underscore_exit, Ends::Code(3), [0, 50], &[]),
        (
            "host_joins_worker_in_call",
            host_joins_worker_in_call,
            ok,
            [0, 200],
            &["alive 0 freed 1", "joined 0"],
        ),
        (
            "host_joins_worker_between_calls",
            host_joins_worker_between_calls,
            ok,
            [0, 150],
            &["alive 0 freed 1", "joined 0"],
        ),
        (
            "host_frees_after_teardown",
            host_frees_after_teardown,
            ok,
            [0, 60],
            &["alive 0 freed 1", "Err(Closed)", "Err(Closed)", "Over"],
        ),
        ("locked_stdio", locked_stdio, ok, [0, 200], &["alive 0 freed 1"]),
        ("explicit_teardown", explicit_teardown, ok, [0, 50], &["alive 0 freed 1"]),
        ("forked_child", forked_child, ok, [0, 200], &CHILDREN),
        ("many_cycles", many_cycles, ok, [0, 60], &["alive 0 freed 0"]),
        (
            "two_copies",
            two_copies,
            ok,
            [0, 50],
            &["a frees 1", "crossed [2, 2] own [0, 1]", "b frees 2", "b frees 1", "a frees 2"],
        ),
        ("unloaded_copy", unloaded_copy, ok, [0, 50], &["closed 0", "a frees 2", "a frees 1"]),
    ];
    let scenarios: Vec<_> = table
        .iter()
        .map(|&(name, program, ends, gone_ms, says)| Scenario {
            name,
            program,
            ends,
            gone_ms,
            says,
        })
        .collect();
    runner::main(&scenarios)
}

/// Elsewhere exit is explicit, or can not be run here.
#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: real exits are tested on Linux");
}
