//! The `tintype` command: reads flags, calls the library, shows people what happens. It must not
//! hold logic of its own that another host would need.

mod bar;
mod commands;
mod interrupt;
mod show;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Pictures and text from open-weight models, on any GPU or none.
#[derive(Debug, Parser)]
#[command(name = "tintype", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One variant a command; each has a file of its own under `commands/`.
#[derive(Debug, Subcommand)]
enum Command {
    Imagine(Box<commands::imagine::Imagine>),
    Devices(commands::devices::Devices),
    Inspect(commands::inspect::Inspect),
    Convert(commands::convert::Convert),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Imagine(command) => command.run(),
        Command::Devices(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Convert(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if interrupt::asked() => {
            eprintln!("stopped: {error:#}");
            ExitCode::from(interrupt::STOPPED)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
