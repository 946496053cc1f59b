//! A trial of several steps on tables with secondary indexes: each is measured for itself, on what the one before left.
//!
//! The engine stays open from the first step to the last, so that caches and debts go from one to the next as they do
//! where such a benchmark is run by hand. What a step found is kept even if a later one fails.

use super::trial::{
    DRAIN_LIMIT_S, Opened, Part, PartOf, Receipts, Started, check_json, samples_json, write_json,
    write_receipts,
};
use super::{Order, TrialOrder};
use crate::exit_code;
use crate::failure::Failure;
use crate::trial::derive::Derived;
use crate::trial::files::Files;
use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::Driver;
use dbdyno_load::measure::Until;
use dbdyno_load::recorder::ClassInterval;
use dbdyno_load::tables::TableUse;
use dbdyno_load::trial::insert_benchmark::{InsertTrial, Step, StepRole};
use dbdyno_plan::{Arrival, PlannedRole, PlannedStep, StepWork, SyncsSeen};
use dbdyno_record::{
    DetailWriter, Observation, StepRecord, TrialEnd, TrialRecord, Warning, utc_text,
};
use dbdyno_workload::insert_benchmark::{DRAIN, INDEX, REQUEST_CLASSES, Role};
use dbdyno_workload::{InsertBenchmark, Seed};

/// The classes of queries among [`REQUEST_CLASSES`].
const QUERY_CLASSES: std::ops::Range<usize> = 2..6;
/// A writer that came to less than this share of its rate has missed it.
const TARGET_MET: f64 = 0.98;

/// Measures every step, writes the trial's detail files and returns its record.
///
/// # Errors
/// Those of opening the engine, and if there is no room on the disk. What goes wrong in a step ends the trial, and is in
/// its record.
pub fn measure<D: Driver>(
    order: &Order,
    trial: &TrialOrder,
    engine_version: &mut String,
) -> Result<TrialRecord, Failure> {
    let started = Started::now();
    let workload = order.insert_benchmark()?;
    let clients = trial.steps.iter().map(PlannedStep::clients).max().unwrap_or(1).max(1);
    let opened = Opened::<D>::open(order, trial, clients, engine_version)?;
    let seed = Seed(order.dataset_seed);
    let bench = InsertTrial::begin(&opened.driver, workload, seed, order.clients)?;
    let detail = DetailWriter::create(&trial.run_directory, trial.record.trial)?;
    let mut going =
        Going { order, trial, workload, opened: &opened, bench, detail, done: Done::default() };
    let failed = going.all_steps()?;
    let Going { bench, mut detail, mut done, .. } = going;
    match failed {
        Some(reason) => done.end = TrialEnd::Failed { reason },
        None => match bench.check_whole() {
            Ok(check) => {
                write_json(&mut detail, "check.json", &check_json(Some(&check)))?;
                done.invalid.extend(check.failures);
                if !done.invalid.is_empty() {
                    done.end = TrialEnd::Invalid { reason: done.invalid.join("; ") };
                }
            }
            Err(error) => {
                done.end = TrialEnd::Failed { reason: format!("the check at the end: {error}") };
            }
        },
    }
    drop(bench);
    let (receipts, files) = opened.close(order);
    write_receipts(&mut detail, order, trial, &receipts, done.seen)?;
    if let Some(files) = &files {
        write_json(&mut detail, "files.json", &files.as_json())?;
    }
    let Receipts { own, .. } = receipts;
    Ok(TrialRecord {
        engine_version: own.version,
        started_utc: utc_text(started.at),
        duration_s: started.since.elapsed().as_secs_f64(),
        end: done.end,
        observations: done.observations,
        warnings: Vec::new(),
        steps: done.steps,
        files: detail.finish()?,
        ..trial.record.clone()
    })
}

/// What the steps so far came to.
struct Done {
    observations: Vec<Observation>,
    steps: Vec<StepRecord>,
    /// Why numbers must not be shown, if they must not.
    invalid: Vec<String>,
    end: TrialEnd,
    seen: Option<SyncsSeen>,
}

impl Default for Done {
    fn default() -> Self {
        Done {
            observations: Vec::new(),
            steps: Vec::new(),
            invalid: Vec::new(),
            end: TrialEnd::Measured,
            seen: None,
        }
    }
}

/// A trial that goes through its steps.
struct Going<'a, D> {
    order: &'a Order,
    trial: &'a TrialOrder,
    workload: InsertBenchmark,
    opened: &'a Opened<D>,
    bench: InsertTrial<'a, D>,
    detail: DetailWriter,
    done: Done,
}

impl<D: Driver> Going<'_, D> {
    /// Runs every step. Returns what went wrong, if something did.
    ///
    /// # Errors
    /// If there is no room on the disk.
    fn all_steps(&mut self) -> Result<Option<String>, Failure> {
        for (number, step) in (0..).zip(&self.trial.steps) {
            let started = Started::now();
            let part = match &step.work {
                StepWork::Task(task) => self.task(step, task),
                StepWork::Rows(_) | StepWork::Seconds(_) => self.with_clients(number, step),
            };
            let part = match part.and_then(Part::finished) {
                Ok(mut part) => {
                    let files = Files::below(&self.order.engine.data_directory);
                    part.derived.put("data_mb", files.bytes as f64 / f64::from(1 << 20));
                    part
                }
                Err(failure) if failure.code == exit_code::CANNOT_WRITE => return Err(failure),
                Err(failure) => return Ok(Some(format!("step {}: {failure}", step.name))),
            };
            if let Some(failed) = self.keep(step, &started, part)? {
                return Ok(Some(failed));
            }
        }
        Ok(None)
    }

    /// Puts a step's numbers and files into the record. Returns why the trial cannot go on, if it cannot.
    fn keep(
        &mut self,
        step: &PlannedStep,
        started: &Started,
        part: Part,
    ) -> Result<Option<String>, Failure> {
        let Part { derived, end, files, samples, check, measured_s, seen, .. } = part;
        let prefix = format!("{}.", step.name);
        files.write(&mut self.detail, &prefix)?;
        write_json(
            &mut self.detail,
            &format!("{prefix}host_samples.json"),
            &samples_json(&samples),
        )?;
        if check.is_some() {
            write_json(
                &mut self.detail,
                &format!("{prefix}check.json"),
                &check_json(check.as_ref()),
            )?;
        }
        self.done.seen = seen.or(self.done.seen);
        self.done.observations.extend(derived.observations);
        self.done.steps.push(StepRecord {
            step: step.name.clone(),
            started_utc: utc_text(started.at),
            seconds: measured_s,
            warnings: derived.warnings,
        });
        match end {
            TrialEnd::Measured => Ok(None),
            TrialEnd::Invalid { reason } => {
                self.done.invalid.push(format!("step {}: {reason}", step.name));
                Ok(None)
            }
            other => {
                Ok(Some(format!("step {}: {}", step.name, other.reason().unwrap_or_default())))
            }
        }
    }

    /// A step of clients' requests.
    fn with_clients(&mut self, number: u64, step: &PlannedStep) -> Result<Part, Failure> {
        let until = match step.work {
            StepWork::Seconds(_) => Until::Time,
            StepWork::Rows(_) | StepWork::Task(_) => Until::StreamsOver,
        };
        let rows_max = match step.work {
            StepWork::Rows(rows) => Some(rows),
            _ => None,
        };
        let roles = step.roles.iter().map(|role| self.role(role, rows_max));
        let plan = Step {
            roles: roles.collect::<Result<_, _>>()?,
            until,
            limit_ns: (step.limit_s() * SECOND as f64).round() as u64,
            drain_limit_ns: DRAIN_LIMIT_S * SECOND,
            retries_max: self.trial.load.client.retries,
            seed: Seed(self.order.stream_seed).derive("step", number),
        };
        let part = PartOf {
            step: &step.name,
            classes: REQUEST_CLASSES,
            clients: step.clients(),
            dop: step.clients(),
            has_schedule: step.roles.iter().any(|role| role.arrival != Arrival::Closed),
            settled: None,
        };
        let (order, trial, opened) = (self.order, self.trial, self.opened);
        let before = self.bench.rows_changed();
        let mut part =
            opened.measure(order, trial, &part, |observer| self.bench.step(&plan, observer))?;
        let after = self.bench.rows_changed();
        let rows = [("insert", after.0 - before.0), ("delete", after.1 - before.1)];
        put_classes(&mut part, step, &rows);
        Ok(part)
    }

    fn role(&self, role: &PlannedRole, rows_max: Option<u64>) -> Result<StepRole, Failure> {
        let kind = Role::by_name(&role.role)
            .ok_or_else(|| Failure::other(format!("there is no role {}", role.role)))?;
        if let Some(reason) = self.workload.not_possible(kind) {
            return Err(Failure::other(reason));
        }
        let law = match role.arrival {
            Arrival::Closed => ArrivalLaw::Closed,
            Arrival::Uniform => ArrivalLaw::Uniform,
            Arrival::Poisson => ArrivalLaw::Poisson,
            Arrival::Burst1s => ArrivalLaw::BurstEachSecond,
        };
        let requests_per_s =
            |rate: f64| rate * f64::from(role.clients) / f64::from(role.rows_per_request.max(1));
        Ok(StepRole {
            role: kind,
            clients: role.clients,
            arrival: ArrivalPlan {
                law,
                rates_per_s: role.rate_per_s.map(requests_per_s).into_iter().collect(),
            },
            rows_per_commit: role.rows_per_request.max(1) as u16,
            rows_max: rows_max.filter(|_| kind == Role::Insert),
        })
    }

    /// A step that the engine does alone.
    fn task(&mut self, step: &PlannedStep, task: &str) -> Result<Part, Failure> {
        let rows = self.bench.rows();
        let (order, trial, opened) = (self.order, self.trial, self.opened);
        let names: Vec<String> = (0..self.bench.tables()).map(TableUse::table_name).collect();
        let bench = &mut self.bench;
        let mut settled = None;
        let mut part = opened.measure_task(order, trial, &step.name, rows, || match task {
            INDEX => Ok(bench.make_indexes()?),
            DRAIN => {
                settled = opened.settle(order, &names)?;
                Ok(opened.driver.settle()?)
            }
            other => Err(Failure::other(format!("there is no task {other}"))),
        })?;
        if task == INDEX {
            part.derived.put("rows_per_s", rows as f64 / part.measured_s);
        }
        if let Some(settled) = settled {
            part.derived.put("settle_debt", settled.debt as f64);
            if settled.gave_up {
                part.derived.warnings.push(Warning::DebtLeft { debt: settled.debt });
            }
        }
        Ok(part)
    }
}

/// Numbers of one class of requests.
fn put_class(
    derived: &mut Derived,
    name: &str,
    class: &ClassInterval,
    per_second: &[u64],
    measured_s: f64,
) {
    if class.completed == 0 {
        return;
    }
    derived.put_of(name, "throughput_per_s", class.completed as f64 / measured_s);
    derived.put_times(name, "service_time_us", &class.service_time_ns);
    if !class.send_lateness_ns.is_empty() {
        derived.put_times(name, "response_time_us", &class.response_time_ns);
    }
    let mut seconds = per_second.to_vec();
    seconds.sort_unstable_by(|a, b| b.cmp(a));
    for (metric, share) in [("requests_per_s_p50", 0.5), ("requests_per_s_p99", 0.99)] {
        // The rank in descending order, as in the tables of document 004.
        let rank = (seconds.len() as f64 * share) as usize;
        if let Some(&requests) = seconds.get(rank.min(seconds.len().saturating_sub(1))) {
            derived.put_of(name, metric, requests as f64);
        }
    }
}

/// All queries together, whatever their index.
fn put_queries(part: &mut Part) {
    let mut all = ClassInterval::default();
    part.classes[QUERY_CLASSES].iter().for_each(|class| all.add(class));
    if all.completed == 0 {
        return;
    }
    let seconds = part.per_second[QUERY_CLASSES][0].len();
    let in_second = |second: usize| -> u64 {
        part.per_second[QUERY_CLASSES].iter().filter_map(|class| class.get(second)).sum()
    };
    let per_second: Vec<u64> = (0..seconds).map(in_second).collect();
    put_class(&mut part.derived, "query", &all, &per_second, part.measured_s);
}

/// Numbers of each class of requests that there was.
fn put_classes(part: &mut Part, step: &PlannedStep, rows: &[(&str, u64)]) {
    let measured_s = part.measured_s;
    for ((name, class), per_second) in
        REQUEST_CLASSES.iter().zip(&part.classes).zip(&part.per_second)
    {
        put_class(&mut part.derived, name, class, per_second, measured_s);
    }
    put_queries(part);
    let derived: &mut Derived = &mut part.derived;
    for &(name, rows) in rows.iter().filter(|(_, rows)| *rows > 0) {
        let rows_per_s = rows as f64 / measured_s;
        derived.put_of(name, "rows_per_s", rows_per_s);
        let role = step.roles.iter().find(|role| role.role == name);
        let rate = role.and_then(|role| Some(role.rate_per_s? * f64::from(role.clients)));
        if let Some(target) = rate {
            derived.put_of(name, "target_rows_per_s", target);
            let achieved = rows_per_s / target;
            if achieved < TARGET_MET {
                derived.warnings.push(Warning::TargetMissed { achieved });
            }
        }
    }
}
