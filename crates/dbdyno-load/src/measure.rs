//! One measurement: connect all clients, start them together, watch the boundaries, drain, and hand back what counts.
//!
//! The caller's [`Observer`] is told each boundary on time, so that it can sample the host there; this crate reads no
//! `/proc` and writes no file. Start with [`measure`].

use crate::arrival::{Arrival, ArrivalLaw, ArrivalPlan, Timeline};
use crate::clock::{self, Ns};
use crate::driver::{Client, ClientCounters, Driver, DriverError};
use crate::recorder::{Interval, Recorder, Recording, WARMUP};
use crate::worker::{Lane, Limits, WorkerEnd};
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
    /// Concurrent clients, each with one connection; [`Driver::threads`] says how many threads serve them.
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
    /// How often a request that was refused is tried again, where that can help.
    pub retries_max: u32,
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

/// What one worker thread returns.
struct ThreadEnd<S> {
    /// Its clients' streams, with their numbers.
    streams: Vec<(u32, S)>,
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
    fn new(timeline: Timeline, shape: &Shape, threads: usize) -> Self {
        let recording = Recording::new(timeline, shape.classes, threads);
        Start { timeline, recording, observed: OnceLock::new() }
    }
}

/// One worker thread and the clients that it serves.
struct Thread<C, S> {
    number: usize,
    clients: Vec<C>,
    /// The clients' numbers and streams.
    streams: Vec<(u32, S)>,
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
    let threads = deal_out(driver, shape, stream_of)?;
    let number_of_threads = threads.len();
    let start = OnceLock::new();
    let (ready, all_ready) = mpsc::channel();
    thread::scope(|scope| {
        let spawn = |thread: Thread<D::Client, S>| {
            let (ready, start) = (ready.clone(), &start);
            let name = format!("client-{}", thread.number);
            thread::Builder::new()
                .name(name.clone())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || run_thread(thread, shape, &ready, start))
                .map_err(|error| DriverError::new(format!("start the thread {name}: {error}")))
        };
        let workers = match threads.into_iter().map(spawn).collect::<Result<Vec<_>, _>>() {
            Ok(workers) => workers,
            Err(error) => {
                // Those that did start are waiting; a schedule without length lets them go.
                let nothing =
                    start.get_or_init(|| Start::new(Timeline::default(), shape, number_of_threads));
                nothing.observed.get_or_init(|| ());
                return Err(error);
            }
        };
        let threads: Vec<u32> = all_ready.iter().take(workers.len()).collect();
        let timeline = timeline_from(clock::now() + START_DELAY_NS, shape);
        let start = start.get_or_init(|| Start::new(timeline, shape, number_of_threads));
        watch(start, &threads, observer);
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| DriverError::new("a client panicked")))
            .collect::<Result<Vec<_>, _>>()?;
        hand_over(start, observer);
        if let Some(error) = ends.iter().find_map(|thread| thread.end.queue_error) {
            let error = std::io::Error::from_raw_os_error(error);
            return Err(DriverError::new(format!(
                "the kernel's event queue of clients failed: {error}"
            )));
        }
        Ok(gather(timeline, ends))
    })
}

/// Connects every client, before any of them starts, and deals them out to threads in turn.
fn deal_out<D: Driver, S>(
    driver: &D,
    shape: &Shape,
    stream_of: impl Fn(u32) -> S,
) -> Result<Vec<Thread<D::Client, S>>, DriverError> {
    let number = driver.threads(shape.clients).clamp(1, shape.clients.max(1)) as usize;
    let empty = |number| Thread { number, clients: Vec::new(), streams: Vec::new() };
    let mut threads: Vec<Thread<D::Client, S>> = (0..number).map(empty).collect();
    for client in 0..shape.clients {
        let thread = &mut threads[client as usize % number];
        thread.clients.push(driver.connect(shape.tables)?);
        thread.streams.push((client, stream_of(client)));
    }
    Ok(threads)
}

fn timeline_from(start: Ns, shape: &Shape) -> Timeline {
    let measure_start = start + shape.warmup_ns;
    Timeline { start, measure_start, end: measure_start + shape.measured_ns }
}

/// One worker thread, from waiting for the start to the end of its clients' schedules.
fn run_thread<C: Client, S: RequestStream>(
    thread: Thread<C, S>,
    shape: &Shape,
    ready: &Sender<u32>,
    start: &OnceLock<Start>,
) -> ThreadEnd<S> {
    clock::set_timer_slack();
    // Nobody listens any more only if the start failed; the schedule that follows is empty then.
    let _ = ready.send(clock::thread_id());
    let Thread { number, mut clients, streams } = thread;
    let Start { timeline, recording, observed } = start.wait();
    let (numbers, mut lanes): (Vec<u32>, Vec<Lane<S>>) = streams
        .into_iter()
        .map(|(client, stream)| {
            let arrival =
                Arrival::new(&shape.arrival, *timeline, client, shape.clients, shape.seed);
            (client, Lane { stream, arrival })
        })
        .unzip();
    let has_schedule = shape.arrival.law != ArrivalLaw::Closed;
    let mut recorder = Recorder::new(recording, number, has_schedule);
    let limits = Limits {
        start: timeline.start,
        end: timeline.end,
        give_up: timeline.end + shape.drain_limit_ns,
        retries_max: shape.retries_max,
    };
    let end = C::run(&mut clients, &mut lanes, &mut recorder, limits);
    recorder.finish();
    observed.wait();
    let counters = clients.iter().map(Client::counters);
    let counters = counters.fold(ClientCounters::default(), ClientCounters::and);
    let streams = numbers.into_iter().zip(lanes.into_iter().map(|lane| lane.stream)).collect();
    ThreadEnd { streams, counters, end }
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

fn gather<S>(timeline: Timeline, ends: Vec<ThreadEnd<S>>) -> Measured<S> {
    let drained = clock::now();
    let (mut counters, mut end) = (ClientCounters::default(), WorkerEnd::default());
    let mut streams = Vec::new();
    for thread in ends {
        counters = counters.and(thread.counters);
        end = end.and(thread.end);
        streams.extend(thread.streams);
    }
    streams.sort_by_key(|&(client, _)| client);
    let streams = streams.into_iter().map(|(_, stream)| stream).collect();
    Measured { timeline, drained, streams, counters, unsent: end.unsent }
}
