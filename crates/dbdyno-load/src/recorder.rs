//! What happened, by interval: each worker thread counts for itself and hands over when an interval ends.
//!
//! A request belongs to the warm-up or to the measured interval by when it was due; it is counted as completed in the
//! interval in which it was done. So durations of a stalled second are not lost to the next one, and throughput is
//! what was finished in the measured time, no more. Start with [`Recorder::record`], the hot path.

use crate::arrival::Timeline;
use crate::clock::{Ns, SECOND};
use crate::histogram::{DurationCounts, TWO_DIGITS, empty_histogram};
use crate::outcome::Failure;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A client that was idle when its request became due and sent it this much later is late by its own fault.
pub const LATE_NS: Ns = 1_000_000;

/// Number of the warm-up interval; measured intervals of a second each follow, then one for what ends later.
pub const WARMUP: usize = 0;

/// Where intervals begin: the warm-up, each measured second, and the tail in which last requests are drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intervals {
    starts: Vec<Ns>,
}

impl Intervals {
    /// One interval for the warm-up, one for each second of the measured interval (the last may be shorter), one for
    /// the tail.
    pub fn of(timeline: Timeline) -> Self {
        let mut starts = vec![timeline.start];
        let mut start = timeline.measure_start;
        while start < timeline.end {
            starts.push(start);
            start += SECOND;
        }
        starts.push(timeline.end);
        Intervals { starts }
    }

    /// Number of the interval for what is done after the measured interval ended.
    pub fn tail(&self) -> usize {
        self.starts.len() - 1
    }

    /// The part of the measurement that an interval belongs to.
    pub fn phase_of(&self, interval: usize) -> Phase {
        match interval {
            WARMUP => Phase::Warmup,
            interval if interval < self.tail() => Phase::Measured,
            _ => Phase::Tail,
        }
    }

    /// When an interval ends; the tail has no end.
    pub fn end_of(&self, interval: usize) -> Ns {
        self.starts.get(interval + 1).copied().unwrap_or(Ns::MAX)
    }
}

/// One request class in one interval, all worker threads together.
#[derive(Debug, Clone)]
pub struct ClassInterval {
    /// Done minus due of acknowledged requests, ns.
    pub response_time_ns: Histogram<u64>,
    /// Done minus sent of acknowledged requests, ns.
    pub service_time_ns: Histogram<u64>,
    /// Sent minus due, ns, to two digits; empty where requests have no schedule.
    pub send_lateness_ns: Histogram<u64>,
    /// Requests acknowledged in this interval, whenever they were due.
    pub completed: u64,
    /// Requests given up after a refusal.
    pub refused: u64,
    /// Requests of which nobody knows how they ended.
    pub unknown: u64,
    /// Attempts after a first one that was refused.
    pub retries: u64,
    /// Requests sent more than [`LATE_NS`] late by a client that was idle when they became due.
    pub sent_late: u64,
    /// Durations above the histograms' range.
    pub over_range: u64,
    /// Failed attempts by failure.
    pub failures: BTreeMap<Failure, u64>,
}

impl Default for ClassInterval {
    fn default() -> Self {
        ClassInterval {
            response_time_ns: empty_histogram(),
            service_time_ns: empty_histogram(),
            send_lateness_ns: empty_histogram(),
            completed: 0,
            refused: 0,
            unknown: 0,
            retries: 0,
            sent_late: 0,
            over_range: 0,
            failures: BTreeMap::new(),
        }
    }
}

impl ClassInterval {
    /// Adds another interval's counts to this one's.
    pub fn add(&mut self, other: &ClassInterval) {
        self.response_time_ns += &other.response_time_ns;
        self.service_time_ns += &other.service_time_ns;
        self.send_lateness_ns += &other.send_lateness_ns;
        self.completed += other.completed;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.retries += other.retries;
        self.sent_late += other.sent_late;
        self.over_range += other.over_range;
        for (&failure, &count) in &other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
    }
}

/// Which part of a measurement an interval belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured interval: nothing of it is a result.
    Warmup,
    /// Part of the measured interval.
    Measured,
    /// After it: the last requests that were due in it are done.
    Tail,
}

/// A finished interval: one entry per request class.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its number, see [`Intervals`].
    pub number: usize,
    /// The part of the measurement it belongs to.
    pub phase: Phase,
    /// When it began.
    pub start: Ns,
    /// When it ended; for the tail, when it began.
    pub end: Ns,
    /// Counts by request class.
    pub classes: Vec<ClassInterval>,
}

/// Where worker threads hand over their counts. Locked once per thread and interval, never per request.
pub struct Recording {
    intervals: Intervals,
    /// For each request class, whether its requests have a schedule.
    schedules: Vec<bool>,
    state: Mutex<State>,
}

struct State {
    open: BTreeMap<usize, Interval>,
    /// The first interval that was not taken out yet.
    next: usize,
    /// Interval that each worker is in; past the tail once it has finished.
    positions: Vec<usize>,
}

impl Recording {
    /// For `workers` threads, and a class of requests for each of `schedules`, which says whether the class has one.
    /// With a schedule, send lateness is recorded too.
    pub fn new(timeline: Timeline, schedules: &[bool], workers: usize) -> Self {
        Recording {
            intervals: Intervals::of(timeline),
            schedules: schedules.to_vec(),
            state: Mutex::new(State {
                open: BTreeMap::new(),
                next: WARMUP,
                positions: vec![WARMUP; workers],
            }),
        }
    }

    /// The intervals' bounds.
    pub fn intervals(&self) -> &Intervals {
        &self.intervals
    }

    /// Takes out the intervals that every worker has left, in order, up to those that begin at `now`. An interval in
    /// which nothing was done is among them: that nothing was done is what it says.
    pub fn take_finished(&self, now: Ns) -> Vec<Interval> {
        let mut state = self.state();
        let reached = state.positions.iter().copied().min().unwrap_or(usize::MAX);
        let mut finished = Vec::new();
        let has_begun = |number: usize| self.intervals.starts[number] < now;
        while state.next < reached.min(self.intervals.tail()) && has_begun(state.next) {
            let number = state.next;
            state.next += 1;
            let interval = state.open.remove(&number);
            let interval = interval.unwrap_or_else(|| self.empty_interval(number));
            // A measurement without warm-up has none to show.
            if interval.start < interval.end {
                let end = interval.end.min(now);
                finished.push(Interval { end, ..interval });
            }
        }
        if reached > self.intervals.tail() {
            finished.extend(state.open.remove(&self.intervals.tail()));
        }
        finished
    }

    fn empty_interval(&self, number: usize) -> Interval {
        let start = self.intervals.starts[number];
        Interval {
            number,
            phase: self.intervals.phase_of(number),
            start,
            end: self.intervals.starts.get(number + 1).copied().unwrap_or(start),
            classes: vec![ClassInterval::default(); self.schedules.len()],
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts are complete after every statement, so a thread that panicked left nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn class(&mut self, recording: &Recording, number: usize, class: usize) -> &mut ClassInterval {
        let interval = self.open.entry(number).or_insert_with(|| recording.empty_interval(number));
        &mut interval.classes[class]
    }
}

/// One request class as its thread counts it within an interval.
#[derive(Default)]
struct ThreadCounts {
    has_schedule: bool,
    response: DurationCounts,
    service: DurationCounts,
    /// Lateness is a fact about the generator, for which two digits are enough.
    lateness: DurationCounts<TWO_DIGITS>,
    completed: u64,
    retries: u64,
    sent_late: u64,
}

/// The three times of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    /// When the schedule wanted it; for a closed loop, when it was sent.
    pub due: Ns,
    /// When it was handed to the engine.
    pub sent: Ns,
    /// When the engine had answered.
    pub done: Ns,
}

/// One worker thread's counts.
pub struct Recorder<'recording> {
    recording: &'recording Recording,
    worker: usize,
    interval: usize,
    interval_end: Ns,
    measure_start: Ns,
    classes: Vec<ThreadCounts>,
}

impl<'recording> Recorder<'recording> {
    /// For worker number `worker`.
    pub fn new(recording: &'recording Recording, worker: usize) -> Self {
        let counts_of =
            |&has_schedule: &bool| ThreadCounts { has_schedule, ..ThreadCounts::default() };
        Recorder {
            recording,
            worker,
            interval: WARMUP,
            interval_end: recording.intervals.end_of(WARMUP),
            measure_start: recording.intervals.end_of(WARMUP),
            classes: recording.schedules.iter().map(counts_of).collect(),
        }
    }

    /// Records an acknowledged request.
    #[inline]
    pub fn record(&mut self, class: u8, times: RequestTimes) {
        if times.done >= self.interval_end {
            self.roll(times.done);
        }
        if times.due < self.measure_start && self.interval != WARMUP {
            return self.record_straddler(class, times);
        }
        let counts = &mut self.classes[usize::from(class)];
        counts.completed += 1;
        counts.response.record(times.done - times.due);
        counts.service.record(times.done - times.sent);
        if counts.has_schedule {
            counts.lateness.record(times.sent - times.due);
        }
    }

    /// Notes that an idle client sent its request late.
    pub fn sent_late(&mut self, class: u8) {
        self.classes[usize::from(class)].sent_late += 1;
    }

    /// Notes an attempt that was not acknowledged.
    #[cold]
    pub fn failed_attempt(&mut self, class: u8, failure: Failure, done: Ns) {
        if done >= self.interval_end {
            self.roll(done);
        }
        self.in_shared(class, |shared| *shared.failures.entry(failure).or_default() += 1);
    }

    /// Notes that a refused request is tried again.
    #[cold]
    pub fn retried(&mut self, class: u8) {
        self.classes[usize::from(class)].retries += 1;
    }

    /// Notes a request that was given up after a refusal.
    #[cold]
    pub fn refused(&mut self, class: u8) {
        self.in_shared(class, |shared| shared.refused += 1);
    }

    /// Notes a request whose end nobody knows.
    #[cold]
    pub fn unknown(&mut self, class: u8) {
        self.in_shared(class, |shared| shared.unknown += 1);
    }

    /// Hands everything over; this worker has finished.
    pub fn finish(mut self) {
        self.hand_over(usize::MAX);
    }

    fn in_shared(&self, class: u8, note: impl FnOnce(&mut ClassInterval)) {
        let mut state = self.recording.state();
        note(state.class(self.recording, self.interval, usize::from(class)));
    }

    /// A request of the warm-up that was done later: its durations belong to the warm-up, its completion does not.
    #[cold]
    fn record_straddler(&mut self, class: u8, times: RequestTimes) {
        self.classes[usize::from(class)].completed += 1;
        let mut state = self.recording.state();
        let shared = state.class(self.recording, WARMUP, usize::from(class));
        shared.response_time_ns.saturating_record(times.done - times.due);
        shared.service_time_ns.saturating_record(times.done - times.sent);
        if self.recording.schedules[usize::from(class)] {
            shared.send_lateness_ns.saturating_record(times.sent - times.due);
        }
    }

    #[cold]
    fn roll(&mut self, done: Ns) {
        let intervals = &self.recording.intervals;
        let mut reached = self.interval + 1;
        while done >= intervals.end_of(reached) {
            reached += 1;
        }
        self.hand_over(reached);
        self.interval = reached;
        self.interval_end = self.recording.intervals.end_of(reached);
    }

    fn hand_over(&mut self, reached: usize) {
        let mut state = self.recording.state();
        for (class, counts) in self.classes.iter_mut().enumerate() {
            let shared = state.class(self.recording, self.interval, class);
            shared.over_range += counts.response.move_into(&mut shared.response_time_ns);
            shared.over_range += counts.service.move_into(&mut shared.service_time_ns);
            shared.over_range += counts.lateness.move_into(&mut shared.send_lateness_ns);
            shared.completed += std::mem::take(&mut counts.completed);
            shared.retries += std::mem::take(&mut counts.retries);
            shared.sent_late += std::mem::take(&mut counts.sent_late);
        }
        state.positions[self.worker] = reached;
    }
}
