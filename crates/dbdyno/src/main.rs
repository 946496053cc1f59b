//! The command. Reads as the program: understand the command line, do it, say what went wrong, end with its exit code.

mod block;
mod cache_directory;
mod catalogue;
mod cli;
mod cmd;
mod credentials;
mod engines;
mod exit_code;
mod failure;
mod fetch_progress;
mod instrument;
mod interrupt;
mod job;
mod load_watch;
mod output;
mod pipeline;
mod progress;
mod stored;
mod template;
mod trial;
mod user_engines;
mod view;
mod workspace;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    credentials::hide_arguments();
    let done = match command {
        Command::Plan(args) => cmd::plan::run(&args),
        Command::Run(args) => cmd::run::run(&args),
        Command::Show(args) => cmd::show::run(&args),
        Command::Export(args) => cmd::export::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Engines(args) => cmd::engines::run(&args),
        Command::Job => job::main().map(|()| exit_code::DONE),
        Command::Launch => dbdyno_provision::launch_main(),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("dbdyno: {failure}");
        failure.code
    })
    .into()
}
