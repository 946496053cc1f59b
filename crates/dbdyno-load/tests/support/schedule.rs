//! Measurements with a schedule, and what the schedule says by itself of how many requests are due.

use super::Counting;
use dbdyno_load::arrival::{Arrival, ArrivalLaw, ArrivalPlan, Timeline};
use dbdyno_load::clock::{Ns, SECOND};
use dbdyno_load::driver::Driver;
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{Measured, Shape, measure};
use dbdyno_workload::rng::Seed;
use std::time::Duration;

const MS: Ns = 1_000_000;

/// Eight clients on one table; a closed loop has no rate.
pub fn shape(law: ArrivalLaw, rate_per_s: f64, measured_ns: Ns) -> Shape {
    let rates_per_s = if law == ArrivalLaw::Closed { vec![] } else { vec![rate_per_s] };
    Shape {
        clients: 8,
        tables: 1,
        classes: 1,
        arrival: ArrivalPlan { law, rates_per_s },
        warmup_ns: 100 * MS,
        measured_ns,
        drain_limit_ns: 5 * SECOND,
        retries_max: u32::MAX,
        seed: Seed(5),
    }
}

/// Measures increments of one row.
pub fn run<D: Driver>(driver: &D, shape: &Shape) -> (Measured<Counting>, Totals) {
    let mut totals = Totals::default();
    let measured = measure(driver, shape, |_| Counting::default(), &mut totals);
    (measured.expect("clients start"), totals)
}

/// Requests that the schedule makes due in the measured interval, worked out without running anything.
pub fn due_by_schedule(shape: &Shape, timeline: Timeline) -> u64 {
    (0..shape.clients)
        .map(|client| {
            let mut arrival =
                Arrival::new(&shape.arrival, timeline, client, shape.clients, shape.seed);
            let due_times = std::iter::from_fn(|| Some(arrival.next_due(0)));
            let due_times = due_times.take_while(|&due| due < timeline.end);
            due_times.filter(|&due| due >= timeline.measure_start).count() as u64
        })
        .sum()
}

/// Runs 500 requests a second for some seconds while something is done to the server after one second. Returns what the
/// schedule made due, too.
pub fn run_while<D: Driver>(
    driver: &D,
    measured_ns: Ns,
    act: impl FnOnce() + Send,
) -> (Measured<Counting>, Totals, u64) {
    let shape = Shape { drain_limit_ns: SECOND, ..shape(ArrivalLaw::Uniform, 500.0, measured_ns) };
    let (measured, totals) = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1_100));
            act();
        });
        run(driver, &shape)
    });
    let due = due_by_schedule(&shape, measured.timeline);
    (measured, totals, due)
}
