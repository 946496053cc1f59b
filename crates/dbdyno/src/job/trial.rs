//! One trial, from opening the engine to the record of how it went.

use super::asked::Asked;
use super::effective;
use super::load_cost::LoadCost;
use super::server::{BackendOrder, ServerOrder};
use super::settle::{self, Settled};
use super::{Order, Report, TrialOrder, tell};
use crate::failure::Failure;
use crate::trial::derive::{Derived, Raw, STEP, derive, derive_task};
use crate::trial::detail::IntervalFiles;
use crate::trial::files::Files;
use crate::trial::observe::{BoundarySample, TrialObserver};
use dbdyno_host::probe::disk::DiskProbe;
use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{ClientCounters, Driver, DriverError, Receipt};
use dbdyno_load::measure::{Boundary, Observer, RoleShape, Shape, Subject, Until};
use dbdyno_load::outcome::FailureClass;
use dbdyno_load::recorder::ClassInterval;
use dbdyno_load::trial::Trialed;
use dbdyno_load::trial::hot_row::{self, Trial};
use dbdyno_load::{dataset, sync_counter, with_driver};
use dbdyno_plan::{Arrival, Load, SyncsSeen};
use dbdyno_record::{DetailWriter, TrialEnd, TrialRecord, utc_text};
use dbdyno_workload::Seed;
use dbdyno_workload::hot_row::{CheckReport, REQUEST_CLASSES};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// How long after the end requests that were due before it may still be sent or retried.
pub const DRAIN_LIMIT_S: u64 = 30;

/// Measures the trial, writes its detail files and returns its record.
///
/// # Errors
/// The engine's or the disk's; the parent records the trial as Failed, unless there is no room for any trial.
pub fn measure(
    order: &Order,
    trial: &TrialOrder,
    engine_version: &mut String,
) -> Result<TrialRecord, Failure> {
    with_driver!(order.engine.driver.as_str(), D => {
        if trial.steps.is_empty() {
            measure_hot_row::<D>(order, trial, engine_version)
        } else {
            super::steps::measure::<D>(order, trial, engine_version)
        }
    })
}

fn measure_hot_row<D: Driver>(
    order: &Order,
    trial: &TrialOrder,
    engine_version: &mut String,
) -> Result<TrialRecord, Failure> {
    let started = Started::now();
    let what = trial_of(order, trial)?;
    let clients = what.shape.clients();
    let opened = Opened::<D>::open(order, trial, clients, engine_version)?;
    if !D::KEEPS_FILES {
        dataset::load(&opened.driver, &what.dataset, &mut |_| ())?;
    }
    let names: Vec<String> =
        (1..=what.workload.tables()).map(|table| format!("t{table}")).collect();
    let part = PartOf {
        step: STEP,
        classes: REQUEST_CLASSES,
        clients,
        dop: trial.load.dop,
        has_schedule: trial.load.arrival != Arrival::Closed,
        settled: opened.settle(order, &names)?,
    };
    let statistics_before = opened.driver.statistics()?;
    let run = |observer: &mut TrialObserver<'_>| hot_row::run(&opened.driver, &what, observer);
    let part = opened.measure(order, trial, &part, run)?;
    let statistics = difference(opened.driver.statistics()?, &statistics_before);
    let (receipts, engine_files) = opened.close(order);
    let Part { mut derived, end, files, samples, check, seen, .. } = part.finished()?;
    for (name, value) in trial.load_cost.iter().flat_map(LoadCost::metrics) {
        derived.put(name, value);
    }
    if let Some(files) = &engine_files {
        derived.put("server_files_mb", files.bytes as f64 / f64::from(1 << 20));
    }
    let mut detail = DetailWriter::create(&trial.run_directory, trial.record.trial)?;
    files.write(&mut detail, "")?;
    write_json(&mut detail, "host_samples.json", &samples_json(&samples))?;
    write_receipts(&mut detail, order, trial, &receipts, seen)?;
    if let Some(files) = &engine_files {
        write_json(&mut detail, "files.json", &files.as_json())?;
    }
    if !statistics.is_empty() {
        write_json(&mut detail, "engine_statistics.json", &json!(statistics))?;
    }
    write_json(&mut detail, "check.json", &check_json(check.as_ref()))?;
    Ok(TrialRecord {
        engine_version: receipts.own.version,
        started_utc: utc_text(started.at),
        duration_s: started.since.elapsed().as_secs_f64(),
        end,
        observations: derived.observations,
        warnings: derived.warnings,
        files: detail.finish()?,
        ..trial.record.clone()
    })
}

/// When a trial or a step began, by the wall and to be measured from.
pub struct Started {
    /// The wall's time.
    pub at: SystemTime,
    /// The same moment on a clock that does not jump.
    pub since: Instant,
}

impl Started {
    /// Now.
    pub fn now() -> Self {
        Started { at: SystemTime::now(), since: Instant::now() }
    }
}

/// What the engine, and the server behind it if there is one, say of themselves.
pub struct Receipts {
    /// The engine's that clients speak to.
    pub own: Receipt,
    /// The server's behind it.
    pub behind: Option<Receipt>,
}

/// An engine that is open for a trial.
pub struct Opened<D> {
    /// Its driver.
    pub driver: D,
    behind: Option<Box<dyn Asked>>,
    receipts: Receipts,
}

/// One measured interval: what it is called, and what is known of it beforehand.
pub struct PartOf<'a> {
    /// The step.
    pub step: &'a str,
    /// The classes of requests.
    pub classes: &'a [&'a str],
    /// Concurrent clients.
    pub clients: u32,
    /// Clients that were asked for.
    pub dop: u32,
    /// Whether any of them has a schedule.
    pub has_schedule: bool,
    /// How settling went before it.
    pub settled: Option<Settled>,
}

/// One measured interval, as it went.
pub struct Part {
    /// Metrics and warnings.
    pub derived: Derived,
    /// How it ended.
    pub end: TrialEnd,
    /// Interval logs and series.
    pub files: IntervalFiles,
    /// Samples at both boundaries.
    pub samples: [Option<BoundarySample>; 2],
    /// The verdict.
    pub check: Option<CheckReport>,
    /// Counts of each class.
    pub classes: Vec<ClassInterval>,
    /// Requests done in each whole second, by class.
    pub per_second: Vec<Vec<u64>>,
    /// Length of the measured interval, seconds.
    pub measured_s: f64,
    /// Syncs and commits.
    pub seen: Option<SyncsSeen>,
    disk_full: u64,
}

impl Part {
    /// The part, if there was room on the disk.
    ///
    /// # Errors
    /// If there was none: no other trial would fare better.
    pub fn finished(self) -> Result<Part, Failure> {
        if self.disk_full > 0 {
            let what = format!("{} requests found no room on the disk", self.disk_full);
            return Err(Failure::disk_full(&what));
        }
        Ok(self)
    }
}

impl<D: Driver> Opened<D> {
    /// Opens the engine for so many clients and holds it against what was promised.
    ///
    /// # Errors
    /// The engine's, and if it does not keep a promise.
    pub fn open(
        order: &Order,
        trial: &TrialOrder,
        clients: u32,
        engine_version: &mut String,
    ) -> Result<Self, Failure> {
        let server = order.engine.server.as_ref();
        let behind = server.and_then(|server| server.backend.as_deref());
        let behind = behind.map(BackendOrder::open).transpose()?;
        let driver = D::open(&order.open_options(clients, &trial.load.client)?)?;
        let own = driver.receipt()?;
        engine_version.clone_from(&own.version);
        let behind_receipt = behind.as_ref().map(|driver| driver.receipt()).transpose()?;
        if server.is_some() {
            let settings = &behind_receipt.as_ref().unwrap_or(&own).settings;
            effective::check_promise(&order.engine.promised_settings, settings)?;
            effective::check_connections(clients, &own.settings)?;
        }
        Ok(Opened { driver, behind, receipts: Receipts { own, behind: behind_receipt } })
    }

    /// Whoever has the data answers for them.
    fn keeper(&self) -> &dyn Asked {
        match &self.behind {
            Some(behind) => &**behind,
            None => &self.driver,
        }
    }

    /// Pays a server's debts; `tables` are the names of those that are changed.
    ///
    /// # Errors
    /// The server's.
    pub fn settle(&self, order: &Order, tables: &[String]) -> Result<Option<Settled>, Failure> {
        let server = order.engine.server.as_ref();
        server.map(|server| settle::settle(self.keeper(), &server.settle, tables)).transpose()
    }

    /// Measures one interval, which `run` runs.
    ///
    /// # Errors
    /// The engine's, and if the host cannot be sampled.
    pub fn measure(
        &self,
        order: &Order,
        trial: &TrialOrder,
        part: &PartOf<'_>,
        run: impl FnOnce(&mut TrialObserver<'_>) -> Result<Trialed, DriverError>,
    ) -> Result<Part, Failure> {
        let server = order.engine.server.as_ref();
        let keeper_order = match server.and_then(|server| server.backend.as_deref()) {
            Some(backend) => Some(&backend.server),
            None => server,
        };
        let mut live = |rate| tell(&Report::Rate(rate));
        let disk = DiskProbe::of_directory(&order.engine.data_directory).ok();
        let files = IntervalFiles::new(part.classes, SystemTime::now())?;
        let processes = server.map_or(&[][..], |server| server.processes.as_slice());
        let mut observer = TrialObserver::new(disk, processes, part.classes, files, &mut live);
        let syncs_before = log_syncs(self.keeper(), keeper_order)?;
        let trialed = run(&mut observer)?;
        // Over the whole trial, when nothing is under way: within the measured interval syncs and commits cannot be
        // counted at the same instant, and a busy host makes the gap long enough to look like a broken promise.
        let syncs_after = log_syncs(self.keeper(), keeper_order)?;
        let seen = syncs_before.zip(syncs_after).map(|(before, after)| SyncsSeen {
            log_syncs: after.saturating_sub(before),
            commits: trialed.acknowledged,
            dop: part.clients * trial.load.client.pipeline,
        });
        if let Some(error) = observer.error.take() {
            return Err(error);
        }
        let threads = self.driver.threads(part.clients);
        let derived = derive_from(order, trial, part, &trialed, &observer, (seen, threads))?;
        let end = end_of(order, &trialed, &observer, seen);
        let TrialObserver {
            files,
            start,
            end: end_sample,
            due_in_measured,
            per_second,
            disk_full,
            ..
        } = observer;
        Ok(Part {
            derived,
            end,
            files,
            samples: [start, end_sample],
            measured_s: measured_s(&trialed),
            check: trialed.check,
            classes: due_in_measured,
            per_second,
            seen,
            disk_full,
        })
    }

    /// Measures what the engine does alone, over so many rows: its costs per operation are per row.
    ///
    /// # Errors
    /// The engine's, and if the host cannot be sampled.
    pub fn measure_task(
        &self,
        order: &Order,
        trial: &TrialOrder,
        step: &str,
        rows: u64,
        task: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Part, Failure> {
        let server = order.engine.server.as_ref();
        let mut live = |_| ();
        let disk = DiskProbe::of_directory(&order.engine.data_directory).ok();
        let files = IntervalFiles::new(&[], SystemTime::now())?;
        let processes = server.map_or(&[][..], |server| server.processes.as_slice());
        let mut observer = TrialObserver::new(disk, processes, &[], files, &mut live);
        let own_thread = [dbdyno_load::clock::thread_id()];
        observer.boundary(Boundary::MeasureStart, &own_thread);
        let started = Instant::now();
        task()?;
        let measured_s = started.elapsed().as_secs_f64();
        observer.boundary(Boundary::MeasureEnd, &own_thread);
        if let Some(error) = observer.error.take() {
            return Err(error);
        }
        let (Some(start), Some(end)) = (&observer.start, &observer.end) else {
            return Err(Failure::other("the task was not sampled"));
        };
        let derived = derive_task(&Raw {
            step,
            measured_s,
            boundaries: (start, end),
            completed: rows,
            classes: &[],
            unsent: 0,
            has_schedule: false,
            counters: ClientCounters::default(),
            acknowledged_in_all: 0,
            dop: 1,
            active_clients: 1,
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
            is_server: server.is_some(),
            settled: None,
            server_memory: observer.server_memory,
            threads: 1,
            syncs: None,
            clock_read_ns: trial.clock_read_ns,
            null_driver_ns: trial.null_driver_ns,
        })?;
        let TrialObserver { files, start, end, .. } = observer;
        Ok(Part {
            derived,
            end: TrialEnd::Measured,
            files,
            samples: [start, end],
            check: None,
            classes: Vec::new(),
            per_second: Vec::new(),
            measured_s,
            seen: None,
            disk_full: 0,
        })
    }

    /// Closes it, which is part of the trial: what an engine does then must not fall on the next one. Returns what it
    /// said of itself, and what its files were, if they are ours.
    pub fn close(self, order: &Order) -> (Receipts, Option<Files>) {
        let is_ours = order.engine.server.as_ref().is_some_and(|server| !server.is_named);
        let files = is_ours.then(|| Files::below(&order.engine.data_directory));
        drop((self.driver, self.behind));
        (self.receipts, files)
    }
}

/// Writes what the engine said of itself.
///
/// # Errors
/// The disk's.
pub fn write_receipts(
    detail: &mut DetailWriter,
    order: &Order,
    trial: &TrialOrder,
    receipts: &Receipts,
    seen: Option<SyncsSeen>,
) -> Result<(), Failure> {
    let receipts = (&receipts.own, receipts.behind.as_ref());
    write_json(detail, "receipt.json", &receipt_json(order, trial, receipts, seen))
}

fn measured_s(trialed: &Trialed) -> f64 {
    let timeline = trialed.measured.timeline;
    (timeline.end - timeline.measure_start) as f64 / SECOND as f64
}

fn trial_of(order: &Order, trial: &TrialOrder) -> Result<Trial, Failure> {
    let workload = order.hot_row()?;
    let seed = Seed(order.stream_seed);
    let Load { dop, arrival, rate_steps_per_s, warmup_s, measured_s, .. } = &trial.load;
    let law = match arrival {
        Arrival::Closed => ArrivalLaw::Closed,
        Arrival::Uniform => ArrivalLaw::Uniform,
        Arrival::Poisson => ArrivalLaw::Poisson,
        Arrival::Burst1s => ArrivalLaw::BurstEachSecond,
    };
    let ns = |seconds: f64| (seconds * SECOND as f64).round() as u64;
    let shape = Shape {
        roles: vec![RoleShape {
            clients: workload.clients(*dop),
            arrival: ArrivalPlan { law, rates_per_s: rate_steps_per_s.clone() },
            classes: 0..REQUEST_CLASSES.len(),
            seed,
        }],
        subject: Subject::Counters(workload.tables()),
        warmup_ns: ns(*warmup_s),
        until: Until::Time,
        measured_ns: ns(*measured_s),
        drain_limit_ns: DRAIN_LIMIT_S * SECOND,
        retries_max: trial.load.client.retries,
    };
    Ok(Trial { workload, dataset: order.dataset()?, dop: *dop, seed, shape })
}

/// Forced writes of the log so far: those of this process for a library, the server's own count for a server.
fn log_syncs(asked: &dyn Asked, server: Option<&ServerOrder>) -> Result<Option<u64>, Failure> {
    let Some(server) = server else { return Ok(Some(sync_counter::syncs())) };
    let query = server.log_syncs_query.as_ref();
    Ok(query.map(|query| asked.statement(query)).transpose()?.flatten())
}

/// What the engine's own counters grew by in the whole trial, warm-up and checks included.
pub fn difference(
    after: BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = |(name, count): (String, u64)| {
        let before = before.get(&name).copied().unwrap_or(0);
        (name, count.saturating_sub(before))
    };
    after.into_iter().map(grown).collect()
}

fn derive_from(
    order: &Order,
    trial: &TrialOrder,
    part: &PartOf<'_>,
    trialed: &Trialed,
    observer: &TrialObserver<'_>,
    (syncs, threads): (Option<SyncsSeen>, u32),
) -> Result<Derived, Failure> {
    let (Some(start), Some(end)) = (&observer.start, &observer.end) else {
        return Err(Failure::other("the measured interval was not sampled"));
    };
    derive(&Raw {
        step: part.step,
        measured_s: measured_s(trialed),
        boundaries: (start, end),
        completed: observer.completed,
        classes: &observer.due_in_measured,
        unsent: trialed.measured.unsent,
        has_schedule: part.has_schedule,
        counters: trialed.measured.counters,
        acknowledged_in_all: trialed.acknowledged,
        dop: part.dop,
        active_clients: trialed.active_clients,
        cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        is_server: order.engine.server.is_some(),
        settled: part.settled,
        server_memory: observer.server_memory,
        threads,
        syncs,
        clock_read_ns: trial.clock_read_ns,
        null_driver_ns: trial.null_driver_ns,
    })
}

/// Measured, unless the engine broke a promise or could not go on.
fn end_of(
    order: &Order,
    trialed: &Trialed,
    observer: &TrialObserver<'_>,
    seen: Option<SyncsSeen>,
) -> TrialEnd {
    let mut broken = trialed.check.as_ref().map_or(Vec::new(), |check| check.failures.clone());
    let promise = order.engine.log_syncs.zip(seen);
    broken.extend(promise.and_then(|(promise, seen)| promise.contradiction(seen)));
    let wrong_answers = || {
        let classes = observer.due_in_measured.iter();
        let failures = classes.flat_map(|class| &class.failures);
        let wrong = failures.filter(|(failure, _)| failure.class == FailureClass::WrongAnswer);
        wrong.map(|(_, count)| count).sum::<u64>()
    };
    if wrong_answers() > 0 {
        broken
            .push(format!("{} answers to queries were wrong in order or bounds", wrong_answers()));
    }
    if !broken.is_empty() {
        return TrialEnd::Invalid { reason: broken.join("; ") };
    }
    let failures = || observer.due_in_measured.iter().flat_map(|class| &class.failures);
    let described = || {
        let each = failures().map(|(failure, count)| {
            format!("{count} attempts ended {} (code {})", failure.class.name(), failure.code)
        });
        each.collect::<Vec<_>>().join(", ")
    };
    if failures().any(|(failure, _)| failure.class == FailureClass::Full) {
        TrialEnd::Failed { reason: format!("disk or map is full: {}", described()) }
    } else if observer.completed == 0 {
        let reason = format!("no request was completed in the measured interval: {}", described());
        TrialEnd::Failed { reason: reason.trim_end_matches(": ").to_owned() }
    } else {
        TrialEnd::Measured
    }
}

pub fn write_json(
    detail: &mut DetailWriter,
    name: &str,
    value: &serde_json::Value,
) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(value).map_err(Failure::json)?;
    Ok(detail.write_file(name, &text)?)
}

pub fn samples_json(samples: &[Option<BoundarySample>]) -> serde_json::Value {
    let one = |sample: &BoundarySample| {
        let (process, host) = (&sample.process, &sample.host);
        let switches: u64 =
            process.tasks.iter().map(|task| task.voluntary + task.involuntary).sum();
        json!({
            "at_ns": process.opened.at_ns,
            "process": {
                "cpu_ns": process.opened.cpu_ns,
                "user_ticks": process.opened.user_ticks,
                "system_ticks": process.opened.system_ticks,
                "ticks_per_s": process.ticks_per_s,
                "threads": process.tasks.len(),
                "context_switches": switches,
                "io": process.opened.io.as_ref().map(|io| json!({
                    "rchar": io.rchar, "wchar": io.wchar, "syscr": io.syscr, "syscw": io.syscw,
                    "read_bytes": io.read_bytes, "write_bytes": io.write_bytes,
                    "cancelled_write_bytes": io.cancelled_write_bytes,
                })),
                "rss_bytes": process.rss_bytes,
                "peak_rss_bytes": process.peak_rss_bytes,
            },
            "server": sample.server.as_ref().map(|server| json!({
                "at_ns": server.opened_ns,
                "processes": server.processes.len(),
                "cpu_ns": server.processes.iter().map(|process| process.cpu_ns).sum::<u64>(),
                "context_switches": server
                    .processes
                    .iter()
                    .map(|process| process.voluntary + process.involuntary)
                    .sum::<u64>(),
                // A server in front of another: what either of them comes to, by its first process.
                "cpu_ns_by_first_process": server
                    .roots()
                    .map(|root| {
                        let tree = server.processes.iter();
                        let tree = tree.filter(|process| process.root_pid == root.pid);
                        (root.pid.to_string(), tree.map(|process| process.cpu_ns).sum::<u64>())
                    })
                    .collect::<std::collections::BTreeMap<_, _>>(),
            })),
            "workers_cpu_ns": sample.workers_cpu_ns,
            "syncs": sample.syncs,
            "host": {
                "user_ticks": host.ticks.user, "nice_ticks": host.ticks.nice,
                "system_ticks": host.ticks.system, "idle_ticks": host.ticks.idle,
                "iowait_ticks": host.ticks.iowait, "irq_ticks": host.ticks.irq,
                "softirq_ticks": host.ticks.softirq, "steal_ticks": host.ticks.steal,
                "context_switches": host.context_switches,
            },
            "disk": sample.disk.as_ref().map(|disk| json!({
                "reads": disk.reads, "sectors_read": disk.sectors_read,
                "writes": disk.writes, "sectors_written": disk.sectors_written,
                "flushes": disk.flushes, "io_time_ms": disk.io_time_ms,
            })),
        })
    };
    let names = ["measure_start", "measure_end"];
    let named = names.iter().zip(samples).map(|(name, sample)| {
        ((*name).to_owned(), sample.as_ref().map_or(serde_json::Value::Null, one))
    });
    serde_json::Value::Object(named.collect())
}

fn receipt_json(
    order: &Order,
    trial: &TrialOrder,
    (receipt, behind): (&Receipt, Option<&Receipt>),
    seen: Option<SyncsSeen>,
) -> serde_json::Value {
    let server = order.engine.server.as_ref();
    let backend = server.and_then(|server| server.backend.as_deref()).zip(behind);
    // Where clients connected, which the transport chooses among the server's addresses.
    let address = server.and_then(|server| server.server(&trial.load.client.transport).ok());
    json!({
        "engine": order.engine.name,
        "driver": order.engine.driver,
        "version": receipt.version,
        "asked": order.engine.settings,
        "effective": receipt.settings,
        "log_syncs_promised": order.engine.log_syncs,
        "log_syncs_observed": seen.map(|seen| seen.log_syncs),
        "commits_observed": seen.map(|seen| seen.commits),
        "address": address.map(|server| server.address.to_string()),
        "processes": server.map(|server| &server.processes),
        "backend": backend.map(|(backend, receipt)| json!({
            "engine": backend.engine,
            "version": receipt.version,
            "effective": receipt.settings,
        })),
    })
}

pub fn check_json(check: Option<&CheckReport>) -> serde_json::Value {
    check.map_or_else(
        || json!({ "made": false, "reason": "this engine keeps no rows" }),
        |check| {
            json!({
                "made": true,
                "passed": check.passed(),
                "statements": check.statements,
                "failures": check.failures,
                "acknowledged": check.acknowledged,
                "unknown": check.unknown,
                "difference": check.difference,
                "dop": check.dop,
                "active_clients": check.active_clients,
            })
        },
    )
}
