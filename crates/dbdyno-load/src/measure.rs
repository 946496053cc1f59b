//! One measurement: connect all clients, start them together, watch the boundaries, drain, and hand back what counts.
//!
//! The caller's [`Observer`] is told each boundary on time, so that it can sample the host there; this crate reads no
//! `/proc` and writes no file. Start with [`measure`].

use crate::arrival::{Arrival, ArrivalPlan, Timeline};
use crate::clock::{self, Ns};
use crate::driver::{Client, ClientCounters, Driver, DriverError};
use crate::recorder::{Interval, Recorder, Recording, WARMUP};
use crate::worker::{Limits, WorkerEnd, work};
use dbdyno_workload::{RequestStream, Seed};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Time between the moment all clients are ready and the first request, so that every thread is waiting by then.
const START_DELAY_NS: Ns = 5_000_000;
/// Stack of a worker thread. The loop itself needs little; the rest is room for an engine's library.
const STACK_BYTES: usize = 512 << 10;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Concurrent clients, each with one connection and, for engines in this process, one thread.
    pub clients: u32,
    /// Tables that requests go to.
    pub tables: u16,
    /// Number of request classes.
    pub classes: usize,
    /// Arrival law and rates.
    pub arrival: ArrivalPlan,
    /// Length of the warm-up.
    pub warmup_ns: Ns,
    /// Length of the measured interval.
    pub measured_ns: Ns,
    /// How long after the end requests that were due before it may still be sent or retried.
    pub drain_limit_ns: Ns,
    /// Seed of the arrivals.
    pub seed: Seed,
}

/// A boundary of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The measured interval begins.
    MeasureStart,
    /// The measured interval ends; clients may still be draining.
    MeasureEnd,
}

/// Who wants to know, while it happens. Called from the thread that called [`measure`].
pub trait Observer {
    /// A boundary has just come; `threads` are the kernel's numbers of the worker threads.
    fn boundary(&mut self, boundary: Boundary, threads: &[u32]);

    /// An interval is complete: every client has left it. Intervals come in order.
    fn interval(&mut self, interval: Interval);
}

/// What a measurement leaves, beside the intervals that the observer was given.
#[derive(Debug)]
pub struct Measured<S> {
    /// When it happened.
    pub timeline: Timeline,
    /// When the last client had finished.
    pub drained: Ns,
    /// Each client's request stream, with its ledger.
    pub streams: Vec<S>,
    /// What clients counted about their waiting, warm-up and tail included, added up.
    pub counters: ClientCounters,
    /// Requests that were due and never sent.
    pub unsent: u64,
}

/// What one client's thread returns.
struct ClientEnd<S> {
    stream: S,
    counters: ClientCounters,
    end: WorkerEnd,
}

/// What clients wait for: set once, when all are ready.
struct Start {
    timeline: Timeline,
    recording: Recording,
    /// Set once the end was observed: until then no client's thread or connection may go away, because it is counted.
    observed: OnceLock<()>,
}

impl Start {
    fn new(timeline: Timeline, shape: &Shape) -> Self {
        let recording = Recording::new(timeline, shape.classes, shape.clients as usize);
        Start { timeline, recording, observed: OnceLock::new() }
    }
}

/// Runs one measurement. `stream_of` makes each client's request stream.
///
/// # Errors
/// The driver's, if a client cannot connect or start. Errors of requests are counted, not returned.
pub fn measure<D: Driver, S: RequestStream + Send>(
    driver: &D,
    shape: &Shape,
    stream_of: impl Fn(u32) -> S,
    observer: &mut dyn Observer,
) -> Result<Measured<S>, DriverError> {
    let clients =
        (0..shape.clients).map(|_| driver.connect(shape.tables)).collect::<Result<Vec<_>, _>>()?;
    let start = OnceLock::new();
    let (ready, all_ready) = mpsc::channel();
    thread::scope(|scope| {
        let spawn = |(number, client)| {
            let (stream, ready, start) = (stream_of(number), ready.clone(), &start);
            thread::Builder::new()
                .name(format!("client-{number}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || {
                    run_client(number, client, stream, shape, &ready, start)
                })
                .map_err(|error| DriverError::new(format!("start client {number}: {error}")))
        };
        let workers = match (0..).zip(clients).map(spawn).collect::<Result<Vec<_>, _>>() {
            Ok(workers) => workers,
            Err(error) => {
                // Those that did start are waiting; a schedule without length lets them go.
                let start = start.get_or_init(|| Start::new(Timeline::default(), shape));
                start.observed.get_or_init(|| ());
                return Err(error);
            }
        };
        let threads: Vec<u32> = all_ready.iter().take(workers.len()).collect();
        let timeline = timeline_from(clock::now() + START_DELAY_NS, shape);
        let start = start.get_or_init(|| Start::new(timeline, shape));
        watch(start, &threads, observer);
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| DriverError::new("a client panicked")))
            .collect::<Result<Vec<_>, _>>()?;
        hand_over(start, observer);
        Ok(gather(timeline, ends))
    })
}

fn timeline_from(start: Ns, shape: &Shape) -> Timeline {
    let measure_start = start + shape.warmup_ns;
    Timeline { start, measure_start, end: measure_start + shape.measured_ns }
}

/// One client's thread, from waiting for the start to the end of its schedule.
fn run_client<C: Client, S: RequestStream>(
    number: u32,
    mut client: C,
    mut stream: S,
    shape: &Shape,
    ready: &Sender<u32>,
    start: &OnceLock<Start>,
) -> ClientEnd<S> {
    clock::set_timer_slack();
    // Nobody listens any more only if the start failed; the schedule that follows is empty then.
    let _ = ready.send(clock::thread_id());
    let Start { timeline, recording, observed } = start.wait();
    let mut arrival = Arrival::new(&shape.arrival, *timeline, number, shape.clients, shape.seed);
    let mut recorder = Recorder::new(recording, number as usize, arrival.is_open());
    let limits = Limits { end: timeline.end, give_up: timeline.end + shape.drain_limit_ns };
    clock::sleep_until(timeline.start);
    let end = work(&mut client, &mut stream, &mut arrival, &mut recorder, limits);
    recorder.finish();
    observed.wait();
    ClientEnd { stream, counters: client.counters(), end }
}

/// Tells the observer the boundaries when they come, and hands it each second what is complete.
fn watch(start: &Start, threads: &[u32], observer: &mut dyn Observer) {
    clock::set_timer_slack();
    clock::sleep_until(start.timeline.measure_start);
    observer.boundary(Boundary::MeasureStart, threads);
    let intervals = start.recording.intervals();
    for interval in WARMUP + 1..intervals.tail() {
        clock::sleep_until(intervals.end_of(interval));
        if interval + 1 == intervals.tail() {
            observer.boundary(Boundary::MeasureEnd, threads);
            start.observed.get_or_init(|| ());
        }
        hand_over(start, observer);
    }
}

fn hand_over(start: &Start, observer: &mut dyn Observer) {
    for interval in start.recording.take_finished() {
        observer.interval(interval);
    }
}

fn gather<S>(timeline: Timeline, ends: Vec<ClientEnd<S>>) -> Measured<S> {
    let mut measured = Measured {
        timeline,
        drained: clock::now(),
        streams: Vec::with_capacity(ends.len()),
        counters: ClientCounters::default(),
        unsent: 0,
    };
    for client in ends {
        measured.counters.busy_waits += client.counters.busy_waits;
        measured.counters.busy_sleep_ns += client.counters.busy_sleep_ns;
        measured.unsent += client.end.unsent;
        measured.streams.push(client.stream);
    }
    measured
}
