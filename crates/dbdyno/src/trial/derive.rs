//! From samples to metrics: what each operation took and cost, and what may be wrong with the numbers.
//!
//! Costs are differences between the two boundaries of the measured interval, divided by the requests completed
//! between them. Metric names are the record's; METHODOLOGY.md has the formulas.

use super::observe::BoundarySample;
use crate::failure::Failure;
use dbdyno_host::probe::{cpu, disk, process};
use dbdyno_load::driver::ClientCounters;
use dbdyno_load::recorder::ClassInterval;
use dbdyno_record::{Observation, Warning, metric};
use hdrhistogram::Histogram;

/// The only step there is so far.
pub const STEP: &str = "measure";
const ALL: &str = "all";

/// Shares from which something is worth a warning.
const LATE_SHARE: f64 = 0.01;
const OTHER_CPU_SHARE: f64 = 0.10;
const STOLEN_SHARE: f64 = 0.02;
const RETRIES_PER_REQUEST: f64 = 0.01;
/// A clock read that costs more than this is felt in every request.
const SLOW_CLOCK_NS: f64 = 100.0;
/// Below this a 99th percentile is one of ten requests.
const FEW_REQUESTS: u64 = 1_000;

/// What a trial left behind.
pub struct Raw<'a> {
    /// Length of the measured interval.
    pub measured_s: f64,
    /// Samples at both boundaries.
    pub boundaries: (&'a BoundarySample, &'a BoundarySample),
    /// Requests completed within the measured interval.
    pub completed: u64,
    /// What was due in it, by class.
    pub classes: &'a [ClassInterval],
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Whether requests had a schedule.
    pub has_schedule: bool,
    /// What clients counted about waiting, over the whole trial.
    pub counters: ClientCounters,
    /// Requests acknowledged over the whole trial.
    pub acknowledged_in_all: u64,
    /// Clients that were asked for, and that got anything done.
    pub dop: u32,
    /// See `dop`.
    pub active_clients: u32,
    /// Cores of the host.
    pub cores: f64,
    /// One clock read, and one request on the null driver, ns.
    pub clock_read_ns: f64,
    /// See `clock_read_ns`.
    pub null_driver_ns: f64,
}

/// Metrics and warnings.
#[derive(Default)]
pub struct Derived {
    /// The numbers.
    pub observations: Vec<Observation>,
    /// What may be wrong with them.
    pub warnings: Vec<Warning>,
}

impl Derived {
    fn put(&mut self, name: &str, value: f64) {
        // A number that could not be worked out is left out: an empty cell says so, a zero would lie.
        if let Some(metric) = metric::find(name).filter(|_| value.is_finite()) {
            self.observations.push(Observation::new((STEP, ALL, ALL), metric, value));
        }
    }

    fn put_times(&mut self, prefix: &str, histogram: &Histogram<u64>) {
        if histogram.is_empty() {
            return;
        }
        self.put(&format!("{prefix}_mean"), histogram.mean() / 1e3);
        for (name, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
            let us = histogram.value_at_quantile(quantile) as f64 / 1e3;
            self.put(&format!("{prefix}_{name}"), us);
        }
        self.put(&format!("{prefix}_max"), histogram.max() as f64 / 1e3);
    }
}

/// Works out metrics and warnings.
///
/// # Errors
/// If two samples cannot be compared.
pub fn derive(raw: &Raw<'_>) -> Result<Derived, Failure> {
    let mut derived = Derived::default();
    let mut total = ClassInterval::default();
    raw.classes.iter().for_each(|class| total.add(class));
    put_requests(&mut derived, raw, &total);
    put_costs(&mut derived, raw)?;
    warn_of_requests(&mut derived, raw, &total);
    Ok(derived)
}

fn put_requests(derived: &mut Derived, raw: &Raw<'_>, total: &ClassInterval) {
    let acknowledged = total.response_time_ns.len() + total.over_range;
    let errors: u64 = total.failures.values().sum();
    derived.put("throughput_per_s", raw.completed as f64 / raw.measured_s);
    derived.put_times("service_time_us", &total.service_time_ns);
    if raw.has_schedule {
        derived.put_times("response_time_us", &total.response_time_ns);
        let lateness = &total.send_lateness_ns;
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let us = lateness.value_at_quantile(quantile) as f64 / 1e3;
            derived.put(&format!("send_lateness_us_{name}"), us);
        }
    }
    let due = acknowledged + total.refused + total.unknown + raw.unsent;
    derived.put("due", due as f64);
    derived.put("acknowledged", acknowledged as f64);
    derived.put("refused", total.refused as f64);
    derived.put("unknown", total.unknown as f64);
    derived.put("errors", errors as f64);
    derived.put("retries", total.retries as f64);
    derived.put("active_clients", f64::from(raw.active_clients));
    derived.put("null_driver_ns", raw.null_driver_ns);
    if raw.acknowledged_in_all > 0 {
        let all = raw.acknowledged_in_all as f64;
        derived.put("busy_waits_per_op", raw.counters.busy_waits as f64 / all);
        derived.put("busy_sleep_us_per_op", raw.counters.busy_sleep_ns as f64 / 1e3 / all);
    }
}

fn put_costs(derived: &mut Derived, raw: &Raw<'_>) -> Result<(), Failure> {
    let (start, end) = raw.boundaries;
    let own = process::difference(&start.process, &end.process)?;
    let host = cpu::difference(&start.host, &end.host);
    let per_op = |value: f64| value / raw.completed as f64;
    let us_per_op = |ns: f64| per_op(ns / 1e3);
    let syncs = end.syncs - start.syncs;
    derived
        .put("rss_mb", own.rss_bytes.map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20)));
    if raw.completed > 0 {
        let cpu_ns = own.cpu_ns as f64;
        let workers_ns = (end.workers_cpu_ns - start.workers_cpu_ns) as f64;
        let sampler_ns = (end.own_cpu_ns - start.own_cpu_ns) as f64;
        derived.put("process_cpu_us_per_op", us_per_op(cpu_ns));
        if let Some(user_ns) = own.user_cpu_ns() {
            derived.put("process_user_cpu_us_per_op", us_per_op(user_ns));
            derived.put("process_system_cpu_us_per_op", us_per_op(cpu_ns - user_ns));
        }
        derived.put("foreground_cpu_us_per_op", us_per_op(workers_ns));
        // Clocks are read one after another, so a difference of nearly equal numbers may come out below zero.
        let background_ns = (cpu_ns - workers_ns - sampler_ns).max(0.0);
        derived.put("background_cpu_us_per_op", us_per_op(background_ns));
        derived.put("host_cpu_us_per_op", us_per_op(host.busy_cpu_ns as f64));
        derived.put("context_switches_per_op", per_op(own.context_switches() as f64));
        derived.put("log_syncs_per_commit", per_op(syncs as f64));
        if let (Some(start), Some(end)) = (&start.disk, &end.disk) {
            let disk = disk::difference(start, end)?;
            derived.put("reads_per_op", per_op(disk.reads as f64));
            derived.put("read_kb_per_op", per_op(disk.read_bytes as f64 / 1024.0));
            derived.put("writes_per_op", per_op(disk.writes as f64));
            derived.put("write_kb_per_op", per_op(disk.write_bytes as f64 / 1024.0));
        }
    }
    if own.coarse {
        let ticks = own.user_ticks + own.system_ticks;
        derived.warnings.push(Warning::CpuCoarse { ticks });
    }
    let host_ns = host.elapsed_ns as f64 * raw.cores;
    let other_cpu_share = (host.busy_cpu_ns as f64 - own.cpu_ns as f64) / host_ns;
    if other_cpu_share > OTHER_CPU_SHARE {
        derived.warnings.push(Warning::HostBusy { other_cpu_share });
    }
    if let Some(share) = host.steal_share.filter(|&share| share > STOLEN_SHARE) {
        derived.warnings.push(Warning::CpuStolen { share });
    }
    Ok(())
}

fn warn_of_requests(derived: &mut Derived, raw: &Raw<'_>, total: &ClassInterval) {
    let warnings = &mut derived.warnings;
    let count = total.response_time_ns.len() + total.over_range;
    let per_request = |number: u64| number as f64 / count.max(1) as f64;
    if total.unknown > 0 {
        warnings.push(Warning::UnknownOutcomes { count: total.unknown });
    }
    if raw.active_clients < raw.dop {
        let (active, dop) = (raw.active_clients, raw.dop);
        warnings.push(Warning::FewClientsActive { active, dop });
    }
    if per_request(total.sent_late) > LATE_SHARE {
        warnings.push(Warning::GeneratorLate { share: per_request(total.sent_late) });
    }
    if raw.unsent > 0 {
        warnings.push(Warning::BacklogLeft { requests: raw.unsent });
    }
    if per_request(total.retries) > RETRIES_PER_REQUEST {
        warnings.push(Warning::RetriesHigh { per_request: per_request(total.retries) });
    }
    if total.refused > 0 {
        warnings.push(Warning::RequestsRefused { count: total.refused });
    }
    if total.over_range > 0 {
        warnings.push(Warning::OverRange { count: total.over_range });
    }
    if count < FEW_REQUESTS {
        warnings.push(Warning::LowRequestCount { count });
    }
    if raw.clock_read_ns > SLOW_CLOCK_NS {
        warnings.push(Warning::ClockSlow { read_ns: raw.clock_read_ns });
    }
}
