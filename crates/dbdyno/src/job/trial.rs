//! One trial, from opening the engine to the record of how it went.

use super::asked::Asked;
use super::effective;
use super::load_cost::LoadCost;
use super::server::{BackendOrder, ServerOrder};
use super::settle::{self, Settled};
use super::{Order, Report, TrialOrder, tell};
use crate::failure::Failure;
use crate::trial::derive::{Derived, Raw, derive};
use crate::trial::detail::IntervalFiles;
use crate::trial::files::Files;
use crate::trial::observe::TrialObserver;
use dbdyno_host::probe::disk::DiskProbe;
use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Driver, Receipt};
use dbdyno_load::measure::{RoleShape, Shape, Subject, Until};
use dbdyno_load::outcome::FailureClass;
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
const DRAIN_LIMIT_S: u64 = 30;

/// Measures the trial, writes its detail files and returns its record.
///
/// # Errors
/// The engine's or the disk's; the parent records the trial as Failed, unless there is no room for any trial.
pub fn measure(
    order: &Order,
    trial: &TrialOrder,
    engine_version: &mut String,
) -> Result<TrialRecord, Failure> {
    with_driver!(order.engine.driver.as_str(), D => measure_on::<D>(order, trial, engine_version))
}

fn measure_on<D: Driver>(
    order: &Order,
    trial: &TrialOrder,
    engine_version: &mut String,
) -> Result<TrialRecord, Failure> {
    let started = (SystemTime::now(), Instant::now());
    let what = trial_of(order, trial)?;
    let server = order.engine.server.as_ref();
    let behind = server.and_then(|server| server.backend.as_deref());
    let behind_driver = behind.map(BackendOrder::open).transpose()?;
    let driver = D::open(&order.open_options(what.shape.clients(), &trial.load.client)?)?;
    let receipt = driver.receipt()?;
    engine_version.clone_from(&receipt.version);
    // Whoever has the data answers for them.
    let keeper: &dyn Asked = match &behind_driver {
        Some(behind) => &**behind,
        None => &driver,
    };
    let keeper_order = behind.map(|backend| &backend.server).or(server);
    let behind_receipt = behind_driver.as_ref().map(|driver| driver.receipt()).transpose()?;
    if server.is_some() {
        let settings = &behind_receipt.as_ref().unwrap_or(&receipt).settings;
        effective::check_promise(&order.engine.promised_settings, settings)?;
        effective::check_connections(what.shape.clients(), &receipt.settings)?;
    }
    if !D::KEEPS_FILES {
        dataset::load(&driver, &what.dataset, &mut |_| ())?;
    }
    let settled = server
        .map(|server| settle::settle(keeper, &server.settle, what.workload.tables()))
        .transpose()?;
    let mut live = |rate| tell(&Report::Rate(rate));
    let disk = DiskProbe::of_directory(&order.engine.data_directory).ok();
    let files = IntervalFiles::new(REQUEST_CLASSES, SystemTime::now())?;
    let processes = server.map_or(&[][..], |server| server.processes.as_slice());
    let mut observer = TrialObserver::new(disk, processes, REQUEST_CLASSES, files, &mut live);
    let syncs_before = log_syncs(keeper, keeper_order)?;
    let statistics_before = driver.statistics()?;
    let trialed = hot_row::run(&driver, &what, &mut observer)?;
    // Over the whole trial, when nothing is under way: within the measured interval syncs and commits cannot be counted
    // at the same instant, and a busy host makes the gap long enough to look like a broken promise.
    let syncs_after = log_syncs(keeper, keeper_order)?;
    let seen = syncs_before.zip(syncs_after).map(|(before, after)| SyncsSeen {
        log_syncs: after.saturating_sub(before),
        commits: trialed.acknowledged,
        dop: what.shape.clients() * trial.load.client.pipeline,
    });
    let statistics = difference(driver.statistics()?, &statistics_before);
    let threads = driver.threads(what.shape.clients());
    let is_ours = server.is_some_and(|server| !server.is_named);
    let engine_files = is_ours.then(|| Files::below(&order.engine.data_directory));
    // Closing is part of the trial: what an engine does then must not fall on the next one.
    drop((driver, behind_driver));
    if let Some(error) = observer.error.take() {
        return Err(error);
    }
    if observer.disk_full > 0 {
        let what = format!("{} requests found no room on the disk", observer.disk_full);
        return Err(Failure::disk_full(&what));
    }
    let mut derived =
        derive_from(order, trial, &what, &trialed, &observer, (settled, seen, threads))?;
    let end = end_of(order, &trialed, &observer, seen);
    for (name, value) in trial.load_cost.iter().flat_map(LoadCost::metrics) {
        derived.put(name, value);
    }
    if let Some(files) = &engine_files {
        derived.put("server_files_mb", files.bytes as f64 / f64::from(1 << 20));
    }
    let mut detail = DetailWriter::create(&trial.run_directory, trial.record.trial)?;
    let TrialObserver { files, start, end: end_sample, .. } = observer;
    files.write(&mut detail)?;
    write_json(&mut detail, "host_samples.json", &samples_json(&[start, end_sample]))?;
    let receipts = (&receipt, behind_receipt.as_ref());
    write_json(&mut detail, "receipt.json", &receipt_json(order, trial, receipts, seen))?;
    if let Some(files) = &engine_files {
        write_json(&mut detail, "files.json", &files.as_json())?;
    }
    if !statistics.is_empty() {
        write_json(&mut detail, "engine_statistics.json", &json!(statistics))?;
    }
    write_json(&mut detail, "check.json", &check_json(trialed.check.as_ref()))?;
    Ok(TrialRecord {
        engine_version: receipt.version,
        started_utc: utc_text(started.0),
        duration_s: started.1.elapsed().as_secs_f64(),
        end,
        observations: derived.observations,
        warnings: derived.warnings,
        files: detail.finish()?,
        ..trial.record.clone()
    })
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
fn difference(
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
    what: &Trial,
    trialed: &Trialed,
    observer: &TrialObserver<'_>,
    (settled, syncs, threads): (Option<Settled>, Option<SyncsSeen>, u32),
) -> Result<Derived, Failure> {
    let (Some(start), Some(end)) = (&observer.start, &observer.end) else {
        return Err(Failure::other("the measured interval was not sampled"));
    };
    derive(&Raw {
        measured_s: what.shape.measured_ns as f64 / SECOND as f64,
        boundaries: (start, end),
        completed: observer.completed,
        classes: &observer.due_in_measured,
        unsent: trialed.measured.unsent,
        has_schedule: trial.load.arrival != Arrival::Closed,
        counters: trialed.measured.counters,
        acknowledged_in_all: trialed.acknowledged,
        dop: trial.load.dop,
        active_clients: trialed.active_clients,
        cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        is_server: order.engine.server.is_some(),
        settled,
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

fn write_json(
    detail: &mut DetailWriter,
    name: &str,
    value: &serde_json::Value,
) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(value).map_err(Failure::json)?;
    Ok(detail.write_file(name, &text)?)
}

fn samples_json(samples: &[Option<crate::trial::observe::BoundarySample>]) -> serde_json::Value {
    let one = |sample: &crate::trial::observe::BoundarySample| {
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

fn check_json(check: Option<&CheckReport>) -> serde_json::Value {
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
