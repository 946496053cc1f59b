//! The command. Reads as the program: understand the command line, do it, say what went wrong, end with its exit code.

mod catalogue;
mod cli;
mod cmd;
mod exit_code;
mod failure;
mod instrument;
mod job;
mod pipeline;
mod progress;
mod stored;
mod trial;
mod view;
mod workspace;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if !matches!(command, Command::Run(_) | Command::Job) {
        end_with_the_reader();
    }
    let done = match command {
        Command::Plan(args) => cmd::plan::run(&args),
        Command::Run(args) => cmd::run::run(&args),
        Command::Show(args) => cmd::show::run(&args),
        Command::Export(args) => cmd::export::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Engines(args) => cmd::engines::run(&args),
        Command::Job => job::main().map(|()| exit_code::DONE),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("dbdyno: {failure}");
        failure.code
    })
    .into()
}

/// Lets a command end when nobody reads its output any more, as in `dbdyno show RUN | head`. Not for what writes to
/// other processes: there a closed pipe is news of that process.
fn end_with_the_reader() {
    // SAFETY: the default action for SIGPIPE is set before any thread is started.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
