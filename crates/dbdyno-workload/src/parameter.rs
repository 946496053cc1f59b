//! The knobs of a workload: named, typed, with a default and one sentence of meaning.
//!
//! An experiment file sets them by name under `[vary]`, `[hold]` or `[scale.*]`; planning checks names, types and
//! ranges against this list, so that a workload never sees a value that it did not declare.

use std::collections::BTreeMap;

/// A value as it stands after planning.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A whole number.
    Integer(u64),
    /// A finite real number.
    Number(f64),
    /// A word, for example one of a [`Kind::Choice`].
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// Settings by parameter name.
pub type Settings = BTreeMap<String, Setting>;

/// What values a parameter takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number between the two bounds, both included.
    Integer {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A finite real number between the two bounds, both included. Whole numbers are taken too.
    Number {
        /// Smallest value allowed.
        min: f64,
        /// Largest value allowed.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A word with a syntax of its own, for example `zipfian(0.99)`; the function checks it and says what is wrong.
    Syntax(fn(&str) -> Result<(), String>),
    /// Yes or no.
    Flag,
}

/// One knob.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name, as experiment files write it.
    pub name: &'static str,
    /// Values it takes.
    pub kind: Kind,
    /// Default, written as an experiment file would write it (without quotes).
    pub default: &'static str,
    /// One sentence for `--help`, documentation and error messages.
    pub about: &'static str,
}
