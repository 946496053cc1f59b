//! One trial, inside its own process: what is sampled while it runs, and what is made of it afterwards.
//!
//! `observe` watches, `derive` turns samples into the record's metrics and warnings, `detail` into its files.

pub mod derive;
pub mod detail;
pub mod files;
pub mod observe;
