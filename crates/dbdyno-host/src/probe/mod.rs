//! Samples of counters that only grow: of a process, of the whole host, of the data device.
//!
//! A probe reads at an instant and two samples are subtracted; nothing runs in between. A counter that went back
//! is named in the difference and counts as 0 there, so no caller can take it for a result unseen.
//! The list: [`process`], [`tree`], [`cpu`], [`disk`].

pub mod cpu;
pub mod disk;
pub mod process;
pub mod tree;

/// Subtracts counters and remembers the names of those that went back.
#[derive(Default)]
struct Subtraction {
    went_back: Vec<&'static str>,
}

impl Subtraction {
    fn of(&mut self, name: &'static str, first: u64, second: u64) -> u64 {
        second.checked_sub(first).unwrap_or_else(|| {
            self.went_back.push(name);
            0
        })
    }
}

/// Nanoseconds in so many clock ticks.
fn ticks_to_ns(ticks: u64, ticks_per_s: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s)) as u64
}
