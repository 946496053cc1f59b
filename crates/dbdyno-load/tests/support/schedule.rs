//! Measurements with a schedule, and what the schedule says by itself of how many requests are due.

use super::{Counting, Ending};
use dbdyno_load::arrival::{Arrival, ArrivalLaw, ArrivalPlan, Timeline};
use dbdyno_load::clock::{Ns, SECOND};
use dbdyno_load::driver::Driver;
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{
    Boundary, ClientId, Measured, Observer, RoleShape, Shape, Subject, Until, measure,
};
use dbdyno_load::recorder::{Interval, Phase};
use dbdyno_workload::rng::Seed;
use std::time::Duration;

const MS: Ns = 1_000_000;

/// Eight clients on one table; a closed loop has no rate.
pub fn shape(law: ArrivalLaw, rate_per_s: f64, measured_ns: Ns) -> Shape {
    let rates_per_s = if law == ArrivalLaw::Closed { vec![] } else { vec![rate_per_s] };
    Shape {
        roles: vec![RoleShape {
            clients: 8,
            arrival: ArrivalPlan { law, rates_per_s },
            classes: 0..1,
            seed: Seed(5),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 100 * MS,
        until: Until::Time,
        measured_ns,
        drain_limit_ns: 5 * SECOND,
        retries_max: u32::MAX,
    }
}

/// Two roles whose clients end after 500 requests each: three in a closed loop of class 0, two at 2,000/s of class 1.
/// Checks that the measurement ends with the last request, that nothing is left out, and that only requests that have
/// a schedule have a lateness.
pub fn check_streams_that_end<D: Driver>(driver: &D) {
    let limit_ns = 100 * SECOND;
    let role = |clients, classes, law, rates_per_s| RoleShape {
        clients,
        arrival: ArrivalPlan { law, rates_per_s },
        classes,
        seed: Seed(5),
    };
    let shape = Shape {
        roles: vec![
            role(3, 0..1, ArrivalLaw::Closed, vec![]),
            role(2, 1..2, ArrivalLaw::Uniform, vec![2_000.0]),
        ],
        warmup_ns: 0,
        until: Until::StreamsOver,
        ..shape(ArrivalLaw::Closed, 0.0, limit_ns)
    };
    let mut seen = ByClass::default();
    let stream =
        |id: ClientId| Ending { class: id.role as u8, left: 500, counting: Counting::default() };
    let measured = measure(driver, &shape, stream, &mut seen).expect("clients start");
    let Timeline { measure_start, end, .. } = measured.timeline;
    assert!(end - measure_start < limit_ns, "it ended by its limit and not with its streams");
    assert_eq!(measured.unsent, 0);
    assert_eq!(
        measured.streams.iter().map(|stream| stream.class).collect::<Vec<_>>(),
        [0, 0, 0, 1, 1]
    );
    assert!(measured.streams.iter().all(|stream| stream.counting.acknowledged == 500));
    assert_eq!(seen.completed, [1_500, 1_000]);
    assert_eq!(seen.late, [0, 1_000]);
    assert_eq!(seen.boundaries, [Boundary::MeasureStart, Boundary::MeasureEnd]);
    assert!(seen.measured_ns > 0 && seen.measured_ns <= end - measure_start);
}

/// What happened in the measured interval, of two classes.
#[derive(Default)]
struct ByClass {
    completed: [u64; 2],
    late: [u64; 2],
    measured_ns: Ns,
    boundaries: Vec<Boundary>,
}

impl Observer for ByClass {
    fn boundary(&mut self, boundary: Boundary, _: &[u32]) {
        self.boundaries.push(boundary);
    }

    fn interval(&mut self, interval: Interval) {
        if interval.phase == Phase::Measured {
            self.measured_ns += interval.end - interval.start;
        }
        for (number, class) in interval.classes.iter().enumerate() {
            self.completed[number] += class.completed;
            self.late[number] += class.send_lateness_ns.len();
        }
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
    let RoleShape { clients, arrival, seed, .. } = &shape.roles[0];
    (0..*clients)
        .map(|client| {
            let mut arrival = Arrival::new(arrival, timeline, client, *clients, *seed);
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
