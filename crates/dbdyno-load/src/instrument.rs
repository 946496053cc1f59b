//! The instrument measures itself: what dbdyno adds to each request, and how punctual it can be on this host.
//!
//! The null driver acknowledges everything and does nothing, so a closed loop over it costs exactly the generator, one
//! clock read, both histograms and the series.

use crate::arrival::{ArrivalLaw, ArrivalPlan};
use crate::clock::{self, Ns, SECOND};
use crate::driver::DriverError;
use crate::driver::null::Null;
use crate::measure::{
    Boundary, ClientId, Measured, Observer, RoleShape, Shape, Subject, Until, measure,
};
use crate::recorder::{ClassInterval, Interval, Phase};
use dbdyno_workload::{HotRow, Seed, Settings};

/// What the instrument found out about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Instrument {
    /// One clock read, ns.
    pub clock_read_ns: f64,
    /// One request of one client in a closed loop on the null driver, ns, by round, sorted.
    pub null_driver_ns_per_request: Vec<f64>,
    /// Requests per second of one client on each core, closed loop, null driver: no engine can be driven faster.
    pub highest_rate_per_s: f64,
    /// How late a sleeping client wakes, us, at the 50th percentile.
    pub wake_up_late_us_p50: f64,
    /// How late a sleeping client wakes, us, at the 99th percentile.
    pub wake_up_late_us_p99: f64,
}

impl Instrument {
    /// The median round of [`Instrument::null_driver_ns_per_request`].
    pub fn null_driver_ns_median(&self) -> f64 {
        self.null_driver_ns_per_request[self.null_driver_ns_per_request.len() / 2]
    }
}

/// How thoroughly to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds of the closed loop; the median counts.
    pub rounds: usize,
    /// Length of a round.
    pub round_ns: Ns,
    /// Processor cores to occupy for the highest rate.
    pub cores: u32,
}

/// Adds up what was due in the measured interval, and apart from it what was completed within its bounds.
#[derive(Default)]
pub struct Totals {
    /// What was due in the measured interval, the tail included; completions of the tail too.
    pub due_in_measured: ClassInterval,
    /// Requests completed within the measured interval's bounds.
    pub completed: u64,
}

impl Observer for Totals {
    fn boundary(&mut self, _: Boundary, _: &[u32]) {}

    fn interval(&mut self, interval: Interval) {
        for class in interval.classes.iter().filter(|_| interval.phase != Phase::Warmup) {
            self.due_in_measured.add(class);
            if interval.phase == Phase::Measured {
                self.completed += class.completed;
            }
        }
    }
}

fn shape(law: ArrivalLaw, rates_per_s: Vec<f64>, clients: u32, measured_ns: Ns) -> Shape {
    Shape {
        roles: vec![RoleShape {
            clients,
            arrival: ArrivalPlan { law, rates_per_s },
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: measured_ns / 10,
        until: Until::Time,
        measured_ns,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    }
}

fn run(shape: &Shape) -> Result<Totals, DriverError> {
    let workload = HotRow::from_settings(&Settings::new())
        .map_err(|error| DriverError::new(error.to_string()))?;
    let mut totals = Totals::default();
    let stream_of = |id: ClientId| workload.stream(Seed(1), id.client);
    let _: Measured<_> = measure(&Null, shape, stream_of, &mut totals)?;
    Ok(totals)
}

/// Measures clock, null driver and timers; takes `effort.rounds` rounds and about a second more.
///
/// # Errors
/// Only if threads cannot be started.
pub fn measure_instrument(effort: Effort) -> Result<Instrument, DriverError> {
    let closed = |clients| shape(ArrivalLaw::Closed, Vec::new(), clients, effort.round_ns);
    let mut rounds = Vec::with_capacity(effort.rounds);
    for _ in 0..effort.rounds.max(1) {
        let completed = run(&closed(1))?.completed.max(1);
        rounds.push(effort.round_ns as f64 / completed as f64);
    }
    rounds.sort_by(f64::total_cmp);
    let together = run(&closed(effort.cores.max(1)))?.completed;
    let lateness = run(&shape(ArrivalLaw::Uniform, vec![1_000.0], 1, SECOND / 2))?;
    let lateness = lateness.due_in_measured.send_lateness_ns;
    Ok(Instrument {
        clock_read_ns: clock::read_cost_ns(9),
        null_driver_ns_per_request: rounds,
        highest_rate_per_s: together as f64 * SECOND as f64 / effort.round_ns as f64,
        wake_up_late_us_p50: lateness.value_at_quantile(0.5) as f64 / 1e3,
        wake_up_late_us_p99: lateness.value_at_quantile(0.99) as f64 / 1e3,
    })
}
