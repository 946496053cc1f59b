//! The hot path: what happens once per request, and what surrounds it within one process.
//!
//! [`measure`] starts clients; each runs the loop in [`worker`] against a [`driver`]; [`arrival`] says when requests
//! are due, [`recorder`] counts what happened. This crate reads the clock (in [`clock`] alone) and talks to engines; it
//! knows no experiment file, no `/proc` and no record.

pub mod arrival;
pub mod clock;
pub mod conformance;
pub mod dataset;
pub mod driver;
pub mod histogram;
pub mod instrument;
mod lazy_zeros;
pub mod measure;
pub mod outcome;
pub mod recorder;
pub mod server;
mod shared_library;
pub mod sql;
pub mod sync_counter;
pub mod tables;
pub mod trial;
pub mod wire;
pub mod worker;
