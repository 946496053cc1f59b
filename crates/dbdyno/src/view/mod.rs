//! From records to tables for people: cells with their spread, two pivots, warnings beside the numbers they concern.
//!
//! `cells` gathers trials into cells, `pivot` lays them out, `text` aligns columns. Nothing here reads a file.

pub mod cells;
pub mod pivot;
pub mod steps;
pub mod text;
