//! What dbdyno itself costs per request: a closed loop on the null driver with generator, both histograms and series.
//!
//! `cargo bench -p dbdyno-load --bench instrument` prints the rounds and their median beside one clock read.
#![allow(clippy::print_stdout, missing_docs)]

use dbdyno_load::instrument::{Effort, measure_instrument};

fn main() {
    let effort = Effort { rounds: 9, round_ns: 300_000_000, cores: 2 };
    let instrument = measure_instrument(effort).expect("threads can be started");
    println!("clock read:           {:6.1} ns", instrument.clock_read_ns);
    println!(
        "null driver, closed:  {:6.1} ns per request (median of {} rounds, {:.1} to {:.1})",
        instrument.null_driver_ns_median(),
        instrument.null_driver_ns_per_request.len(),
        instrument.null_driver_ns_per_request.first().expect("at least one round"),
        instrument.null_driver_ns_per_request.last().expect("at least one round"),
    );
    println!(
        "highest rate:         {:6.1} M/s on {} cores",
        instrument.highest_rate_per_s / 1e6,
        effort.cores
    );
    println!(
        "wake-up lateness:     {:6.1} us p50, {:.1} us p99",
        instrument.wake_up_late_us_p50, instrument.wake_up_late_us_p99
    );
}
