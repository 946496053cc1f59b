//! One measurement: connect all clients, start them together, watch the boundaries, drain, and hand back what counts.
//!
//! The caller's [`Observer`] is told each boundary on time, so that it can sample the host there; this crate reads no
//! `/proc` and writes no file. Start with [`measure`].

use crate::arrival::{Arrival, ArrivalLaw, ArrivalPlan, Timeline};
use crate::clock::{self, Ns};
use crate::driver::{Client, ClientCounters, Driver, DriverError};
use crate::recorder::{Interval, Recorder, Recording, WARMUP};
use crate::tables::SharedUse;
use crate::worker::{Lane, Limits, WorkerEnd};
use dbdyno_workload::{RequestStream, Seed};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Time between the moment all clients are ready and the first request, so that every thread is waiting by then.
const START_DELAY_NS: Ns = 5_000_000;
/// Stack of a worker thread. The loop itself needs little; the rest is room for an engine's library.
const STACK_BYTES: usize = 512 << 10;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Who sends requests.
    pub roles: Vec<RoleShape>,
    /// What requests are about.
    pub subject: Subject,
    /// Length of the warm-up.
    pub warmup_ns: Ns,
    /// What ends the measured interval.
    pub until: Until,
    /// Length of the measured interval; the longest that it may be, if something else is to end it.
    pub measured_ns: Ns,
    /// How long after the end requests that were due before it may still be sent or retried.
    pub drain_limit_ns: Ns,
    /// How often a request that was refused is tried again, where that can help.
    pub retries_max: u32,
}

/// What a connection is made for.
#[derive(Debug, Clone)]
pub enum Subject {
    /// So many tables of counters.
    Counters(u16),
    /// Tables of a schema.
    Schema(SharedUse),
}

impl Subject {
    fn connect<D: Driver>(&self, driver: &D) -> Result<D::Client, DriverError> {
        match self {
            Subject::Counters(tables) => driver.connect(*tables),
            Subject::Schema(using) => driver.connect_to(using),
        }
    }
}

/// Clients that do the same.
#[derive(Debug, Clone)]
pub struct RoleShape {
    /// Concurrent clients, each with one connection; [`Driver::threads`] says how many threads serve those of all roles.
    pub clients: u32,
    /// Arrival law and rates.
    pub arrival: ArrivalPlan,
    /// Classes of their requests. Each class belongs to one role.
    pub classes: Range<usize>,
    /// Seed of their arrivals.
    pub seed: Seed,
}

/// What ends a measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Its length is over.
    Time,
    /// No client has requests left: the last one has ended. See [`RequestStream::is_over`].
    StreamsOver,
}

impl Shape {
    /// Concurrent clients of all roles.
    pub fn clients(&self) -> u32 {
        self.roles.iter().map(|role| role.clients).sum()
    }

    /// For each class of requests, whether they have a schedule.
    fn schedules(&self) -> Vec<bool> {
        let classes = self.roles.iter().map(|role| role.classes.end).max().unwrap_or(0);
        let mut schedules = vec![false; classes];
        for role in &self.roles {
            schedules[role.classes.clone()].fill(role.arrival.law != ArrivalLaw::Closed);
        }
        schedules
    }
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
    /// Each client's request stream, with its ledger, role by role.
    pub streams: Vec<S>,
    /// What clients counted about their waiting, warm-up and tail included, added up.
    pub counters: ClientCounters,
    /// Requests that were due and never sent.
    pub unsent: u64,
}

/// One client among all: its role, and its number within the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId {
    /// Index into [`Shape::roles`].
    pub role: usize,
    /// Number within the role, from 0.
    pub client: u32,
}

/// What one worker thread returns.
struct ThreadEnd<S> {
    /// Its clients' streams.
    streams: Vec<(ClientId, S)>,
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
        let recording = Recording::new(timeline, &shape.schedules(), threads);
        Start { timeline, recording, observed: OnceLock::new() }
    }
}

/// One worker thread and the clients that it serves.
struct Thread<C, S> {
    number: usize,
    clients: Vec<C>,
    /// The clients' streams.
    streams: Vec<(ClientId, S)>,
}

/// What worker threads tell the one that watches them.
#[derive(Clone)]
struct Signals {
    /// A thread is ready to start: the kernel's number of it.
    ready: Sender<u32>,
    /// A thread's clients have no request left.
    finished: Sender<()>,
}

/// Says, when it is dropped, that a thread's clients have no request left: also if the thread panics, or nobody would
/// learn of it before the step's limit.
struct Finished<'s>(&'s Sender<()>);

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        // The one who watches may wait for time and not for this.
        let _ = self.0.send(());
    }
}

/// Runs one measurement. `stream_of` makes each client's request stream.
///
/// # Errors
/// The driver's, if a client cannot connect or start. Errors of requests are counted, not returned.
pub fn measure<D: Driver, S: RequestStream + Send>(
    driver: &D,
    shape: &Shape,
    stream_of: impl Fn(ClientId) -> S,
    observer: &mut dyn Observer,
) -> Result<Measured<S>, DriverError> {
    let threads = deal_out(driver, shape, stream_of)?;
    let number_of_threads = threads.len();
    let start = OnceLock::new();
    let (ready, all_ready) = mpsc::channel();
    let (finished, all_finished) = mpsc::channel();
    let signals = Signals { ready, finished };
    thread::scope(|scope| {
        let spawn = |thread: Thread<D::Client, S>| {
            let (signals, start) = (signals.clone(), &start);
            let name = format!("client-{}", thread.number);
            thread::Builder::new()
                .name(name.clone())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || run_thread(thread, shape, &signals, start))
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
        let mut finish = Finish { until: shape.until, all_finished, left: threads.len() };
        let end = watch(start, &threads, &mut finish, observer);
        let timeline = Timeline { end, ..timeline };
        // All of them, before an error is returned: a panic that nobody joins is one of the scope.
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        let ends = joined
            .into_iter()
            .map(|end| end.map_err(|_| DriverError::new("a client panicked")))
            .collect::<Result<Vec<_>, _>>()?;
        hand_over(start, end, observer);
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
    stream_of: impl Fn(ClientId) -> S,
) -> Result<Vec<Thread<D::Client, S>>, DriverError> {
    let clients = shape.clients();
    let number = driver.threads(clients).clamp(1, clients.max(1)) as usize;
    let empty = |number| Thread { number, clients: Vec::new(), streams: Vec::new() };
    let mut threads: Vec<Thread<D::Client, S>> = (0..number).map(empty).collect();
    let of_role = |(role, shape): (usize, &RoleShape)| {
        (0..shape.clients).map(move |client| ClientId { role, client })
    };
    for (place, id) in shape.roles.iter().enumerate().flat_map(of_role).enumerate() {
        let thread = &mut threads[place % number];
        thread.clients.push(shape.subject.connect(driver)?);
        thread.streams.push((id, stream_of(id)));
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
    signals: &Signals,
    start: &OnceLock<Start>,
) -> ThreadEnd<S> {
    clock::set_timer_slack();
    // Nobody listens any more only if the start failed; the schedule that follows is empty then.
    let _ = signals.ready.send(clock::thread_id());
    let Thread { number, mut clients, streams } = thread;
    let Start { timeline, recording, observed } = start.wait();
    let (ids, mut lanes): (Vec<ClientId>, Vec<Lane<S>>) = streams
        .into_iter()
        .map(|(id, stream)| {
            let RoleShape { clients, arrival, seed, .. } = &shape.roles[id.role];
            let arrival = Arrival::new(arrival, *timeline, id.client, *clients, *seed);
            (id, Lane { stream, arrival })
        })
        .unzip();
    let mut recorder = Recorder::new(recording, number);
    let limits = Limits {
        start: timeline.start,
        end: timeline.end,
        give_up: timeline.end + shape.drain_limit_ns,
        retries_max: shape.retries_max,
    };
    let finished = Finished(&signals.finished);
    let end = C::run(&mut clients, &mut lanes, &mut recorder, limits);
    recorder.finish();
    drop(finished);
    observed.wait();
    let counters = clients.iter().map(Client::counters);
    let counters = counters.fold(ClientCounters::default(), ClientCounters::and);
    let streams = ids.into_iter().zip(lanes.into_iter().map(|lane| lane.stream)).collect();
    ThreadEnd { streams, counters, end }
}

/// How it is known that a measured interval is over.
struct Finish {
    until: Until,
    all_finished: Receiver<()>,
    /// Threads whose clients still have requests.
    left: usize,
}

impl Finish {
    /// Waits until a moment; returns whether what ends the interval has come before.
    fn comes_before(&mut self, moment: Ns) -> bool {
        if self.until == Until::Time {
            clock::sleep_until(moment);
            return false;
        }
        while self.left > 0 {
            let wait = Duration::from_nanos(moment.saturating_sub(clock::now()));
            match self.all_finished.recv_timeout(wait) {
                Ok(()) => self.left -= 1,
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => self.left = 0,
            }
        }
        true
    }
}

/// Tells the observer the boundaries when they come, and hands it each second what is complete. Returns when the
/// measured interval ended.
fn watch(start: &Start, threads: &[u32], finish: &mut Finish, observer: &mut dyn Observer) -> Ns {
    clock::set_timer_slack();
    clock::sleep_until(start.timeline.measure_start);
    observer.boundary(Boundary::MeasureStart, threads);
    let intervals = start.recording.intervals();
    for interval in WARMUP + 1..intervals.tail() {
        let end = intervals.end_of(interval);
        let has_come = finish.comes_before(end);
        if has_come || interval + 1 == intervals.tail() {
            let end = if has_come { clock::now().min(end) } else { end };
            observer.boundary(Boundary::MeasureEnd, threads);
            start.observed.get_or_init(|| ());
            hand_over(start, end, observer);
            return end;
        }
        hand_over(start, end, observer);
    }
    // An interval without length, which is what those get who could not be started.
    start.observed.get_or_init(|| ());
    start.timeline.end
}

/// Hands over what is complete of a measurement that has come to `now`, or ended then.
fn hand_over(start: &Start, now: Ns, observer: &mut dyn Observer) {
    for interval in start.recording.take_finished(now) {
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
    streams.sort_by_key(|&(id, _)| id);
    let streams = streams.into_iter().map(|(_, stream)| stream).collect();
    Measured { timeline, drained, streams, counters, unsent: end.unsent }
}
