//! What is wrong with an input, and where: one error type for experiment files, engine files and arguments.
//!
//! A message names the place, the line and the key, and says what would be right. It is the only error that
//! planning returns; reading a stored plan has its own in `plan`.

use std::fmt;

/// Where a value was written: a line of a file, or an argument of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File as the user knows it, or the argument itself, for example `--set dop=0`.
    pub file: String,
    /// Line, counted from one; arguments have none.
    pub line: Option<usize>,
}

impl Place {
    /// A line of a file.
    pub fn line(file: &str, line: usize) -> Place {
        Place { file: file.to_string(), line: Some(line) }
    }

    /// An argument of the command, or anything else without lines.
    pub fn argument(text: impl Into<String>) -> Place {
        Place { file: text.into(), line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}", self.file),
            None => write!(out, "{}", self.file),
        }
    }
}

/// An input that cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct InputError {
    /// Where it is written.
    pub place: Place,
    /// The key that it concerns, where there is one.
    pub key: Option<String>,
    /// What is wrong and what to do, in one sentence that names the key.
    pub message: String,
}

impl InputError {
    /// An error about one key.
    pub fn about_key(place: Place, key: &str, message: impl Into<String>) -> InputError {
        InputError { place, key: Some(key.to_string()), message: message.into() }
    }

    /// An error about a place as a whole.
    pub fn about_place(place: Place, message: impl Into<String>) -> InputError {
        InputError { place, key: None, message: message.into() }
    }
}
