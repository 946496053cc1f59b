//! The detail files of a trial: interval logs, the series per second, host samples, receipt and check.

use crate::failure::Failure;
use dbdyno_load::recorder::{ClassInterval, Interval, Phase};
use dbdyno_record::{DetailWriter, IntervalLogWriter, IntervalTag};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// The role that all clients have in files: classes belong to one role each, so they tell roles apart.
pub const ROLE: &str = "client";

/// Picks one kind of times of a class.
type TimesOf = fn(&ClassInterval) -> &Histogram<u64>;

/// What of an interval is kept as an interval log each.
const LOGS: [(&str, TimesOf); 3] = [
    ("response_time", |class| &class.response_time_ns),
    ("service_time", |class| &class.service_time_ns),
    ("send_lateness", |class| &class.send_lateness_ns),
];

/// One line of `series.jsonl`: one class in one interval. Times in microseconds, of requests due in the interval's
/// phase; counts of requests done in it.
#[derive(Debug, Serialize)]
struct SeriesRow<'a> {
    phase: &'a str,
    start_s: f64,
    length_s: f64,
    role: &'a str,
    class: &'a str,
    completed: u64,
    refused: u64,
    unknown: u64,
    retries: u64,
    service_time_us_p50: f64,
    service_time_us_p99: f64,
    service_time_us_max: f64,
    response_time_us_p50: f64,
    response_time_us_p99: f64,
    response_time_us_max: f64,
    /// Attempts that were not acknowledged, by kind and the engine's own code.
    failures: Vec<FailureCount>,
}

/// How often one kind of failure was met.
#[derive(Debug, Serialize)]
struct FailureCount {
    class: &'static str,
    code: i32,
    count: u64,
}

/// Collects intervals in packed form as they come.
pub struct IntervalFiles {
    classes: Vec<String>,
    first_start: Option<u64>,
    logs: Vec<IntervalLogWriter>,
    series: Vec<u8>,
}

impl IntervalFiles {
    /// For the classes of a workload, with `base` as the wall time of the first interval.
    pub fn new(classes: &[&str], base: SystemTime) -> Result<Self, Failure> {
        let title = |name: &str| format!("{name}_ns");
        Ok(IntervalFiles {
            classes: classes.iter().map(|&class| class.to_owned()).collect(),
            first_start: None,
            logs: LOGS
                .iter()
                .map(|(name, _)| IntervalLogWriter::new(&title(name), base))
                .collect::<Result<_, _>>()?,
            series: Vec::new(),
        })
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval) -> Result<(), Failure> {
        let first = *self.first_start.get_or_insert(interval.start);
        let start = Duration::from_nanos(interval.start - first);
        let length = Duration::from_nanos(interval.end - interval.start);
        let (phase, phase_name) = match interval.phase {
            Phase::Warmup => (dbdyno_record::Phase::WarmUp, "warmup"),
            Phase::Measured => (dbdyno_record::Phase::Measured, "measured"),
            Phase::Tail => (dbdyno_record::Phase::Measured, "tail"),
        };
        for (name, class) in self.classes.iter().zip(&interval.classes) {
            let tag = IntervalTag { phase, role: ROLE.to_owned(), class: name.clone() };
            for ((_, histogram_of), log) in LOGS.iter().zip(&mut self.logs) {
                let histogram = histogram_of(class);
                if !histogram.is_empty() {
                    let histogram = histogram.clone();
                    log.push(&dbdyno_record::Interval {
                        tag: tag.clone(),
                        start,
                        length,
                        histogram,
                    })?;
                }
            }
            let row = series_row(phase_name, (start, length), name, class);
            serde_json::to_writer(&mut self.series, &row).map_err(Failure::json)?;
            self.series.push(b'\n');
        }
        Ok(())
    }

    /// Writes the files, with `prefix` before their names.
    pub fn write(self, detail: &mut DetailWriter, prefix: &str) -> Result<(), Failure> {
        for ((name, _), log) in LOGS.iter().zip(self.logs) {
            detail.write_file(&format!("{prefix}{name}.hlog"), &log.into_bytes())?;
        }
        detail.write_file(&format!("{prefix}series.jsonl"), &self.series)?;
        Ok(())
    }
}

fn series_row<'a>(
    phase: &'a str,
    (start, length): (Duration, Duration),
    name: &'a str,
    class: &ClassInterval,
) -> SeriesRow<'a> {
    let us =
        |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    SeriesRow {
        phase,
        start_s: start.as_secs_f64(),
        length_s: length.as_secs_f64(),
        role: ROLE,
        class: name,
        completed: class.completed,
        refused: class.refused,
        unknown: class.unknown,
        retries: class.retries,
        service_time_us_p50: us(&class.service_time_ns, 0.5),
        service_time_us_p99: us(&class.service_time_ns, 0.99),
        service_time_us_max: class.service_time_ns.max() as f64 / 1e3,
        response_time_us_p50: us(&class.response_time_ns, 0.5),
        response_time_us_p99: us(&class.response_time_ns, 0.99),
        response_time_us_max: class.response_time_ns.max() as f64 / 1e3,
        failures: class
            .failures
            .iter()
            .map(|(failure, &count)| FailureCount {
                class: failure.class.name(),
                code: failure.code,
                count,
            })
            .collect(),
    }
}
