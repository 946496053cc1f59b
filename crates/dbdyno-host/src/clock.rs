//! The clocks of the host: monotonic time, CPU clocks by id, clock ticks, and what one reading costs.
//!
//! Every time in this crate is nanoseconds of CLOCK_MONOTONIC as `u64`, or of a CPU clock. No other file of this
//! crate reads a clock.

use std::io;

/// Rounds of [`read_cost_ns`]; the median of an odd number of rounds is one of them.
const COST_ROUNDS: usize = 9;
/// Readings in one round: at 20 to 1,000 ns each, a round takes 0.2 to 10 ms.
const COST_READINGS: u32 = 10_000;

/// Nanoseconds of CLOCK_MONOTONIC: since boot, never set back, not counting suspension.
pub fn monotonic_ns() -> u64 {
    // CLOCK_MONOTONIC exists on every Linux; a kernel that refuses it cannot run this program's standard library.
    clock_ns(libc::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC can always be read")
}

/// Seconds of the wall clock since 1970, as the kernel stamps files and shared memory; 0 if it cannot be read.
pub fn wall_clock_s() -> u64 {
    clock_ns(libc::CLOCK_REALTIME).map_or(0, |ns| ns / 1_000_000_000)
}

/// Nanoseconds shown by the clock with this id, or what the kernel said.
pub(crate) fn clock_ns(id: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the whole call; the kernel checks the id.
    let result = unsafe { libc::clock_gettime(id, &mut time) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Clock ticks per second (USER_HZ), the unit of CPU time in /proc/stat and /proc/PID/stat; `None` if not told.
pub fn ticks_per_second() -> Option<u64> {
    // SAFETY: sysconf takes a plain number and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0)
}

/// Cost of one CLOCK_MONOTONIC reading in nanoseconds: median of nine rounds of 10,000 readings each.
pub fn read_cost_ns() -> f64 {
    let mut rounds = [0.0; COST_ROUNDS];
    for round in &mut rounds {
        let start = monotonic_ns();
        let mut end = start;
        for _ in 0..COST_READINGS {
            end = std::hint::black_box(monotonic_ns());
        }
        *round = (end - start) as f64 / f64::from(COST_READINGS);
    }
    rounds.sort_by(f64::total_cmp);
    rounds[COST_ROUNDS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward_and_cost_something() {
        // Shows that monotonic time does not go back, a bad id is refused, and the cost is a possible number.
        let first = monotonic_ns();
        let second = monotonic_ns();
        assert!(second >= first);
        assert!(clock_ns(0x7fff_fff0).is_err());
        assert!(ticks_per_second().is_some_and(|ticks| ticks >= 100));
        let cost = read_cost_ns();
        assert!(cost > 0.1 && cost < 1e6, "{cost} ns");
    }
}
