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

/// When to stop: nothing is due from `end` on, and what is still not sent or retried at `give_up` is left.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// End of the measured interval.
    pub end: Ns,
    /// End of the time in which late requests are still sent.
    pub give_up: Ns,
}

/// What a worker leaves undone, and its own accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerEnd {
    /// Requests that were due before the end and never sent, because the client was too far behind.
    pub unsent: u64,
}

/// Runs one client until its schedule ends.
pub fn work<C: Client, S: RequestStream>(
    client: &mut C,
    stream: &mut S,
    arrival: &mut Arrival,
    recorder: &mut Recorder<'_>,
    limits: Limits,
) -> WorkerEnd {
    let mut now = clock::now();
    loop {
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
            return WorkerEnd { unsent: 1 + count_rest(arrival, now, limits.end) };
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

fn count_rest(arrival: &mut Arrival, now: Ns, end: Ns) -> u64 {
    std::iter::from_fn(|| Some(arrival.next_due(now)).filter(|&due| due < end)).count() as u64
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
    loop {
        let retry = |failure: Failure| failure.class.is_passing() && times.done < limits.give_up;
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
                recorder.failed_attempt(request.class, failure, times.done);
                recorder.refused(request.class);
                return times.done;
            }
        }
        outcome = client.execute(request);
        times.done = clock::now();
    }
}
