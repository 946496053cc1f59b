//! The closed list of metric names. They are part of the format: one may be added, none renamed or given a new meaning.
//!
//! One operation (`_per_op`) is one acknowledged request. A KB is 1,024 bytes, an MB 1,048,576, as in the tools that
//! the five documents used.

/// A metric: what its name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name, with unit and qualifier last.
    pub name: &'static str,
    /// Unit of its values; empty for words.
    pub unit: &'static str,
    /// Whether it is a word (in the `text` column) and not a number.
    pub is_text: bool,
    /// What it is, in one sentence.
    pub about: &'static str,
}

const fn number(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    Metric { name, unit, is_text: false, about }
}

const fn word(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: "", is_text: true, about }
}

/// Every metric.
pub const METRICS: &[Metric] = &[
    number("throughput_per_s", "1/s", "Acknowledged requests per second of the measured interval."),
    number("service_time_us_mean", "us", "Mean of done - sent."),
    number("service_time_us_p50", "us", "Median of done - sent."),
    number("service_time_us_p95", "us", "95th percentile of done - sent."),
    number("service_time_us_p99", "us", "99th percentile of done - sent."),
    number("service_time_us_p999", "us", "99.9th percentile of done - sent."),
    number("service_time_us_max", "us", "Largest done - sent."),
    number(
        "response_time_us_mean",
        "us",
        "Mean of done - due; a closed loop has no due times and so no response time.",
    ),
    number("response_time_us_p50", "us", "Median of done - due."),
    number("response_time_us_p95", "us", "95th percentile of done - due."),
    number("response_time_us_p99", "us", "99th percentile of done - due."),
    number("response_time_us_p999", "us", "99.9th percentile of done - due."),
    number("response_time_us_max", "us", "Largest done - due."),
    number("send_lateness_us_p50", "us", "Median of sent - due."),
    number("send_lateness_us_p99", "us", "99th percentile of sent - due."),
    number("send_lateness_us_max", "us", "Largest sent - due."),
    number("client_cpu_us_per_op", "us/op", "CPU time of the client process, user and system."),
    number(
        "client_user_cpu_us_per_op",
        "us/op",
        "User CPU time of the client process; sampled by ticks on most kernels.",
    ),
    number(
        "server_cpu_us_per_op",
        "us/op",
        "CPU time of all the engine's processes, user and system.",
    ),
    number(
        "server_user_cpu_us_per_op",
        "us/op",
        "User part of server_cpu_us_per_op; sampled by ticks on most kernels.",
    ),
    number(
        "server_system_cpu_us_per_op",
        "us/op",
        "System part of server_cpu_us_per_op; sampled by ticks on most kernels.",
    ),
    number(
        "server_context_switches_per_op",
        "1/op",
        "Context switches, voluntary and not, of the server's processes.",
    ),
    number(
        "server_read_kb_per_op",
        "KB/op",
        "KB that the server's processes had read from a device.",
    ),
    number(
        "server_write_kb_per_op",
        "KB/op",
        "KB that the server's processes made dirty in files.",
    ),
    number(
        "server_read_calls_per_op",
        "1/op",
        "Read calls of the server's processes, sockets excluded where they use other calls.",
    ),
    number(
        "server_write_calls_per_op",
        "1/op",
        "Write calls of the server's processes, sockets excluded where they use other calls.",
    ),
    number("server_private_mb", "MB", "Private memory of all the server's processes together."),
    number("server_shared_mb", "MB", "Memory that the server's processes share, counted once."),
    number(
        "server_mapped_mb",
        "MB",
        "Files mapped by the server's processes, each page counted once.",
    ),
    number(
        "reconnects",
        "connections",
        "Connections that were lost and opened again, over the whole trial.",
    ),
    number("settle_s", "s", "Time that settling the engine took before the trial."),
    number(
        "settle_debt",
        "items",
        "What settling left of the numbers that it waited for, such as versions not purged.",
    ),
    number("host_cpu_us_per_op", "us/op", "CPU time of the whole host that was not idle."),
    number(
        "process_cpu_us_per_op",
        "us/op",
        "CPU time of client and engine in one process, user and system.",
    ),
    number(
        "process_user_cpu_us_per_op",
        "us/op",
        "User part of process_cpu_us_per_op; sampled by ticks on most kernels.",
    ),
    number(
        "process_system_cpu_us_per_op",
        "us/op",
        "System part of process_cpu_us_per_op; sampled by ticks on most kernels.",
    ),
    number(
        "foreground_cpu_us_per_op",
        "us/op",
        "Part of process_cpu_us_per_op in the threads that send requests.",
    ),
    number(
        "background_cpu_us_per_op",
        "us/op",
        "Part of process_cpu_us_per_op in the engine's own threads.",
    ),
    number(
        "null_driver_ns",
        "ns/op",
        "What a request costs on a driver that does nothing, under the same settings.",
    ),
    number(
        "context_switches_per_op",
        "1/op",
        "Context switches, voluntary and not, of all threads that took part.",
    ),
    number("reads_per_op", "1/op", "Read operations on the storage device."),
    number("read_kb_per_op", "KB/op", "KB read from the storage device."),
    number("writes_per_op", "1/op", "Write operations on the storage device."),
    number("write_kb_per_op", "KB/op", "KB written to the storage device."),
    number(
        "log_syncs_per_commit",
        "1/commit",
        "Observed flushes of the log to the device per acknowledged commit.",
    ),
    number("busy_waits_per_op", "1/op", "How often the engine's busy handler was entered."),
    number("busy_sleep_us_per_op", "us/op", "Time asleep in the engine's busy handler."),
    number("due", "requests", "Requests that were due in the measured interval."),
    number("acknowledged", "requests", "Requests that the engine said it did."),
    number(
        "refused",
        "requests",
        "Requests that the engine said it did not do, retries not counted.",
    ),
    number("unknown", "requests", "Requests without an answer: lost connection, timeout, stop."),
    number(
        "errors",
        "requests",
        "Answers that were errors, whether the request was retried or not.",
    ),
    number("retries", "requests", "Times that a refused request was sent again."),
    number(
        "active_clients",
        "clients",
        "Clients that sent at least one request, to compare with the DOP.",
    ),
    number(
        "rss_mb",
        "MB",
        "Resident memory at the end of the measured interval, client and engine together.",
    ),
    number(
        "load_rows_per_s",
        "1/s",
        "Rows inserted per second while the block's dataset was loaded in key order, ageing and settling not counted; \
         only with loading = every-block.",
    ),
    number("load_s", "s", "Seconds that the block's dataset took: inserting, ageing and settling."),
    number(
        "load_settle_s",
        "s",
        "Seconds of load_s after the last row or update, until everything was on disk and debts were paid.",
    ),
    number(
        "load_cpu_us_per_row",
        "us/row",
        "CPU time of load_s per row, client and engine together, user and system.",
    ),
    number(
        "load_write_kb_per_row",
        "KB/row",
        "KB per row of load_s that client and engine made dirty in files.",
    ),
    number("loaded_mb", "MB", "Disk that the data directory took once it was loaded."),
    number("step_s", "s", "Length of a step: of its measured interval, or of its task."),
    number("data_mb", "MB", "Disk that the data directory takes at the end of the step."),
    number(
        "rows_per_s",
        "1/s",
        "Rows per second that acknowledged requests of the class inserted or deleted; of the task `index`, rows indexed.",
    ),
    number(
        "target_rows_per_s",
        "1/s",
        "Rows per second that the step's schedule wanted of the class.",
    ),
    number("reads_per_s", "1/s", "Read operations on the storage device per second."),
    number("read_mb_per_s", "MB/s", "MB read from the storage device per second."),
    number("writes_per_s", "1/s", "Write operations on the storage device per second."),
    number("write_mb_per_s", "MB/s", "MB written to the storage device per second."),
    number("context_switches_per_s", "1/s", "Context switches of the whole host per second."),
    number(
        "host_cpu_percent",
        "%",
        "CPU time of the whole host that was not idle, as a share of all its CPUs.",
    ),
    number(
        "requests_per_s_p50",
        "1/s",
        "Requests of the class done in the second that half of the step's seconds reach.",
    ),
    number(
        "requests_per_s_p99",
        "1/s",
        "Requests of the class done in the second that 99 % of the step's seconds reach.",
    ),
    word("trial_end", "Measured, Invalid, Unsupported, Failed or NotRun."),
    word("trial_end_reason", "Why the trial did not end Measured."),
];

/// The metric of this name, if it is in the list.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_each_sentence_is_one() {
        for (index, metric) in METRICS.iter().enumerate() {
            let first = METRICS.iter().position(|other| other.name == metric.name);
            assert_eq!(first, Some(index), "{} twice", metric.name);
            assert!(metric.about.ends_with('.'), "{}", metric.name);
            assert_eq!(metric.unit.is_empty(), metric.is_text, "{}", metric.name);
        }
    }

    #[test]
    fn the_names_that_were_promised_are_there() {
        for name in [
            "throughput_per_s",
            "service_time_us_p999",
            "response_time_us_max",
            "client_user_cpu_us_per_op",
            "foreground_cpu_us_per_op",
            "background_cpu_us_per_op",
            "write_kb_per_op",
            "trial_end",
            "trial_end_reason",
        ] {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("latency").is_none());
    }
}
