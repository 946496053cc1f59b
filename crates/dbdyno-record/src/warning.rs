//! Everything that can be wrong with a number, with what it means and one sentence of advice.
//!
//! The list is closed: a reader that meets a warning that it does not know asks for a newer program. A new warning is
//! one variant, and the compiler asks for its sentence, its advice and the metrics that it concerns.

use serde::{Deserialize, Serialize};

/// Something that can be wrong with a number of a trial. Shares are fractions: 0.05 is 5 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Warning {
    /// Too few ticks to split CPU time into user and system.
    CpuCoarse {
        /// Clock ticks of CPU time in the measured interval.
        ticks: u64,
    },
    /// Requests were sent after they were due because the generator could not keep up.
    GeneratorLate {
        /// Share of the requests that were sent late.
        share: f64,
    },
    /// Requests without an answer.
    UnknownOutcomes {
        /// How many.
        count: u64,
    },
    /// Fewer clients sent requests than the DOP says.
    FewClientsActive {
        /// Clients that sent a request.
        active: u32,
        /// Clients asked for.
        dop: u32,
    },
    /// Reading the clock is slow on this host.
    ClockSlow {
        /// One read, in ns.
        read_ns: f64,
    },
    /// Times larger than 100 s, which the histograms do not hold.
    OverRange {
        /// How many.
        count: u64,
    },
    /// Other processes used the CPUs.
    HostBusy {
        /// Share of the host's CPU time used by processes outside the trial.
        other_cpu_share: f64,
    },
    /// The hypervisor took CPU time away.
    CpuStolen {
        /// Share of the host's CPU time.
        share: f64,
    },
    /// Only one engine restart, so that there is no spread.
    SingleBlock {},
    /// Requests that were due had not been sent when the interval ended.
    BacklogLeft {
        /// How many.
        requests: u64,
    },
    /// The cgroup's CPU limit stopped the trial.
    ThrottledCgroup {
        /// Share of the enforcement periods that were throttled.
        share: f64,
    },
    /// Writers came to less than the rate that they were to hold.
    TargetMissed {
        /// Achieved rate / wanted rate.
        achieved: f64,
    },
    /// Requests were refused and sent again often.
    RetriesHigh {
        /// Retries per acknowledged request.
        per_request: f64,
    },
    /// Requests were refused for a reason that trying again cannot mend, and given up.
    RequestsRefused {
        /// How many.
        count: u64,
    },
    /// The host moved memory to or from swap.
    SwapUsed {
        /// KB moved in and out in the measured interval.
        kb: u64,
    },
    /// The storage device was faster or slower after the run than before.
    DeviceChanged {
        /// Which figure of the device profile, for example `fsync_per_s`.
        figure: String,
        /// Before the run, in the figure's unit.
        before: f64,
        /// After the run, in the figure's unit.
        after: f64,
    },
    /// Too few requests for the high percentiles.
    LowRequestCount {
        /// Requests in the measured interval.
        count: u64,
    },
    /// The server's processes are not in sight, so what they cost is not known.
    ServerElsewhere {},
    /// The threads that serve the clients had hardly any idle time.
    ClientBusy {
        /// Share of their time on a CPU.
        share: f64,
    },
    /// Settling before the trial was given up at its limit.
    DebtLeft {
        /// What was left, such as versions not purged.
        debt: u64,
    },
}

const TIMES: &[&str] = &["service_time_us_", "response_time_us_", "send_lateness_us_"];
const RESULTS: &[&str] =
    &["throughput_per_s", "service_time_us_", "response_time_us_", "send_lateness_us_"];
const EVERYTHING: &[&str] = &[""];

impl Warning {
    /// Its name, as the record writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Warning::CpuCoarse { .. } => "CpuCoarse",
            Warning::GeneratorLate { .. } => "GeneratorLate",
            Warning::UnknownOutcomes { .. } => "UnknownOutcomes",
            Warning::FewClientsActive { .. } => "FewClientsActive",
            Warning::ClockSlow { .. } => "ClockSlow",
            Warning::OverRange { .. } => "OverRange",
            Warning::HostBusy { .. } => "HostBusy",
            Warning::CpuStolen { .. } => "CpuStolen",
            Warning::SingleBlock {} => "SingleBlock",
            Warning::BacklogLeft { .. } => "BacklogLeft",
            Warning::ThrottledCgroup { .. } => "ThrottledCgroup",
            Warning::TargetMissed { .. } => "TargetMissed",
            Warning::RetriesHigh { .. } => "RetriesHigh",
            Warning::RequestsRefused { .. } => "RequestsRefused",
            Warning::SwapUsed { .. } => "SwapUsed",
            Warning::DeviceChanged { .. } => "DeviceChanged",
            Warning::LowRequestCount { .. } => "LowRequestCount",
            Warning::ServerElsewhere {} => "ServerElsewhere",
            Warning::ClientBusy { .. } => "ClientBusy",
            Warning::DebtLeft { .. } => "DebtLeft",
        }
    }

    /// What it means for the number, with its figures, in one sentence.
    pub fn sentence(&self) -> String {
        match self {
            Warning::CpuCoarse { ticks } => format!(
                "The split into user and system CPU rests on {ticks} clock ticks only, so it may be far off."
            ),
            Warning::GeneratorLate { share } => format!(
                "{} of the requests were sent after they were due, because the generator did not keep up.",
                percent(*share)
            ),
            Warning::UnknownOutcomes { count } => format!(
                "{count} requests got no answer, so the check allows the database to differ by as many."
            ),
            Warning::FewClientsActive { active, dop } => format!(
                "Only {active} of {dop} clients sent requests, so this is a result at DOP {active}."
            ),
            Warning::ClockSlow { read_ns } => format!(
                "One clock read costs {read_ns:.0} ns, which is part of every time and of the CPU per operation."
            ),
            Warning::OverRange { count } => format!(
                "{count} times were above 100 s and are not in the histograms, so percentiles and means are too low."
            ),
            Warning::HostBusy { other_cpu_share } => format!(
                "Other processes used {} of the host's CPU time, so the engine may have got less than it could use.",
                percent(*other_cpu_share)
            ),
            Warning::CpuStolen { share } => format!(
                "The hypervisor took {} of the CPU time away, so the engine looks slower than it is.",
                percent(*share)
            ),
            Warning::SingleBlock {} => {
                "There is one engine restart (n = 1), so nothing is known about the spread."
                    .to_owned()
            }
            Warning::BacklogLeft { requests } => format!(
                "{requests} requests were due but not sent when the interval ended, so response times would grow with time."
            ),
            Warning::ThrottledCgroup { share } => format!(
                "The CPU limit of the cgroup stopped the trial in {} of its periods, so the limit was measured, not the engine.",
                percent(*share)
            ),
            Warning::TargetMissed { achieved } => format!(
                "Writers came to {} of the rate that they were to hold, so queries ran beside fewer writes than others'.",
                percent(*achieved)
            ),
            Warning::RetriesHigh { per_request } => format!(
                "{per_request:.2} retries per acknowledged request, so a good part of the work is not in the throughput."
            ),
            Warning::RequestsRefused { count } => format!(
                "{count} requests were refused and given up, so the throughput is that of the others only."
            ),
            Warning::SwapUsed { kb } => format!(
                "The host moved {kb} KB to or from swap meanwhile, so some waits are for memory and not the engine's."
            ),
            Warning::DeviceChanged { figure, before, after } => format!(
                "The device's {figure} was {before:.0} before the run and {after:.0} after it, so trials of different times may differ for that reason."
            ),
            Warning::LowRequestCount { count } => format!(
                "There were {count} requests only, so the high percentiles are a few single requests."
            ),
            Warning::ServerElsewhere {} => {
                "The server's processes are not in sight, so its CPU, memory and disk are not in the record."
                    .to_owned()
            }
            Warning::ClientBusy { share } => format!(
                "The threads that serve the clients were on a CPU for {} of the time, so the client may be what was measured.",
                percent(*share)
            ),
            Warning::DebtLeft { debt } => format!(
                "Settling before the trial left a debt of {debt}, so the trial paid for what came before it."
            ),
        }
    }

    /// What to do about it, in one sentence.
    pub fn advice(&self) -> &'static str {
        match self {
            Warning::CpuCoarse { .. } => {
                "Measure longer, or look at the sum of user and system, which is exact."
            }
            Warning::GeneratorLate { .. } => {
                "Lower the rate, use fewer clients, or leave the generator cores of its own."
            }
            Warning::UnknownOutcomes { .. } => {
                "Look for lost connections and timeouts in the engine's log."
            }
            Warning::FewClientsActive { .. } => {
                "Use as many clients as the assignment can keep busy, or measure longer."
            }
            Warning::ClockSlow { .. } => {
                "Use a kernel clock source that needs no system call, such as tsc."
            }
            Warning::OverRange { .. } => "Find out why requests stall, or lower the load.",
            Warning::HostBusy { .. } => "Stop what else runs on this host and measure again.",
            Warning::CpuStolen { .. } => {
                "Use a host with CPUs of its own, or measure at a quieter time."
            }
            Warning::SingleBlock {} => "Set `[repeat] count` to 3 or more.",
            Warning::BacklogLeft { .. } => {
                "Lower the rate below the highest throughput of the engine."
            }
            Warning::ThrottledCgroup { .. } => {
                "Raise the CPU limit of the container, or use fewer cores in the experiment."
            }
            Warning::TargetMissed { .. } => {
                "Compare queries only between steps whose writers held their rate, or lower the rate."
            }
            Warning::RetriesHigh { .. } => {
                "Look at the errors by code, and compare the CPU per operation."
            }
            Warning::RequestsRefused { .. } => {
                "Look for the failures by class and code in the trial's series.jsonl."
            }
            Warning::SwapUsed { .. } => {
                "Use a smaller dataset or engine cache, or switch swap off."
            }
            Warning::DeviceChanged { .. } => "Let the device rest or trim it, then measure again.",
            Warning::LowRequestCount { .. } => "Measure longer before you read p99 and above.",
            Warning::ServerElsewhere {} => {
                "Run dbdyno on the server's host, or let dbdyno start the server."
            }
            Warning::ClientBusy { .. } => "Give the clients more threads with client_threads.",
            Warning::DebtLeft { .. } => "Raise the limit in the engine file's settle steps.",
        }
    }

    /// Beginnings of the names of the metrics that it concerns; the empty beginning is every metric.
    pub fn applies_to(&self) -> &'static [&'static str] {
        match self {
            Warning::CpuCoarse { .. } => {
                &["client_user_cpu_", "process_user_cpu_", "process_system_cpu_"]
            }
            Warning::GeneratorLate { .. } => RESULTS,
            Warning::UnknownOutcomes { .. } => &["throughput_per_s", "acknowledged", "unknown"],
            Warning::FewClientsActive { .. } => &["throughput_per_s", "active_clients"],
            Warning::ClockSlow { .. } => &[
                "service_time_us_",
                "response_time_us_",
                "client_",
                "process_",
                "foreground_",
                "null_driver_ns",
            ],
            Warning::OverRange { .. } => TIMES,
            Warning::HostBusy { .. } => EVERYTHING,
            Warning::CpuStolen { .. } => EVERYTHING,
            Warning::SingleBlock {} => EVERYTHING,
            Warning::BacklogLeft { .. } => {
                &["throughput_per_s", "response_time_us_", "send_lateness_us_"]
            }
            Warning::ThrottledCgroup { .. } => RESULTS,
            Warning::TargetMissed { .. } => EVERYTHING,
            Warning::RetriesHigh { .. } => &[
                "throughput_per_s",
                "retries",
                "errors",
                "client_",
                "server_",
                "process_",
                "foreground_",
            ],
            Warning::RequestsRefused { .. } => &["throughput_per_s", "refused", "errors"],
            Warning::SwapUsed { .. } => EVERYTHING,
            Warning::DeviceChanged { .. } => &[
                "throughput_per_s",
                "service_time_us_",
                "response_time_us_",
                "log_syncs_per_commit",
            ],
            Warning::LowRequestCount { .. } => &[
                "service_time_us_p9",
                "service_time_us_max",
                "response_time_us_p9",
                "response_time_us_max",
            ],
            Warning::ServerElsewhere {} => &["server_", "context_switches_per_op", "host_cpu_"],
            Warning::ClientBusy { .. } => RESULTS,
            Warning::DebtLeft { .. } => RESULTS,
        }
    }

    /// Whether it concerns the metric of this name.
    pub fn concerns(&self, metric: &str) -> bool {
        self.applies_to().iter().any(|beginning| metric.starts_with(beginning))
    }

    /// Whether all of its figures are finite, so that JSON can hold them.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Warning::GeneratorLate { share }
            | Warning::CpuStolen { share }
            | Warning::ThrottledCgroup { share } => share.is_finite(),
            Warning::TargetMissed { achieved } => achieved.is_finite(),
            Warning::ClockSlow { read_ns } => read_ns.is_finite(),
            Warning::HostBusy { other_cpu_share } => other_cpu_share.is_finite(),
            Warning::RetriesHigh { per_request } => per_request.is_finite(),
            Warning::ClientBusy { share } => share.is_finite(),
            Warning::DeviceChanged { before, after, .. } => before.is_finite() && after.is_finite(),
            Warning::CpuCoarse { .. }
            | Warning::UnknownOutcomes { .. }
            | Warning::FewClientsActive { .. }
            | Warning::OverRange { .. }
            | Warning::SingleBlock {}
            | Warning::BacklogLeft { .. }
            | Warning::RequestsRefused { .. }
            | Warning::SwapUsed { .. }
            | Warning::ServerElsewhere {}
            | Warning::DebtLeft { .. }
            | Warning::LowRequestCount { .. } => true,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::METRICS;

    fn one_of_each() -> Vec<Warning> {
        vec![
            Warning::CpuCoarse { ticks: 3 },
            Warning::GeneratorLate { share: 0.125 },
            Warning::UnknownOutcomes { count: 2 },
            Warning::FewClientsActive { active: 3, dop: 8 },
            Warning::ClockSlow { read_ns: 710.0 },
            Warning::OverRange { count: 1 },
            Warning::HostBusy { other_cpu_share: 0.3 },
            Warning::CpuStolen { share: 0.02 },
            Warning::SingleBlock {},
            Warning::BacklogLeft { requests: 77 },
            Warning::ThrottledCgroup { share: 0.5 },
            Warning::TargetMissed { achieved: 0.9 },
            Warning::RetriesHigh { per_request: 1.5 },
            Warning::RequestsRefused { count: 9 },
            Warning::SwapUsed { kb: 4 },
            Warning::DeviceChanged { figure: "fsync_per_s".into(), before: 900.0, after: 300.0 },
            Warning::LowRequestCount { count: 40 },
            Warning::ServerElsewhere {},
            Warning::ClientBusy { share: 0.97 },
            Warning::DebtLeft { debt: 7 },
        ]
    }

    #[test]
    fn each_warning_speaks_in_sentences_concerns_a_metric_and_survives_json() {
        for warning in one_of_each() {
            let json = serde_json::to_string(&warning).unwrap();
            assert!(json.starts_with(&format!("{{\"{}\":{{", warning.name())), "{json}");
            assert_eq!(serde_json::from_str::<Warning>(&json).unwrap(), warning);
            assert!(warning.sentence().ends_with('.'), "{}", warning.sentence());
            assert!(warning.advice().ends_with('.'), "{}", warning.advice());
            for beginning in warning.applies_to() {
                let known = METRICS.iter().any(|metric| metric.name.starts_with(beginning));
                assert!(known, "{} concerns {beginning}, which is no metric", warning.name());
            }
        }
    }

    #[test]
    fn sentences_carry_the_figures() {
        let late = Warning::GeneratorLate { share: 0.125 };
        assert!(late.sentence().starts_with("12.5 % of the requests"));
        assert!(late.concerns("response_time_us_p99"));
        assert!(!late.concerns("rss_mb"));
    }
}
