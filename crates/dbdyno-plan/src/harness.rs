//! The parameters that every experiment has beside those of its workload: how the load is offered and for how long.
//!
//! [`PARAMETERS`] declares them; [`Load`] is their resolved form for one trial. `seed`, `device_profile`,
//! `loading` and `load_patience_s` belong to the whole plan and cannot be varied.

use dbdyno_workload::{Kind, Parameter, Setting, Settings};
use serde::{Deserialize, Serialize};

use crate::engine_file::Durability;
use crate::value::{Wanted, rate_steps};

/// Largest seed: JSON readers that hold numbers as doubles still read it exactly.
pub const SEED_MAX: u64 = (1 << 53) - 1;

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// When the client's previous request is done; there is no schedule.
    Closed,
    /// At equal distances.
    Uniform,
    /// At exponentially distributed distances.
    Poisson,
    /// All of a second's requests at its start.
    #[serde(rename = "burst-1s")]
    Burst1s,
}

impl Arrival {
    /// The arrival of one of the names.
    pub(crate) fn by_name(name: &str) -> Option<Arrival> {
        let all = [Arrival::Closed, Arrival::Uniform, Arrival::Poisson, Arrival::Burst1s];
        let place = ARRIVALS.iter().position(|known| *known == name)?;
        all.get(place).copied()
    }
}

pub(crate) const ARRIVALS: &[&str] = &["closed", "uniform", "poisson", "burst-1s"];

pub(crate) const EVERY_BLOCK: &str = "every-block";
const LOADINGS: &[&str] = &["once", EVERY_BLOCK];

const TRANSPORTS: &[&str] = &["own", "unix", "tcp"];
const STATEMENTS: &[&str] = &["prepared", "text"];
const TRANSACTIONS: &[&str] = &["autocommit", "begin-commit"];

/// How clients of a server speak to it. Means nothing to an engine library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLoad {
    /// `own`, `unix` or `tcp`.
    pub transport: String,
    /// `prepared` or `text`.
    pub statements: String,
    /// `autocommit` or `begin-commit`.
    pub transaction: String,
    /// Requests under way per client.
    pub pipeline: u32,
    /// Threads; 0 is a quarter of the cores.
    pub threads: u32,
    /// Attempts after a refused first one.
    pub retries: u32,
}

impl Default for ClientLoad {
    fn default() -> Self {
        ClientLoad {
            transport: "own".to_owned(),
            statements: "prepared".to_owned(),
            transaction: "autocommit".to_owned(),
            pipeline: 1,
            threads: 0,
            retries: 1_000_000,
        }
    }
}

impl ClientLoad {
    /// What is asked of the way of speaking that only a server can do, as `key=value`.
    pub(crate) fn needs_server(&self) -> Vec<String> {
        let usual = ClientLoad::default();
        let mut asked = Vec::new();
        if self.transport != usual.transport {
            asked.push(format!("transport={}", self.transport));
        }
        if self.statements != usual.statements {
            asked.push(format!("statements={}", self.statements));
        }
        if self.transaction != usual.transaction {
            asked.push(format!("transaction={}", self.transaction));
        }
        if self.pipeline != usual.pipeline {
            asked.push(format!("pipeline={}", self.pipeline));
        }
        asked
    }
}

fn check_rate(text: &str) -> Result<(), String> {
    Wanted::Rate.read(&crate::value::Raw::Word(text.to_string())).map(|_| ())
}

/// Every parameter of the harness, for checks and for help texts.
#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    Parameter { name: "dop", kind: Kind::Integer { min: 1, max: 65_536 }, default: "1",
        about: "Concurrent clients." },
    Parameter { name: "arrival", kind: Kind::Choice(ARRIVALS), default: "closed",
        about: "When requests are due: closed (one after another), uniform, poisson or burst-1s." },
    Parameter { name: RATE, kind: Kind::Syntax(check_rate), default: "none",
        about: "Requests per second of all clients; a list splits the measured interval into equal steps." },
    Parameter { name: "durability", kind: Kind::Choice(Durability::NAMES), default: "commit-written",
        about: "How long an acknowledged commit must last: none, delayed, commit-written or commit-sync." },
    Parameter { name: "warmup_s", kind: Kind::Number { min: 0.0, max: 1e6 }, default: "0.5",
        about: "Seconds of load before the measured interval." },
    Parameter { name: "measured_s", kind: Kind::Number { min: 0.01, max: 1e6 }, default: "2.0",
        about: "Seconds of the measured interval." },
    Parameter { name: "transport", kind: Kind::Choice(TRANSPORTS), default: "own",
        about: "How clients reach a server: unix (socket), tcp (loopback port), or own: unix, or what its URL says." },
    Parameter { name: "statements", kind: Kind::Choice(STATEMENTS), default: "prepared",
        about: "How a server gets statements: prepared (binary parameters) or text." },
    Parameter { name: "transaction", kind: Kind::Choice(TRANSACTIONS), default: "autocommit",
        about: "What a request is on a server: autocommit, or begin-commit (three round trips)." },
    Parameter { name: "pipeline", kind: Kind::Integer { min: 1, max: 1_024 }, default: "1",
        about: "Requests that each client of a server may have under way at a time; not with transaction=begin-commit." },
    Parameter { name: "client_threads", kind: Kind::Integer { min: 0, max: 1_024 }, default: "0",
        about: "Threads that serve all clients of a server; 0 is a quarter of the cores, at least one." },
    Parameter { name: "retries", kind: Kind::Integer { min: 0, max: 1_000_000_000 }, default: "1000000",
        about: "How often a refused request is tried again where that can help (deadlock, lock timeout); 0 is never." },
    Parameter { name: CACHE_MB, kind: Kind::Integer { min: 8, max: 16_777_216 }, default: "256",
        about: "Page or block cache of an engine that has one for all its clients, in MiB." },
    Parameter { name: "log_mb", kind: Kind::Integer { min: 32, max: 1_048_576 }, default: "1024",
        about: "Write log that a server may fill between checkpoints, in MiB." },
    Parameter { name: "seed", kind: Kind::Integer { min: 0, max: SEED_MAX }, default: "1",
        about: "Seed of the dataset, the request streams and the order of trials." },
    Parameter { name: "device_profile", kind: Kind::Flag, default: "true",
        about: "Whether the storage device is measured before and after the run." },
    Parameter { name: "loading", kind: Kind::Choice(LOADINGS), default: "once",
        about: "once: a dataset is loaded once and copied for each block; every-block: it is loaded anew for each, and measured." },
    Parameter { name: LOAD_PATIENCE_S, kind: Kind::Integer { min: 1, max: 1_000_000 }, default: "600",
        about: "Seconds without a row more after which loading is given up; what comes after the last row has twelve times as long." },
];

pub(crate) const RATE: &str = "rate";
pub(crate) const CACHE_MB: &str = "cache_mb";
pub(crate) const LOAD_PATIENCE_S: &str = "load_patience_s";
/// Parameters with one value for the whole plan.
pub(crate) const OF_WHOLE_PLAN: &[&str] = &["seed", "device_profile", "loading", LOAD_PATIENCE_S];

/// What a parameter of the harness or of a workload takes.
pub(crate) fn wanted(parameter: &Parameter) -> Wanted<'static> {
    if parameter.name == RATE { Wanted::Rate } else { Wanted::by_kind(&parameter.kind) }
}

/// The load of one trial, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Concurrent clients.
    pub dop: u32,
    /// When requests are due.
    pub arrival: Arrival,
    /// Requests per second of all clients in equal parts of the measured interval; empty for a closed loop.
    pub rate_steps_per_s: Vec<f64>,
    /// How long an acknowledged commit must last.
    pub durability: Durability,
    /// Seconds of load before the measured interval.
    pub warmup_s: f64,
    /// Seconds of the measured interval.
    pub measured_s: f64,
    /// How clients of a server speak to it.
    #[serde(default)]
    pub client: ClientLoad,
}

/// A key whose value does not fit the others, and why.
pub(crate) struct Misfit {
    pub(crate) key: &'static str,
    pub(crate) message: &'static str,
}

impl Load {
    /// The load from settings in which every parameter of the harness has a checked value.
    pub(crate) fn from_settings(settings: &Settings) -> Result<Load, Misfit> {
        let integer = |key: &str| match settings[key] {
            Setting::Integer(value) => value,
            _ => unreachable!("{key} was read as a whole number"),
        };
        let small = |key: &str| u32::try_from(integer(key)).expect("bounds are below 2^32");
        let number = |key: &str| match settings[key] {
            Setting::Number(value) => value,
            _ => unreachable!("{key} was read as a number"),
        };
        let text = |key: &str| match &settings[key] {
            Setting::Text(value) => value.as_str(),
            _ => unreachable!("{key} was read as text"),
        };
        let rate_steps_per_s = match &settings[RATE] {
            Setting::Number(rate) => vec![*rate],
            Setting::Text(steps) => rate_steps(steps).unwrap_or_default(),
            _ => unreachable!("rate was read as a number or steps"),
        };
        let arrival =
            Arrival::by_name(text("arrival")).expect("arrival was read as one of the names");
        match (arrival, rate_steps_per_s.is_empty()) {
            (Arrival::Closed, false) => {
                return Err(Misfit {
                    key: RATE,
                    message: "means nothing when arrival is closed; leave it out or set arrival to \
                              uniform, poisson or burst-1s",
                });
            }
            (Arrival::Uniform | Arrival::Poisson | Arrival::Burst1s, true) => {
                return Err(Misfit {
                    key: "arrival",
                    message: "needs a rate above 0 unless it is closed; set rate",
                });
            }
            _ => {}
        }
        if text("transaction") == "begin-commit" && integer("pipeline") > 1 {
            return Err(Misfit {
                key: "pipeline",
                message: "means nothing when transaction is begin-commit: a connection has one transaction at a time; \
                          leave it out or set transaction to autocommit",
            });
        }
        Ok(Load {
            dop: u32::try_from(integer("dop")).expect("dop was read within its bounds"),
            arrival,
            rate_steps_per_s,
            durability: Durability::by_name(text("durability"))
                .expect("durability was read as one of the names"),
            warmup_s: number("warmup_s"),
            measured_s: number("measured_s"),
            client: ClientLoad {
                transport: text("transport").to_owned(),
                statements: text("statements").to_owned(),
                transaction: text("transaction").to_owned(),
                pipeline: small("pipeline"),
                threads: small("client_threads"),
                retries: small("retries"),
            },
        })
    }
}
