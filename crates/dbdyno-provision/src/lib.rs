//! Gets servers and runs them: what a recipe of an engine file asks for, done on this host and undone again.
//!
//! `cache` fetches and installs, `server` makes a data directory, starts and stops, `launch` is what happens between
//! fork and exec, `leftovers` finds what a killed dbdyno left running. Whether a server answers is asked by a driver, in
//! another crate: this one speaks no wire protocol.

mod cache;
mod error;
mod source;
mod tools;
mod unpack;

pub use cache::{Cache, FetchProgress, Installed};
pub use error::{ProvisionError, Trouble};
