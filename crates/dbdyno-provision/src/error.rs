//! What can go wrong between a recipe and a running server.

/// A failure with its kind, so that the command can choose an exit code; the message says what, where and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProvisionError {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// What, where, what to do.
    pub message: String,
}

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The host lacks a tool or a right that the engine needs.
    HostLacks,
    /// It could not be downloaded.
    Download,
    /// What was downloaded is not what the engine file promises.
    WrongContent,
    /// The cache or the working directory cannot be written.
    CannotWrite,
    /// The server could not be made, started or stopped.
    Server,
}

impl ProvisionError {
    /// An error of this kind.
    pub fn new(trouble: Trouble, message: impl Into<String>) -> Self {
        ProvisionError { trouble, message: message.into() }
    }
}
