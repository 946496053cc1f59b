//! How far the division of CPU time into user and kernel mode can be trusted.
//!
//! The total is exact; on kernels with tick-based accounting the division is a sample: at each timer tick the mode
//! of that moment gets the whole tick. Kernels with full accounting do better than is said here.

/// Below this many ticks in all, a division into user and kernel mode is not worth printing: at 100 ticks (one
/// second of CPU) the standard error of a half share is 5 % of the total.
pub const COARSE_TICKS: u64 = 100;

/// Standard error of the user mode share, given the ticks of both modes: sqrt(p (1 - p) / n), the binomial standard
/// error of p = user / n with n = user + system.
///
/// Where one mode has no tick at all the formula would say 0, a certainty that n ticks cannot give; there p is
/// taken as one tick off the end, 1 / (n + 2), by the rule of succession. With no tick the answer is 0.5: nothing
/// is known of a share between 0 and 1. The kernel shows ticks of 1/100 s but may sample more often (CONFIG_HZ), so
/// this is rather too large than too small.
pub fn split_error(user_ticks: u64, system_ticks: u64) -> f64 {
    let n = (user_ticks + system_ticks) as f64;
    if n == 0.0 {
        return 0.5;
    }
    let edge = 1.0 / (n + 2.0);
    let p = (user_ticks as f64 / n).clamp(edge, 1.0 - edge);
    (p * (1.0 - p) / n).sqrt()
}

/// Whether there are fewer than [`COARSE_TICKS`] ticks in total.
pub fn is_coarse(user_ticks: u64, system_ticks: u64) -> bool {
    user_ticks + system_ticks < COARSE_TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_follows_the_binomial() {
        // Shows the formula, its ends, that more ticks mean less error, and the limit for coarse.
        let check = |user, system, expected: f64| {
            let error = split_error(user, system);
            assert!((error - expected).abs() < 1e-9, "{user} {system}: {error}");
        };
        check(50, 50, 0.05);
        check(90, 10, 0.03);
        check(5_000, 5_000, 0.005);
        check(0, 0, 0.5);
        check(98, 0, (0.01_f64 * 0.99 / 98.0).sqrt());
        check(0, 98, (0.01_f64 * 0.99 / 98.0).sqrt());
        assert!(split_error(1, 0) > split_error(10, 0));
        assert!(is_coarse(99, 0) && is_coarse(0, 0) && !is_coarse(60, 40));
    }
}
