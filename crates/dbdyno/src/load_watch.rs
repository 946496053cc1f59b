//! Whether a load comes on: one that adds no row for a long time hangs, and is given up.
//!
//! It is watched from its first report, which comes when it holds its template: another run may load that for hours. After
//! the last row everything is brought to disk and compacted, of which nothing is reported, so that may take longer.

use std::time::{Duration, Instant};

/// How many times as long as between rows the end may take: with ten minutes for rows it is two hours, and RocksDB gives
/// its compactions up after one.
const SETTLING: u32 = 12;

/// What a load has reported last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    done: u64,
    total: u64,
    at: Instant,
}

/// A load that is watched.
#[derive(Debug)]
pub struct LoadWatch {
    patience: Duration,
    seen: Option<Seen>,
}

impl LoadWatch {
    /// One that may go without a row more for so long.
    pub fn new(patience: Duration) -> LoadWatch {
        LoadWatch { patience, seen: None }
    }

    /// It has come this far, in rows and updates.
    pub fn progress(&mut self, done: u64, total: u64, at: Instant) {
        if self.seen.is_none_or(|seen| done > seen.done) {
            self.seen = Some(Seen { done, total, at });
        }
    }

    /// Why to end it now, if it has stood still for too long.
    pub fn reason_to_end(&self, now: Instant) -> Option<String> {
        let Seen { done, total, at } = self.seen?;
        let stood = now.saturating_duration_since(at);
        let (limit, what) = match done >= total {
            true => (self.patience * SETTLING, "the last row and update without an end".to_owned()),
            false => (self.patience, format!("{done} of {total} rows and updates")),
        };
        (stood >= limit).then(|| {
            format!(
                "it stood still for {} s after {what}: see what the engine waits for, or give it more time with load_patience_s",
                stood.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only rows count, not reports; the end has more time; what has not begun waits for somebody else.
    #[test]
    fn a_load_without_rows_is_ended() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut watch = LoadWatch::new(Duration::from_secs(10));
        assert_eq!(watch.reason_to_end(at(1_000_000)), None, "it waits for its template");
        watch.progress(0, 100, at(0));
        watch.progress(40, 100, at(9));
        watch.progress(40, 100, at(18));
        assert_eq!(watch.reason_to_end(at(18)), None);
        let reason = watch.reason_to_end(at(19)).expect("ten seconds");
        assert!(reason.contains("for 10 s after 40 of 100 rows and updates: see what"), "{reason}");
        watch.progress(100, 100, at(20));
        assert_eq!(watch.reason_to_end(at(139)), None);
        let reason = watch.reason_to_end(at(140)).expect("two minutes");
        assert!(reason.contains("for 120 s after the last row and update without"), "{reason}");
    }
}
