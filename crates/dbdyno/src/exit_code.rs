//! What the command's exit codes mean. Scripts rely on them: a number never changes its meaning.

/// Done; every planned trial is Measured, NotRun or Unsupported.
pub const DONE: u8 = 0;
/// An error that has no code of its own.
pub const ERROR: u8 = 1;
// 2 is clap's own: the command line cannot be understood.
/// An input is wrong: experiment, engine, setting, `--set`.
pub const WRONG_INPUT: u8 = 3;
/// There is no such run, or its record cannot be read.
pub const NO_RUN: u8 = 4;
/// A record was changed after it was written, or is of a newer format.
pub const BAD_RECORD: u8 = 5;
/// The results directory cannot be written.
pub const CANNOT_WRITE: u8 = 6;
/// This host should not start a run.
pub const HOST_UNFIT: u8 = 7;
/// A trial Failed.
pub const TRIAL_FAILED: u8 = 8;
/// A trial is Invalid: its check failed.
pub const TRIAL_INVALID: u8 = 9;
/// An engine could not be fetched, or is not what was fetched.
pub const FETCH_FAILED: u8 = 10;
/// A server could not be started or stopped.
pub const SERVER_FAILED: u8 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    /// The help text lists every code.
    #[test]
    fn the_help_text_lists_every_code() {
        let codes = [
            DONE,
            ERROR,
            2,
            WRONG_INPUT,
            NO_RUN,
            BAD_RECORD,
            CANNOT_WRITE,
            HOST_UNFIT,
            TRIAL_FAILED,
            TRIAL_INVALID,
            FETCH_FAILED,
            SERVER_FAILED,
        ];
        let listed = crate::cli::EXIT_CODES
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse().ok());
        assert_eq!(listed.collect::<Vec<u8>>(), codes);
    }
}
