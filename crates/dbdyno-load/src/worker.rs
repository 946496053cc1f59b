//! The request loop of one client with a thread of its own, for engines that run inside this process.
//!
//! Per request: one request made, one call into the engine, one clock read, one recording. No allocation, no lock, no
//! dynamic call. In a closed loop the clock read that ends a request also begins the next, so service time includes
//! the loop itself; the null driver tells how much that is.

use crate::arrival::Arrival;
use crate::clock::{self, Ns};
use crate::driver::Client;
use crate::outcome::{Failure, Outcome};
use crate::recorder::{LATE_NS, Recorder, RequestTimes};
use dbdyno_workload::{Request, RequestStream};

/// How soon a stream that waits for other clients is asked again.
pub const WAIT_NS: Ns = 200_000;

/// When to stop: nothing is due from `end` on, and what is still not sent or retried at `give_up` is left.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// When the first request may be sent.
    pub start: Ns,
    /// End of the measured interval.
    pub end: Ns,
    /// End of the time in which late requests are still sent.
    pub give_up: Ns,
    /// How often a request that was refused is tried again, where that can help.
    pub retries_max: u32,
}

/// What one client is to do: its requests and when they are due.
pub struct Lane<S> {
    /// Its requests, and its account of how they ended.
    pub stream: S,
    /// When they are due.
    pub arrival: Arrival,
}

/// What a worker leaves undone, and its own accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerEnd {
    /// Requests that were due before the end and never sent, because the client was too far behind.
    pub unsent: u64,
    /// The system's number for why the kernel would not serve connections any more, which ended the thread's work.
    pub queue_error: Option<i32>,
}

impl WorkerEnd {
    /// Two ends together.
    pub fn and(self, other: WorkerEnd) -> WorkerEnd {
        WorkerEnd {
            unsent: self.unsent + other.unsent,
            queue_error: self.queue_error.or(other.queue_error),
        }
    }
}

/// Runs one thread's clients one after another, for clients that block, of which a thread has one.
pub fn work_in_turn<C: Client, S: RequestStream>(
    clients: &mut [C],
    lanes: &mut [Lane<S>],
    recorder: &mut Recorder<'_>,
    limits: Limits,
) -> WorkerEnd {
    let ends = clients
        .iter_mut()
        .zip(lanes)
        .map(|(client, lane)| work(client, &mut lane.stream, &mut lane.arrival, recorder, limits));
    ends.fold(WorkerEnd::default(), WorkerEnd::and)
}

/// Runs one client until its schedule ends.
pub fn work<C: Client, S: RequestStream>(
    client: &mut C,
    stream: &mut S,
    arrival: &mut Arrival,
    recorder: &mut Recorder<'_>,
    limits: Limits,
) -> WorkerEnd {
    let mut now = clock::sleep_until(limits.start);
    loop {
        if stream.is_over() {
            return WorkerEnd::default();
        }
        if stream.is_waiting() {
            if now >= limits.end {
                let unsent = arrival.count_rest(now, limits.end);
                return WorkerEnd { unsent, ..WorkerEnd::default() };
            }
            now = clock::sleep_until(now + WAIT_NS);
            continue;
        }
        let due = arrival.next_due(now);
        if due >= limits.end {
            return WorkerEnd::default();
        }
        let request = stream.next();
        if due > now {
            now = clock::sleep_until(due);
            if now - due > LATE_NS {
                recorder.sent_late(request.class);
            }
        } else if now >= limits.give_up {
            let unsent = 1 + arrival.count_rest(now, limits.end);
            return WorkerEnd { unsent, ..WorkerEnd::default() };
        }
        let sent = now;
        let outcome = client.execute(&request);
        now = clock::now();
        if outcome == Outcome::Acknowledged {
            stream.acknowledged(&request);
            recorder.record(request.class, RequestTimes { due, sent, done: now });
        } else {
            let times = RequestTimes { due, sent, done: now };
            now = after_failure(client, stream, recorder, limits, &request, times, outcome);
        }
    }
}

/// Tries a refused request again while that can help, and notes how it ended. Returns the time then.
#[cold]
fn after_failure<C: Client, S: RequestStream>(
    client: &mut C,
    stream: &mut S,
    recorder: &mut Recorder<'_>,
    limits: Limits,
    request: &Request,
    mut times: RequestTimes,
    mut outcome: Outcome,
) -> Ns {
    for attempts_left in (0..=limits.retries_max).rev() {
        let retry = |failure: Failure| {
            attempts_left > 0 && failure.class.is_passing() && times.done < limits.give_up
        };
        match outcome {
            Outcome::Acknowledged => {
                stream.acknowledged(request);
                recorder.record(request.class, times);
                return times.done;
            }
            Outcome::Unknown(failure) => {
                stream.unknown(request);
                recorder.failed_attempt(request.class, failure, times.done);
                recorder.unknown(request.class);
                return times.done;
            }
            Outcome::Refused(failure) if retry(failure) => {
                recorder.failed_attempt(request.class, failure, times.done);
                recorder.retried(request.class);
            }
            Outcome::Refused(failure) => {
                stream.refused(request);
                recorder.failed_attempt(request.class, failure, times.done);
                recorder.refused(request.class);
                return times.done;
            }
        }
        outcome = client.execute(request);
        times.done = clock::now();
    }
    unreachable!("without attempts left a refusal is final")
}
