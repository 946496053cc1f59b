//! The one place that reads or waits for time. Everything else passes [`Ns`] values around.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`: comparable between threads and processes of one host, never set
//! back, and read without a system call where the kernel's clock source is the processor's own counter.

/// A moment on the monotonic clock, or a duration, in nanoseconds.
pub type Ns = u64;

/// One second.
pub const SECOND: Ns = 1_000_000_000;

/// Now, on the monotonic clock.
#[inline]
pub fn now() -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; CLOCK_MONOTONIC exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as Ns * SECOND + time.tv_nsec as Ns
}

/// Sleeps until `moment` has come and returns the time then. Never spins: the thread costs nothing while it waits.
pub fn sleep_until(moment: Ns) -> Ns {
    loop {
        let time = now();
        if time >= moment {
            return time;
        }
        let until = libc::timespec {
            tv_sec: (moment / SECOND) as libc::time_t,
            tv_nsec: (moment % SECOND) as libc::c_long,
        };
        // SAFETY: `until` is a valid timespec. A signal may end the sleep early; the loop then sleeps again.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &until,
                std::ptr::null_mut(),
            )
        };
    }
}

/// Asks the kernel to wake this thread on time. Its default is to group wake-ups within 50 us.
pub fn set_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK changes only the calling thread; 1 ns is the smallest value it takes.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// What one clock read costs here, in nanoseconds: the median of `rounds` rounds of 100,000 reads each.
pub fn read_cost_ns(rounds: usize) -> f64 {
    const READS: u32 = 100_000;
    let mut costs: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = now();
            for _ in 0..READS {
                std::hint::black_box(now());
            }
            (now() - start) as f64 / f64::from(READS)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time does not go back, and a sleep never returns early.
    #[test]
    fn sleeps_are_never_short() {
        let start = now();
        for ms in [0, 1, 3] {
            let moment = now() + ms * 1_000_000;
            assert!(sleep_until(moment) >= moment);
        }
        assert!(now() >= start + 4_000_000);
    }

    /// A moment that has passed is not waited for, and reading the clock costs something.
    #[test]
    fn past_moments_return_at_once() {
        assert!(sleep_until(0) > 0);
        assert!(read_cost_ns(3) > 0.0);
    }
}
