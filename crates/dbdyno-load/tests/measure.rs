//! A whole measurement: everything that was due is done and counted once, stalls show where they belong, failures end
//! as they should, and a thousand clients fit in little memory.

mod support;

use dbdyno_load::arrival::{Arrival, ArrivalLaw, ArrivalPlan, Timeline};
use dbdyno_load::clock::{self, Ns, SECOND};
use dbdyno_load::driver::{Driver, null::Null};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{
    Boundary, Measured, Observer, RoleShape, Shape, Subject, Until, measure,
};
use dbdyno_load::outcome::{Failure, FailureClass, Outcome};
use dbdyno_load::recorder::{Interval, Phase};
use dbdyno_workload::rng::Seed;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use support::schedule::check_streams_that_end;
use support::{Counting, Double};

const MS: Ns = 1_000_000;

fn shape(law: ArrivalLaw, rates_per_s: &[f64], clients: u32, measured_ns: Ns) -> Shape {
    Shape {
        roles: vec![RoleShape {
            clients,
            arrival: ArrivalPlan { law, rates_per_s: rates_per_s.to_vec() },
            classes: 0..1,
            seed: Seed(11),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 200 * MS,
        until: Until::Time,
        measured_ns,
        drain_limit_ns: 5 * SECOND,
        retries_max: u32::MAX,
    }
}

fn run<D: Driver>(driver: &D, shape: &Shape) -> (Measured<Counting>, Totals) {
    let mut totals = Totals::default();
    let measured = measure(driver, shape, |_| Counting::default(), &mut totals);
    (measured.expect("clients start"), totals)
}

/// Requests that the schedule makes due in the measured interval, worked out without running anything.
fn due_by_schedule(shape: &Shape, timeline: Timeline) -> u64 {
    let RoleShape { clients, arrival, seed, .. } = &shape.roles[0];
    (0..*clients)
        .map(|client| {
            let mut arrival = Arrival::new(arrival, timeline, client, *clients, *seed);
            let mut due_times = std::iter::from_fn(|| Some(arrival.next_due(0)));
            let due_times = due_times.by_ref().take_while(|&due| due < timeline.end);
            due_times.filter(|&due| due >= timeline.measure_start).count() as u64
        })
        .sum()
}

/// At 500, 5,000 and 50,000 requests a second and every law, completed equals due, exactly, over 10 s.
#[test]
fn everything_due_is_completed() {
    let laws = [ArrivalLaw::Uniform, ArrivalLaw::Poisson, ArrivalLaw::BurstEachSecond];
    std::thread::scope(|scope| {
        for law in laws {
            for rate in [500.0, 5_000.0, 50_000.0] {
                scope.spawn(move || {
                    let shape = shape(law, &[rate], 8, 10 * SECOND);
                    let (measured, totals) = run(&Null, &shape);
                    let due = due_by_schedule(&shape, measured.timeline);
                    let recorded = totals.due_in_measured.response_time_ns.len();
                    assert_eq!(recorded, due, "{law:?} at {rate}/s");
                    assert_eq!(totals.due_in_measured.service_time_ns.len(), due);
                    assert_eq!(totals.due_in_measured.send_lateness_ns.len(), due);
                    assert_eq!(measured.unsent, 0);
                    if law != ArrivalLaw::Poisson {
                        assert_eq!(due as f64, rate * 10.0, "{law:?} at {rate}/s");
                    }
                    let all: u64 = measured.streams.iter().map(|stream| stream.acknowledged).sum();
                    let made: u64 = measured.streams.iter().map(|stream| stream.made).sum();
                    assert_eq!(made, all, "no request is made that is not due");
                });
            }
        }
    });
}

/// All 8 clients stall together for 2 s of 10 s at 500/s: response time shows what users would have felt, service time
/// only the 8 requests that were inside the engine.
#[test]
fn a_stall_shows_in_response_time() {
    static FIRST: OnceLock<Ns> = OnceLock::new();
    let stalling = Double(|_: &_| {
        let now = clock::now();
        let stall = FIRST.get_or_init(|| now) + 3 * SECOND;
        if (stall..stall + 2 * SECOND).contains(&now) {
            clock::sleep_until(stall + 2 * SECOND);
        }
        Outcome::Acknowledged
    });
    let (_, totals) = run(&stalling, &shape(ArrivalLaw::Uniform, &[500.0], 8, 10 * SECOND));
    let (response, service) =
        (&totals.due_in_measured.response_time_ns, &totals.due_in_measured.service_time_ns);
    assert_eq!(response.len(), 5_000);
    let near = |what: &str, found_ns: f64, expected_s: f64| {
        let found_s = found_ns / 1e9;
        assert!(
            (found_s - expected_s).abs() <= expected_s / 10.0,
            "{what} of response time is {found_s:.3} s, expected {expected_s} s within 10 %"
        );
    };
    near("mean", response.mean(), 0.2);
    near("95th percentile", response.value_at_quantile(0.95) as f64, 1.5);
    near("99th percentile", response.value_at_quantile(0.99) as f64, 1.9);
    let stalled = service.count_between(100 * MS, 10 * SECOND);
    assert_eq!(stalled, 8, "requests with a long service time");
}

/// Seconds in which nothing was done are reported like any other, with nothing in them.
#[test]
fn stalled_seconds_are_reported() {
    #[derive(Default)]
    struct Seconds(Vec<(usize, u64)>);
    impl Observer for Seconds {
        fn boundary(&mut self, _: Boundary, _: &[u32]) {}

        fn interval(&mut self, interval: Interval) {
            if interval.phase == Phase::Measured {
                self.0.push((interval.number, interval.classes[0].completed));
            }
        }
    }
    static FIRST: OnceLock<Ns> = OnceLock::new();
    let stalling = Double(|_: &_| {
        let now = clock::now();
        let stall = FIRST.get_or_init(|| now) + SECOND / 2;
        if (stall..stall + 3 * SECOND).contains(&now) {
            clock::sleep_until(stall + 3 * SECOND);
        }
        Outcome::Acknowledged
    });
    let shape = Shape { warmup_ns: 0, ..shape(ArrivalLaw::Closed, &[], 2, 5 * SECOND) };
    let mut seconds = Seconds::default();
    measure(&stalling, &shape, |_| Counting::default(), &mut seconds).expect("clients start");
    let numbers: Vec<usize> = seconds.0.iter().map(|&(number, _)| number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let completed: Vec<bool> = seconds.0.iter().map(|&(_, completed)| completed > 0).collect();
    assert_eq!(completed, [true, false, false, true, true]);
}

/// What has so many requests and no more ends with the last of them.
#[test]
fn streams_end() {
    check_streams_that_end(&Null);
}

/// A client that panics ends a measurement that its requests were to end, and is its error.
#[test]
fn a_panic_does_not_wait_for_the_limit() {
    let panicking = Double(|_: &_| -> Outcome { panic!("a mistake in a driver") });
    let shape = shape(ArrivalLaw::Closed, &[], 2, 100_000 * SECOND);
    let shape = Shape { warmup_ns: 0, until: Until::StreamsOver, ..shape };
    let measured = measure(&panicking, &shape, |_| Counting::default(), &mut Totals::default());
    let error = measured.map(|_| ()).expect_err("no client is left").to_string();
    assert_eq!(error, "a client panicked");
}

/// Refusals that can pass are tried again, others are given up, unknown ends are never tried again.
#[test]
fn failures_end_as_they_should() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let failure = |class| Failure { class, code: 5 };
    let failing = Double(move |_: &_| match CALLS.fetch_add(1, Ordering::Relaxed) % 10 {
        1 | 2 => Outcome::Refused(failure(FailureClass::LockTimeout)),
        5 => Outcome::Refused(failure(FailureClass::NoSuchRow)),
        7 => Outcome::Unknown(failure(FailureClass::Other)),
        _ => Outcome::Acknowledged,
    });
    let mut shape = shape(ArrivalLaw::Uniform, &[1_000.0], 1, SECOND);
    shape.warmup_ns = 0;
    let (measured, totals) = run(&failing, &shape);
    let counts = totals.due_in_measured;
    let stream = &measured.streams[0];
    // Of each 8 requests in 10 calls one is given up, one unknown, one needs three calls.
    assert_eq!(counts.refused + counts.unknown + stream.acknowledged, 1_000);
    assert_eq!((counts.refused, counts.unknown, counts.retries), (125, 125, 250));
    assert_eq!(counts.response_time_ns.len(), 750);
    assert_eq!(stream.unknown, 125);
    let of = |class| counts.failures[&failure(class)];
    assert_eq!(of(FailureClass::LockTimeout), 250);
    assert_eq!(of(FailureClass::NoSuchRow), 125);
    assert_eq!(of(FailureClass::Other), 125);
}

/// A client that is too far behind gives up after the drain limit and says how much it never sent.
#[test]
fn a_backlog_is_counted() {
    let slow = Double(|_: &_| {
        clock::sleep_until(clock::now() + 100 * MS);
        Outcome::Acknowledged
    });
    let mut shape = shape(ArrivalLaw::Uniform, &[1_000.0], 2, SECOND);
    shape.warmup_ns = 0;
    shape.drain_limit_ns = 500 * MS;
    let (measured, totals) = run(&slow, &shape);
    let sent = totals.due_in_measured.response_time_ns.len();
    assert_eq!(sent + measured.unsent, 1_000);
    assert!((20..=40).contains(&sent), "{sent} requests of 100 ms in 1.5 s by two clients");
    assert!(totals.completed < sent, "what was done after the end is not throughput");
}

/// A closed loop counts each request once: those due before the end are all done.
#[test]
fn a_closed_loop_counts_each_request_once() {
    let (measured, totals) = run(&Null, &shape(ArrivalLaw::Closed, &[], 2, 1_500 * MS));
    let counts = totals.due_in_measured;
    assert_eq!(counts.response_time_ns.len(), counts.service_time_ns.len());
    assert_eq!(counts.send_lateness_ns.len(), 0, "a closed loop has no schedule to be late for");
    let all: u64 = measured.streams.iter().map(|stream| stream.acknowledged).sum();
    assert!(totals.completed > 0 && totals.completed < all, "the warm-up is kept apart");
    let difference = totals.completed.abs_diff(counts.response_time_ns.len());
    assert!(difference <= 2, "at most one request of each client straddles a boundary");
}

/// 1,024 clients, each with a thread of its own, record within 64 MB. Times that a busy host spreads over more powers of
/// two touch a page more each, so the least of three attempts counts.
#[test]
fn a_thousand_clients_fit_in_64_mb() {
    let resident_bytes = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: u64 = statm.split(' ').nth(1).expect("a second field").parse().expect("pages");
        pages * 4096
    };
    struct Peak(u64);
    impl dbdyno_load::measure::Observer for Peak {
        fn boundary(&mut self, _: dbdyno_load::measure::Boundary, _: &[u32]) {}
        fn interval(&mut self, _: dbdyno_load::recorder::Interval) {
            let statm = std::fs::read_to_string("/proc/self/status").expect("Linux");
            let line = statm.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
            let kb: u64 = line.split_whitespace().nth(1).expect("kB").parse().expect("kB");
            self.0 = kb * 1024;
        }
    }
    let shape = shape(ArrivalLaw::Uniform, &[20_000.0], 1_024, 2 * SECOND);
    let attempt = |_| {
        // Sets the peak back to what is resident now; see proc(5).
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux 4.0");
        let before = resident_bytes();
        let mut peak = Peak(0);
        measure(&Null, &shape, |_| Counting::default(), &mut peak).expect("1,024 threads start");
        peak.0.saturating_sub(before)
    };
    let grown = (0..3).map(attempt).min().expect("three attempts");
    assert!(grown <= 64 << 20, "{} MB for 1,024 clients", grown >> 20);
}
