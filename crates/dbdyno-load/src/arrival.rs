//! When requests are due. Each client owns its due times; nothing is shared and nothing waits for another client.
//!
//! A schedule is made of pieces: the warm-up at the first rate, then the measured interval cut into equal parts, one
//! for each rate. Pieces start afresh, so that a rate of R over T seconds makes exactly R x T requests due, whatever
//! came before. Rates are totals over all clients of a role.

use crate::clock::{Ns, SECOND};
use dbdyno_workload::{Random, Seed};

/// The law by which requests become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalLaw {
    /// A client's next request is due when its last one is done: no schedule at all.
    Closed,
    /// Evenly spaced over all clients together.
    Uniform,
    /// Exponential gaps: independent users.
    Poisson,
    /// All of a second's requests at its start, back to back; a late second delays the next, nothing is caught up.
    /// This is what the insert benchmark's published client does.
    BurstEachSecond,
}

/// When a trial's requests may be due. Moments on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Warm-up begins.
    pub start: Ns,
    /// Warm-up ends and the measured interval begins.
    pub measure_start: Ns,
    /// The measured interval ends: nothing is due from here on.
    pub end: Ns,
}

/// What all clients of a role have in common: law and rates.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalPlan {
    /// The law.
    pub law: ArrivalLaw,
    /// Requests per second of all clients together, for equal parts of the measured interval. Empty for `Closed`.
    pub rates_per_s: Vec<f64>,
}

impl ArrivalPlan {
    /// One request after another, without a schedule.
    pub fn closed() -> Self {
        ArrivalPlan { law: ArrivalLaw::Closed, rates_per_s: Vec::new() }
    }
}

/// One stretch of time with one rate.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: Ns,
    end: Ns,
    rate_per_s: f64,
}

/// One client's due times.
pub struct Arrival {
    law: ArrivalLaw,
    client: u64,
    clients: u64,
    pieces: Vec<Piece>,
    piece: usize,
    /// Uniform: requests made due in this piece. Burst: this client's requests left in the current second.
    count: u64,
    /// Poisson: the last due time, as a real number of nanoseconds after the piece's start.
    elapsed_ns: f64,
    /// Burst: number of the current second within the piece.
    second: u64,
    /// Burst: when the current second's work became due.
    second_start: Ns,
    end: Ns,
    random: Random,
}

impl Arrival {
    /// The due times of `client` of `clients`. The same seed gives the same Poisson gaps.
    pub fn new(
        plan: &ArrivalPlan,
        timeline: Timeline,
        client: u32,
        clients: u32,
        seed: Seed,
    ) -> Self {
        let pieces = pieces_of(plan, timeline);
        let mut arrival = Arrival {
            law: plan.law,
            client: u64::from(client),
            clients: u64::from(clients.max(1)),
            piece: 0,
            count: 0,
            elapsed_ns: 0.0,
            second: 0,
            second_start: pieces.first().map_or(timeline.start, |piece| piece.start),
            pieces,
            end: timeline.end,
            random: Random::new(seed.derive("arrival", u64::from(client))),
        };
        if arrival.law == ArrivalLaw::BurstEachSecond {
            arrival.count = arrival.share_of_second();
        }
        arrival
    }

    /// Whether requests have a schedule, so that response time means more than service time.
    pub fn is_open(&self) -> bool {
        self.law != ArrivalLaw::Closed
    }

    /// When the next request is due, given that the last one was done at `done`; at or after the timeline's end there
    /// is none.
    #[inline]
    pub fn next_due(&mut self, done: Ns) -> Ns {
        match self.law {
            ArrivalLaw::Closed => done,
            ArrivalLaw::Uniform => self.next_uniform(),
            ArrivalLaw::Poisson => self.next_poisson(),
            ArrivalLaw::BurstEachSecond => self.next_burst(done),
        }
    }

    /// Takes out and counts what would still become due before `end`, for a client that gives up at `now`.
    pub fn count_rest(&mut self, now: Ns, end: Ns) -> u64 {
        std::iter::from_fn(|| Some(self.next_due(now)).filter(|&due| due < end)).count() as u64
    }

    fn next_uniform(&mut self) -> Ns {
        while let Some(piece) = self.pieces.get(self.piece) {
            let number = self.count * self.clients + self.client;
            // Each due time comes from its number, so that rounding never adds up; multiplied first and divided
            // once, a due time that is a whole number of nanoseconds is exact (up to 4 billion requests).
            let due = piece.start + (number as f64 * SECOND as f64 / piece.rate_per_s) as Ns;
            if due < piece.end {
                self.count += 1;
                return due;
            }
            self.piece += 1;
            self.count = 0;
        }
        self.end
    }

    fn next_poisson(&mut self) -> Ns {
        while let Some(piece) = self.pieces.get(self.piece) {
            let mean_gap_ns = SECOND as f64 * self.clients as f64 / piece.rate_per_s;
            self.elapsed_ns += self.random.exponential() * mean_gap_ns;
            let due = piece.start + self.elapsed_ns as Ns;
            if due < piece.end {
                return due;
            }
            // Exponential gaps have no memory: to draw anew from the next piece's start changes nothing.
            self.piece += 1;
            self.elapsed_ns = 0.0;
        }
        self.end
    }

    fn next_burst(&mut self, done: Ns) -> Ns {
        while let Some(piece) = self.pieces.get(self.piece).copied() {
            if self.second_start < piece.end {
                if self.count > 0 {
                    self.count -= 1;
                    return self.second_start;
                }
                self.second += 1;
                self.second_start = (self.second_start + SECOND).min(piece.end).max(done);
            }
            if self.second_start >= piece.end {
                self.piece += 1;
                self.second = 0;
            }
            self.count = self.share_of_second();
        }
        self.end
    }

    /// This client's part of the current second: of the requests numbered over all seconds and clients it takes
    /// every `clients`-th, so that parts add up to the rate exactly. A piece's last second may be a short one.
    fn share_of_second(&self) -> u64 {
        let Some(piece) = self.pieces.get(self.piece) else { return 0 };
        let piece_s = (piece.end - piece.start) as f64 / SECOND as f64;
        let up_to = |second: u64| (piece.rate_per_s * (second as f64).min(piece_s)) as u64;
        let of_client = |requests: u64| {
            (requests + self.clients - 1).saturating_sub(self.client) / self.clients
        };
        of_client(up_to(self.second + 1)) - of_client(up_to(self.second))
    }
}

fn pieces_of(plan: &ArrivalPlan, timeline: Timeline) -> Vec<Piece> {
    let Some(&first) = plan.rates_per_s.first() else { return Vec::new() };
    let mut pieces = Vec::with_capacity(plan.rates_per_s.len() + 1);
    if timeline.measure_start > timeline.start {
        pieces.push(Piece {
            start: timeline.start,
            end: timeline.measure_start,
            rate_per_s: first,
        });
    }
    let parts = plan.rates_per_s.len() as u64;
    let measured = timeline.end - timeline.measure_start;
    for (part, &rate_per_s) in (0..).zip(&plan.rates_per_s) {
        pieces.push(Piece {
            start: timeline.measure_start + measured * part / parts,
            end: timeline.measure_start + measured * (part + 1) / parts,
            rate_per_s,
        });
    }
    pieces
}

#[cfg(test)]
#[path = "arrival_tests.rs"]
mod tests;
