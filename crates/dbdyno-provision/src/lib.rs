//! Gets servers and runs them: what a recipe of an engine file asks for, done on this host and undone again.
//!
//! `cache` fetches and installs, `server` makes a data directory, starts and stops, `launch` is what happens between
//! fork and exec, `leftovers` finds what a killed dbdyno left running. Whether a server answers is asked by a driver, in
//! another crate: this one speaks no wire protocol.

mod cache;
mod error;
mod identity;
mod launch;
mod leftovers;
mod server;
mod shim;
mod source;
mod system_calls;
mod tools;
mod unpack;

pub use cache::{Cache, FetchProgress, Installed};
pub use error::{ProvisionError, Trouble};
pub use launch::{can_isolate, launch_main};
pub use leftovers::record::state_directory;
pub use leftovers::sweep_leftovers;
pub use server::{RunningServer, Site, StopReport, StopWay, adopt_orphans, init, start};
