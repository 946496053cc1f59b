//! From an experiment as written to a plan: every default filled in, every trial listed, nothing left to decide.
//!
//! Pure: texts and arguments in, a [`Plan`] or an [`InputError`] out; no file, clock or environment is touched.
//! The way through: `request` (what was asked) and `experiment` and `engine_file` (as written, read strictly by
//! `toml_reader`) -> `resolve` (factors and settings) -> `matching` (what cannot run) -> `order` -> `plan`.

mod engine_file;
mod input_error;
mod nearest;
mod shipped;
mod toml_reader;
mod value;
