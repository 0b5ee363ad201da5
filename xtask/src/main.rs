//! `cargo xtask`: what people and CI do with this repository besides building it. Set-up, tests,
//! tidy, cross-checks; each a folder. It must not hold anything that ships.

mod bench;
mod command;
mod cross;
mod fetch;
mod fuzz;
mod golden;
mod python;
mod setup;
mod steps;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Set-up, tests, tidy and cross-checks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

/// One variant a task; each has a file or folder of its own.
#[derive(Debug, Subcommand)]
enum Task {
    Test(test::Test),
    Tidy(tidy::Tidy),
    CrossCheck(cross::CrossCheck),
    Fetch(fetch::Fetch),
    Python(python::Python),
    Fuzz(fuzz::Fuzz),
    Golden(golden::Golden),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test(task) => task.run(),
        Task::Tidy(task) => task.run(),
        Task::CrossCheck(task) => task.run(),
        Task::Fetch(task) => task.run(),
        Task::Python(task) => task.run(),
        Task::Fuzz(task) => task.run(),
        Task::Golden(task) => task.run(),
        Task::Bench(task) => task.run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
