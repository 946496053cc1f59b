//! Arrivals are exact: the right number of requests, at the right times, by the right law.

use super::*;

const LAWS: [ArrivalLaw; 3] =
    [ArrivalLaw::Uniform, ArrivalLaw::Poisson, ArrivalLaw::BurstEachSecond];

fn timeline(warmup_s: f64, measured_s: f64) -> Timeline {
    let start = 5 * SECOND + 123;
    let measure_start = start + (warmup_s * SECOND as f64) as Ns;
    Timeline { start, measure_start, end: measure_start + (measured_s * SECOND as f64) as Ns }
}

/// All due times of all clients, for an engine that answers at once.
fn merged(law: ArrivalLaw, rates: &[f64], clients: u32, timeline: Timeline, seed: u64) -> Vec<Ns> {
    let plan = ArrivalPlan { law, rates_per_s: rates.to_vec() };
    let mut all = Vec::new();
    for client in 0..clients {
        let mut arrival = Arrival::new(&plan, timeline, client, clients, Seed(seed));
        let mut last = 0;
        loop {
            let due = arrival.next_due(last);
            if due >= timeline.end {
                break;
            }
            assert!(due >= last && due >= timeline.start, "due times never go back");
            last = due;
            all.push(due);
        }
    }
    all.sort_unstable();
    all
}

/// Uniform and burst arrivals make exactly rate x seconds requests due in the measured interval.
#[test]
fn counts_are_exact() {
    let cases: [(&[f64], u32, f64, f64); 8] = [
        (&[500.0], 8, 0.5, 10.0),
        (&[5_000.0], 8, 0.0, 10.0),
        (&[50_000.0], 8, 1.0, 10.0),
        (&[1_000.0], 7, 0.3, 3.0),
        (&[3.0], 8, 1.0, 5.0),
        (&[100.0, 200.0, 50.0], 3, 0.0, 6.0),
        (&[0.5], 2, 0.0, 10.0),
        (&[1_000.0], 64, 0.1, 0.3),
    ];
    for (rates, clients, warmup_s, measured_s) in cases {
        let timeline = timeline(warmup_s, measured_s);
        let part_s = measured_s / rates.len() as f64;
        let expected: f64 = rates.iter().map(|rate| rate * part_s).sum();
        for law in [ArrivalLaw::Uniform, ArrivalLaw::BurstEachSecond] {
            let due = merged(law, rates, clients, timeline, 1);
            let measured = due.iter().filter(|&&due| due >= timeline.measure_start).count();
            assert_eq!(measured as f64, expected.round(), "{law:?} {rates:?} {clients} clients");
        }
    }
}

/// Uniform arrivals of all clients together are evenly spaced.
#[test]
fn uniform_gaps_are_equal() {
    let due = merged(ArrivalLaw::Uniform, &[1_000.0], 8, timeline(0.0, 2.0), 1);
    for pair in due.windows(2) {
        let gap = pair[1] - pair[0];
        assert!((999_999..=1_000_001).contains(&gap), "gap of {gap} ns");
    }
}

/// The merged Poisson stream's gaps pass a Kolmogorov-Smirnov test against the exponential law over 20 seeds: at the
/// 1 % level at most two seeds may fail (three or more have a chance of about 0.1 %).
#[test]
fn poisson_gaps_are_exponential() {
    let mut failed = Vec::new();
    for seed in 1..=20 {
        let rate = 5_000.0;
        let due = merged(ArrivalLaw::Poisson, &[rate], 8, timeline(0.0, 10.0), seed);
        let mut gaps: Vec<f64> =
            due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / SECOND as f64).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(rank, gap)| {
                let law = 1.0 - (-rate * gap).exp();
                (law - rank as f64 / n).abs().max(((rank + 1) as f64 / n - law).abs())
            })
            .fold(0.0, f64::max);
        // Critical value of the one-sample test at 1 %, large n (Smirnov 1948).
        if distance > 1.628 / n.sqrt() {
            failed.push((seed, distance));
        }
        let count = due.len() as f64;
        assert!((count - 50_000.0).abs() < 4.5 * 50_000f64.sqrt(), "seed {seed}: {count} requests");
    }
    assert!(failed.len() <= 2, "seeds whose gaps are not exponential: {failed:?}");
}

/// Rates apply to equal parts of the measured interval.
#[test]
fn rates_step_through_the_interval() {
    let timeline = timeline(1.0, 4.0);
    for law in LAWS {
        let due = merged(law, &[1_000.0, 3_000.0], 4, timeline, 7);
        let half = timeline.measure_start + 2 * SECOND;
        let first = due.iter().filter(|&&d| d >= timeline.measure_start && d < half).count() as f64;
        let second = due.iter().filter(|&&d| d >= half).count() as f64;
        assert!((first - 2_000.0).abs() < 250.0, "{law:?}: {first} in the first half");
        assert!((second - 6_000.0).abs() < 400.0, "{law:?}: {second} in the second half");
    }
}

/// A burst is due at its second's start; a second that ends late delays the next and drops what did not fit.
#[test]
fn bursts_slip_and_never_catch_up() {
    let timeline = timeline(0.0, 10.0);
    let plan = ArrivalPlan { law: ArrivalLaw::BurstEachSecond, rates_per_s: vec![10.0] };
    let mut arrival = Arrival::new(&plan, timeline, 0, 1, Seed(1));
    let mut done = timeline.start;
    let mut due_times = Vec::new();
    loop {
        let due = arrival.next_due(done);
        if due >= timeline.end {
            break;
        }
        due_times.push(due - timeline.start);
        // Each request takes 0.2 s: a second's ten requests take two seconds.
        done = done.max(due) + SECOND / 5;
    }
    assert_eq!(due_times.len(), 50, "five bursts of ten fit, five are never made up for");
    for (number, due) in due_times.iter().enumerate() {
        assert_eq!(*due, (number as Ns / 10) * 2 * SECOND);
    }
}

/// The same seed gives the same times, another seed others; closed arrivals are due at once.
#[test]
fn seeds_decide() {
    let timeline = timeline(0.0, 1.0);
    let of = |seed| merged(ArrivalLaw::Poisson, &[1_000.0], 4, timeline, seed);
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let plan = ArrivalPlan { law: ArrivalLaw::Closed, rates_per_s: vec![] };
    let mut closed = Arrival::new(&plan, timeline, 0, 1, Seed(1));
    assert_eq!(closed.next_due(42), 42);
    assert!(!closed.is_open());
}
