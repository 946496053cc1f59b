//! The instrument measured: as text for people and as JSON for records.

use crate::failure::Failure;
use dbdyno_load::instrument::{Effort, Instrument, measure_instrument};
use dbdyno_stats::Summary;
use serde_json::{Value, json};

/// Measures the instrument.
pub fn measure(effort: Effort) -> Result<Instrument, Failure> {
    Ok(measure_instrument(effort)?)
}

/// With the keys that records and `doctor --json` have.
pub fn as_json(instrument: &Instrument) -> Value {
    json!({
        "clock_read_ns": instrument.clock_read_ns,
        "null_driver_ns_per_request": instrument.null_driver_ns_median(),
        "null_driver_rounds_ns": instrument.null_driver_ns_per_request,
        "highest_rate_per_s": instrument.highest_rate_per_s,
        "wake_up_late_us_p50": instrument.wake_up_late_us_p50,
        "wake_up_late_us_p99": instrument.wake_up_late_us_p99,
    })
}

/// A few lines.
pub fn as_text(instrument: &Instrument) -> String {
    let rounds = Summary::of(&instrument.null_driver_ns_per_request);
    let range = rounds.map_or(String::new(), |s| {
        format!(" (median of {} rounds, {:.1} to {:.1})", s.n, s.min, s.max)
    });
    format!(
        "instrument: one clock read {:.1} ns; null driver {:.1} ns per request{range};\n\
         at most {:.1} million requests/s; a sleeping client wakes {:.1} us late at p50, {:.1} us at p99",
        instrument.clock_read_ns,
        instrument.null_driver_ns_median(),
        instrument.highest_rate_per_s / 1e6,
        instrument.wake_up_late_us_p50,
        instrument.wake_up_late_us_p99,
    )
}
