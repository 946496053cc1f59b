//! Standard output: where results go, whole or with an error. `println!` would panic on a full disk and on a closed pipe.

use crate::failure::Failure;
use std::io::{self, Write};

/// Writes a text to standard output. A reader that has seen enough, as `head` has, is no error.
///
/// # Errors
/// If it cannot be written, for example because it goes to a file on a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    done(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Makes a failure of what writing to standard output came to.
///
/// # Errors
/// As [`print`].
pub fn done(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::other(format!(
            "cannot write to standard output: {error}; what is recorded stays as it is"
        ))),
        Ok(()) => Ok(()),
    }
}
