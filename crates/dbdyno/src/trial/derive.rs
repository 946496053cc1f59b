//! From samples to metrics: what each operation took and cost, and what may be wrong with the numbers.
//!
//! Costs are differences between the two boundaries of the measured interval, divided by the requests completed
//! between them. Metric names are the record's; METHODOLOGY.md has the formulas.

use super::observe::BoundarySample;
use crate::failure::Failure;
use crate::job::settle::Settled;
use dbdyno_host::probe::cpu::HostUse;
use dbdyno_host::probe::process::ProcessUse;
use dbdyno_host::probe::tree::{TreeMemory, TreeUse};
use dbdyno_host::probe::{cpu, disk, process, tree};
use dbdyno_load::driver::ClientCounters;
use dbdyno_load::recorder::ClassInterval;
use dbdyno_plan::SyncsSeen;
use dbdyno_record::{Observation, Warning, metric};
use hdrhistogram::Histogram;

/// The step of a trial that is one measured interval.
pub const STEP: &str = "measure";
const ALL: &str = "all";

/// Shares from which something is worth a warning.
const LATE_SHARE: f64 = 0.01;
const OTHER_CPU_SHARE: f64 = 0.10;
const STOLEN_SHARE: f64 = 0.02;
const RETRIES_PER_REQUEST: f64 = 0.01;
/// A thread that serves clients and is busier than this may be what limits the throughput.
const CLIENT_BUSY_SHARE: f64 = 0.90;
/// A clock read that costs more than this is felt in every request.
const SLOW_CLOCK_NS: f64 = 100.0;
/// Below this a 99th percentile is one of ten requests.
const FEW_REQUESTS: u64 = 1_000;

/// What a trial left behind.
pub struct Raw<'a> {
    /// The step that it was.
    pub step: &'a str,
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
    /// Whether the engine is a server, so that client and engine are told apart.
    pub is_server: bool,
    /// How settling went, if there was any.
    pub settled: Option<Settled>,
    /// The server's memory at the end.
    pub server_memory: Option<TreeMemory>,
    /// Threads that served the clients.
    pub threads: u32,
    /// Log syncs and commits over the whole trial, if the engine counts its syncs.
    pub syncs: Option<SyncsSeen>,
    /// Cores of the host.
    pub cores: f64,
    /// One clock read, and one request on the null driver, ns.
    pub clock_read_ns: f64,
    /// See `clock_read_ns`.
    pub null_driver_ns: f64,
}

impl Raw<'_> {
    /// Whether the engine is a server whose processes cannot be watched.
    fn is_elsewhere(&self) -> bool {
        self.is_server && self.boundaries.0.server.is_none()
    }
}

/// Metrics and warnings.
pub struct Derived {
    step: String,
    /// The numbers.
    pub observations: Vec<Observation>,
    /// What may be wrong with them.
    pub warnings: Vec<Warning>,
}

impl Derived {
    /// Nothing of a step yet.
    pub fn of_step(step: &str) -> Self {
        Derived { step: step.to_owned(), observations: Vec::new(), warnings: Vec::new() }
    }

    /// Adds one number.
    pub fn put(&mut self, name: &str, value: f64) {
        self.put_of(ALL, name, value);
    }

    /// Adds one number of a class of requests.
    pub fn put_of(&mut self, class: &str, name: &str, value: f64) {
        // A number that could not be worked out is left out: an empty cell says so, a zero would lie.
        if let Some(metric) = metric::find(name).filter(|_| value.is_finite()) {
            self.observations.push(Observation::new((&self.step, ALL, class), metric, value));
        }
    }

    /// Adds the percentiles of a histogram.
    pub fn put_times(&mut self, class: &str, prefix: &str, histogram: &Histogram<u64>) {
        if histogram.is_empty() {
            return;
        }
        self.put_of(class, &format!("{prefix}_mean"), histogram.mean() / 1e3);
        for (name, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
            let us = histogram.value_at_quantile(quantile) as f64 / 1e3;
            self.put_of(class, &format!("{prefix}_{name}"), us);
        }
        self.put_of(class, &format!("{prefix}_max"), histogram.max() as f64 / 1e3);
    }
}

/// Works out metrics and warnings.
///
/// # Errors
/// If two samples cannot be compared.
pub fn derive(raw: &Raw<'_>) -> Result<Derived, Failure> {
    let mut derived = Derived::of_step(raw.step);
    let mut total = ClassInterval::default();
    raw.classes.iter().for_each(|class| total.add(class));
    put_requests(&mut derived, raw, &total);
    put_costs(&mut derived, raw)?;
    warn_of_requests(&mut derived, raw, &total);
    Ok(derived)
}

/// Works out what a task cost, which no client asked for.
///
/// # Errors
/// If two samples cannot be compared.
pub fn derive_task(raw: &Raw<'_>) -> Result<Derived, Failure> {
    let mut derived = Derived::of_step(raw.step);
    put_costs(&mut derived, raw)?;
    Ok(derived)
}

fn put_requests(derived: &mut Derived, raw: &Raw<'_>, total: &ClassInterval) {
    let acknowledged = total.response_time_ns.len() + total.over_range;
    let errors: u64 = total.failures.values().sum();
    derived.put("throughput_per_s", raw.completed as f64 / raw.measured_s);
    derived.put_times(ALL, "service_time_us", &total.service_time_ns);
    if raw.has_schedule {
        derived.put_times(ALL, "response_time_us", &total.response_time_ns);
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
    if raw.is_server {
        derived.put("reconnects", raw.counters.reconnects as f64);
    }
    if let Some(settled) = &raw.settled {
        derived.put("settle_s", settled.seconds);
        derived.put("settle_debt", settled.debt as f64);
    }
    if raw.acknowledged_in_all > 0 && !raw.is_server {
        let all = raw.acknowledged_in_all as f64;
        derived.put("busy_waits_per_op", raw.counters.busy_waits as f64 / all);
        derived.put("busy_sleep_us_per_op", raw.counters.busy_sleep_ns as f64 / 1e3 / all);
    }
}

/// What client and engine used between the two boundaries.
struct Uses {
    own: ProcessUse,
    /// The threads that send requests.
    workers_ns: f64,
    /// The thread that samples.
    sampler_ns: f64,
    server: Option<TreeUse>,
    host: HostUse,
}

fn put_costs(derived: &mut Derived, raw: &Raw<'_>) -> Result<(), Failure> {
    let (start, end) = raw.boundaries;
    let server = start.server.as_ref().zip(end.server.as_ref());
    let uses = Uses {
        own: process::difference(&start.process, &end.process)?,
        workers_ns: (end.workers_cpu_ns - start.workers_cpu_ns) as f64,
        sampler_ns: (end.own_cpu_ns - start.own_cpu_ns) as f64,
        server: server.map(|(start, end)| tree::difference(start, end)).transpose()?,
        host: cpu::difference(&start.host, &end.host),
    };
    if raw.is_server {
        put_client_and_server(derived, raw, &uses);
    } else {
        put_process(derived, raw, &uses);
    }
    if raw.step != STEP {
        put_rates(derived, raw, &uses)?;
    }
    if raw.completed > 0 {
        let per_op = |value: f64| value / raw.completed as f64;
        derived.put("host_cpu_us_per_op", per_op(uses.host.busy_cpu_ns as f64 / 1e3));
        let server_switches = uses.server.as_ref().map_or(0, switches_of);
        let switches = uses.own.context_switches() + server_switches;
        derived.put("context_switches_per_op", per_op(switches as f64));
        match (&start.disk, &end.disk) {
            (Some(start), Some(end)) if !raw.is_elsewhere() => {
                let disk = disk::difference(start, end)?;
                derived.put("reads_per_op", per_op(disk.reads as f64));
                derived.put("read_kb_per_op", per_op(disk.read_bytes as f64 / 1024.0));
                derived.put("writes_per_op", per_op(disk.writes as f64));
                derived.put("write_kb_per_op", per_op(disk.write_bytes as f64 / 1024.0));
            }
            _ => {}
        }
    }
    warn_of_costs(derived, raw, &uses);
    Ok(())
}

/// What the host did per second of a step, as the tools that the documents used showed it.
fn put_rates(derived: &mut Derived, raw: &Raw<'_>, uses: &Uses) -> Result<(), Failure> {
    let (start, end) = raw.boundaries;
    let seconds = uses.host.elapsed_ns as f64 / 1e9;
    derived.put("step_s", raw.measured_s);
    derived.put("context_switches_per_s", uses.host.context_switches as f64 / seconds);
    let busy = uses.host.busy_cpu_ns as f64 / 1e9;
    derived.put("host_cpu_percent", 100.0 * busy / (seconds * raw.cores));
    if let (Some(start), Some(end), false) = (&start.disk, &end.disk, raw.is_elsewhere()) {
        let disk = disk::difference(start, end)?;
        derived.put("reads_per_s", disk.reads as f64 / seconds);
        derived.put("read_mb_per_s", mb(disk.read_bytes) / seconds);
        derived.put("writes_per_s", disk.writes as f64 / seconds);
        derived.put("write_mb_per_s", mb(disk.write_bytes) / seconds);
    }
    Ok(())
}

/// An engine library: one process does both.
fn put_process(derived: &mut Derived, raw: &Raw<'_>, uses: &Uses) {
    let own = &uses.own;
    let (start, end) = raw.boundaries;
    derived.put("rss_mb", own.rss_bytes.map_or(f64::NAN, mb));
    if raw.completed == 0 {
        return;
    }
    let us_per_op = |ns: f64| ns / 1e3 / raw.completed as f64;
    let cpu_ns = own.cpu_ns as f64;
    derived.put("process_cpu_us_per_op", us_per_op(cpu_ns));
    if let Some(user_ns) = own.user_cpu_ns() {
        derived.put("process_user_cpu_us_per_op", us_per_op(user_ns));
        derived.put("process_system_cpu_us_per_op", us_per_op(cpu_ns - user_ns));
    }
    derived.put("foreground_cpu_us_per_op", us_per_op(uses.workers_ns));
    // Clocks are read one after another, so a difference of nearly equal numbers may come out below zero.
    let background_ns = (cpu_ns - uses.workers_ns - uses.sampler_ns).max(0.0);
    derived.put("background_cpu_us_per_op", us_per_op(background_ns));
    let syncs = end.syncs - start.syncs;
    derived.put("log_syncs_per_commit", syncs as f64 / raw.completed as f64);
}

/// A server: its processes beside the client's.
fn put_client_and_server(derived: &mut Derived, raw: &Raw<'_>, uses: &Uses) {
    if let Some(seen) = raw.syncs.filter(|seen| seen.commits > 0) {
        derived.put("log_syncs_per_commit", seen.log_syncs as f64 / seen.commits as f64);
    }
    if let Some(memory) = &raw.server_memory {
        derived.put("server_private_mb", mb(memory.private_bytes));
        derived.put("server_shared_mb", mb(memory.shared_bytes));
        derived.put("server_mapped_mb", mb(memory.file_bytes));
    }
    if raw.completed == 0 {
        return;
    }
    let per_op = |value: f64| value / raw.completed as f64;
    let us_per_op = |ns: f64| per_op(ns / 1e3);
    // The sampling thread is dbdyno's and no part of what a client costs.
    let client_ns = uses.own.cpu_ns as f64 - uses.sampler_ns;
    derived.put("client_cpu_us_per_op", us_per_op(client_ns));
    if let Some(share) = uses.own.user_share {
        derived.put("client_user_cpu_us_per_op", us_per_op(client_ns * share));
    }
    let Some(server) = &uses.server else { return };
    let cpu_ns = (server.cpu_ns + server.gone_cpu_ns) as f64;
    derived.put("server_cpu_us_per_op", us_per_op(cpu_ns));
    let ticks = server.user_ticks + server.system_ticks;
    if ticks > 0 {
        let share = server.user_ticks as f64 / ticks as f64;
        derived.put("server_user_cpu_us_per_op", us_per_op(cpu_ns * share));
        derived.put("server_system_cpu_us_per_op", us_per_op(cpu_ns * (1.0 - share)));
    }
    derived.put("server_context_switches_per_op", per_op(switches_of(server) as f64));
    if let Some(io) = &server.io {
        derived.put("server_read_kb_per_op", per_op(io.read_bytes as f64 / 1024.0));
        derived.put("server_write_kb_per_op", per_op(io.write_bytes as f64 / 1024.0));
        derived.put("server_read_calls_per_op", per_op(io.syscr as f64));
        derived.put("server_write_calls_per_op", per_op(io.syscw as f64));
    }
}

fn switches_of(server: &TreeUse) -> u64 {
    server.voluntary_switches + server.involuntary_switches
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn warn_of_costs(derived: &mut Derived, raw: &Raw<'_>, uses: &Uses) {
    let Uses { own, host, server, .. } = uses;
    if own.coarse {
        let ticks = own.user_ticks + own.system_ticks;
        derived.warnings.push(Warning::CpuCoarse { ticks });
    }
    if raw.is_elsewhere() {
        derived.warnings.push(Warning::ServerElsewhere {});
    }
    let client_share = uses.workers_ns / (host.elapsed_ns as f64 * f64::from(raw.threads.max(1)));
    if raw.is_server && client_share > CLIENT_BUSY_SHARE {
        derived.warnings.push(Warning::ClientBusy { share: client_share });
    }
    if let Some(settled) = raw.settled.filter(|settled| settled.gave_up) {
        derived.warnings.push(Warning::DebtLeft { debt: settled.debt });
    }
    let host_ns = host.elapsed_ns as f64 * raw.cores;
    let ours = own.cpu_ns + server.as_ref().map_or(0, |server| server.cpu_ns + server.gone_cpu_ns);
    let other_cpu_share = (host.busy_cpu_ns as f64 - ours as f64) / host_ns;
    if other_cpu_share > OTHER_CPU_SHARE {
        derived.warnings.push(Warning::HostBusy { other_cpu_share });
    }
    if let Some(share) = host.steal_share.filter(|&share| share > STOLEN_SHARE) {
        derived.warnings.push(Warning::CpuStolen { share });
    }
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
