//! One file per subcommand. Each has a `run` that takes its arguments and returns the exit code.

pub mod doctor;
pub mod engines;
pub mod export;
pub mod plan;
pub mod run;
pub mod show;
