//! Makes a data directory, starts a server on it, and hands out a [`RunningServer`] that can be stopped.
//!
//! Start servers from a thread that lives as long as they should, in practice the main thread: the kernel ends a server
//! with the thread that started it. Whether a server answers is asked by the caller, with a driver; until then the
//! caller watches [`RunningServer::ended`] and quotes [`RunningServer::log_tail`].

mod log;
mod port;
mod prepare;
mod running;
mod starting;
#[cfg(test)]
mod tests;
mod words;

pub use running::{RunningServer, StopReport, StopWay};
pub use starting::{init, start};

use crate::error::{ProvisionError, Trouble};
use crate::system_calls;
use dbdyno_plan::ServerRecipe;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that is needed to start one server.
#[derive(Debug, Clone)]
pub struct Site {
    /// What it is called in messages.
    pub name: String,
    /// How it is started.
    pub recipe: ServerRecipe,
    /// Its installed programs.
    pub prefix: PathBuf,
    /// The server's own directory: `data/`, `run/`, `tmp/` and `log` are made in it.
    pub directory: PathBuf,
    /// Its settings. Those that the recipe does not pass on belong to the driver.
    pub settings: BTreeMap<String, String>,
    /// Whether it listens on a loopback port, and not on its socket only.
    pub with_port: bool,
    /// The program that calls [`crate::launch_main`] if its first argument is `launch`.
    pub launcher: PathBuf,
    /// How many files the server may have open.
    pub open_files: u64,
    /// The socket of the server behind it, if it stands in front of one. That one runs already, from the same directory,
    /// which it has made and which has its data.
    pub backend: Option<PathBuf>,
}

impl Site {
    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The directory with socket and pid file, where the server is started.
    pub fn run(&self) -> PathBuf {
        self.directory.join("run")
    }

    /// The directory for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// The socket, if the server has no port. With one, ask the running server: the port may be in the name.
    pub fn socket(&self) -> PathBuf {
        words::Words::of(self, words::PORT_NAME).socket()
    }

    /// What the server prints.
    pub fn log(&self) -> PathBuf {
        self.directory.join(if self.backend.is_some() { "front.log" } else { "log" })
    }
}

/// Makes this process the one that gets orphans among its descendants, so that it can end and reap what a server that
/// died leaves behind. Call it once, before the first server is started.
///
/// # Errors
/// If the kernel refuses.
pub fn adopt_orphans() -> Result<(), ProvisionError> {
    system_calls::become_subreaper().map_err(|error| {
        let text = format!("cannot become the parent of orphaned server processes: {error}; dbdyno needs Linux 3.4 or later");
        ProvisionError::new(Trouble::HostLacks, text)
    })
}
