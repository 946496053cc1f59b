//! Steps of a trial: as `[[step]]` of an experiment writes them, and resolved for one cell.
//!
//! The steps of a trial go on with the state that the one before left. A step is clients with roles, until a number of
//! rows or seconds is through, or a task of the workload. An amount may be the name of one of the workload's parameters, so
//! that scales and `--set` change it.

use std::fmt;

use dbdyno_workload::{RoleEntry, Setting, Settings, WorkloadEntry};
use serde::{Deserialize, Serialize};

use crate::harness::{ARRIVALS, Arrival};
use crate::input_error::{InputError, Place};
use crate::nearest::suggestion;
use crate::toml_reader::{Entry, Table};
use crate::value::Raw;

/// Most rows of a step, and most rows of a request.
const ROWS_MAX: u64 = 1_000_000_000_000;
const ROWS_PER_REQUEST_MAX: u64 = 10_000;
/// The longest that a step may take that no time ends.
const A_DAY_S: f64 = 86_400.0;
/// How much slower than in bulk rows go into tables with secondary indexes, one small transaction after another: a guess
/// for estimates.
const SLOWER_THAN_LOADING: f64 = 5.0;

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Name, such as `l.i0`.
    pub name: String,
    /// What it does, or for how long.
    pub work: StepWork,
    /// Who sends requests; empty for a task.
    pub roles: Vec<PlannedRole>,
}

/// What ends a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepWork {
    /// Every client has gone through so many rows.
    Rows(u64),
    /// So many seconds are over.
    Seconds(f64),
    /// This task of the workload is done.
    Task(String),
}

/// Clients of a step that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRole {
    /// One of the workload's roles.
    pub role: String,
    /// Concurrent clients.
    pub clients: u32,
    /// When their requests are due.
    pub arrival: Arrival,
    /// Rows per second of each client, or requests where a request is not for rows; nothing in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Rows of a request. Never more than a second's at the rate, as in the tools that this follows.
    pub rows_per_request: u32,
}

/// A number, or the name of a parameter that has it, and what part of it is meant.
#[derive(Debug, Clone, PartialEq)]
struct Amount {
    entry: Entry,
    share: f64,
}

/// A step as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    name: String,
    end: End,
    roles: Vec<Role>,
}

#[derive(Debug, Clone, PartialEq)]
enum End {
    Rows(Amount),
    Seconds(Amount),
    Task(String),
}

#[derive(Debug, Clone, PartialEq)]
struct Role {
    name: String,
    /// As many as the DOP, if nothing is said.
    clients: Option<u32>,
    arrival: Arrival,
    rate_per_s: Option<f64>,
    rows_per_request: u32,
}

/// Reads `[[step]]` and holds it against the workload.
pub(crate) fn read_steps(
    entry: Option<&Entry>,
    workload: &WorkloadEntry,
    file: &Place,
) -> Result<Vec<Step>, InputError> {
    let Some(entry) = entry else {
        if workload.roles.is_empty() {
            return Ok(vec![]);
        }
        let message = format!(
            "workload {} is made of steps; list them as [[step]] with a name each",
            workload.name
        );
        return Err(InputError::about_key(file.clone(), "step", message));
    };
    if workload.roles.is_empty() {
        return Err(
            entry.wrong(&format!("means nothing to workload {}; leave it out", workload.name))
        );
    }
    let mut steps: Vec<Step> = Vec::new();
    for item in entry.items()? {
        let step = read_step(item.clone().into_table()?, workload)?;
        if steps.iter().any(|earlier| earlier.name == step.name) {
            return Err(item.wrong(&format!("has the name \"{}\" twice; rename one", step.name)));
        }
        steps.push(step);
    }
    Ok(steps)
}

fn read_step(mut table: Table, workload: &WorkloadEntry) -> Result<Step, InputError> {
    let name_entry = table.required("name")?;
    let name = name_entry.name()?;
    let share = table.optional("share");
    let share_of = |entry: &Option<Entry>| {
        entry.as_ref().map_or(Ok(1.0), |entry| entry.number(f64::MIN_POSITIVE..=1.0))
    };
    let [rows, seconds, task] = ["rows", "seconds", "task"].map(|key| table.optional(key));
    let end = match (rows, seconds, task) {
        (Some(entry), None, None) => End::Rows(Amount { entry, share: share_of(&share)? }),
        (None, Some(entry), None) => End::Seconds(Amount { entry, share: share_of(&share)? }),
        (None, None, Some(entry)) => End::Task(entry.word(workload.tasks)?),
        _ => {
            return Err(name_entry
                .wrong(&format!("names step {name}, which needs one of rows, seconds and task")));
        }
    };
    let mut roles = Vec::new();
    for known in workload.roles {
        if let Some(entry) = table.optional(known.name) {
            if matches!(end, End::Rows(_)) && !known.counts_rows {
                return Err(entry.wrong(&format!(
                    "goes through no rows, which are to end step {name}; give it seconds"
                )));
            }
            roles.push(read_role(entry.into_table()?, known)?);
        }
    }
    table.finish()?;
    match (&end, roles.is_empty()) {
        (End::Task(task), false) => Err(name_entry.wrong(&format!(
            "names step {name}, whose task {task} has no clients; leave roles out"
        ))),
        (End::Rows(_) | End::Seconds(_), true) => {
            let known: Vec<&str> = workload.roles.iter().map(|role| role.name).collect();
            Err(name_entry.wrong(&format!(
                "names step {name}, which needs clients: one of {}",
                known.join(", ")
            )))
        }
        _ => Ok(Step { name, end, roles }),
    }
}

fn read_role(mut table: Table, known: &RoleEntry) -> Result<Role, InputError> {
    let number = |entry: &Entry, most: u64| {
        entry.integer(1..=most).map(|value| u32::try_from(value).expect("a small bound"))
    };
    let clients = table.optional("clients").map(|entry| number(&entry, 65_536)).transpose()?;
    let rate = table.optional("rate").map(|entry| entry.number(0.001..=1e9)).transpose()?;
    let arrival_entry = table.optional("arrival");
    let arrival = match &arrival_entry {
        Some(entry) => Arrival::by_name(&entry.word(ARRIVALS)?).expect("one of the names"),
        None if rate.is_some() => Arrival::Uniform,
        None => Arrival::Closed,
    };
    if let Some(entry) = arrival_entry.filter(|_| (arrival == Arrival::Closed) == rate.is_some()) {
        return Err(entry.wrong(match rate {
            Some(_) => "is closed, which has no rate; leave one of them out",
            None => "needs a rate unless it is closed; set rate",
        }));
    }
    let rows_per_request = match table.optional("rows_per_request") {
        Some(entry) if !known.counts_rows => {
            return Err(entry.wrong(&format!("means nothing to {}; leave it out", known.name)));
        }
        Some(entry) => number(&entry, ROWS_PER_REQUEST_MAX)?,
        None => 1,
    };
    table.finish()?;
    // A request of more rows than a second has would come less often than once a second.
    let most = rate.map_or(u32::MAX, |rate| rate.ceil().max(1.0) as u32);
    let rows_per_request = rows_per_request.min(most);
    Ok(Role { name: known.name.to_owned(), clients, arrival, rate_per_s: rate, rows_per_request })
}

impl Step {
    /// The step for a cell with these settings and this DOP.
    pub(crate) fn resolve(&self, settings: &Settings, dop: u32) -> Result<PlannedStep, InputError> {
        let work = match &self.end {
            End::Rows(amount) => StepWork::Rows(amount.of(settings)?.round().max(1.0) as u64),
            End::Seconds(amount) => StepWork::Seconds(amount.of(settings)?),
            End::Task(task) => StepWork::Task(task.clone()),
        };
        let role = |role: &Role| PlannedRole {
            role: role.name.clone(),
            clients: role.clients.unwrap_or(dop),
            arrival: role.arrival,
            rate_per_s: role.rate_per_s,
            rows_per_request: role.rows_per_request,
        };
        let roles = self.roles.iter().map(role).collect();
        Ok(PlannedStep { name: self.name.clone(), work, roles })
    }
}

impl Amount {
    fn of(&self, settings: &Settings) -> Result<f64, InputError> {
        let number = match &self.entry.value {
            Raw::Text(name) => match settings.get(name) {
                Some(Setting::Integer(value)) => *value as f64,
                Some(Setting::Number(value)) => *value,
                _ => {
                    let numbers = settings.iter().filter(|(_, value)| {
                        matches!(value, Setting::Integer(_) | Setting::Number(_))
                    });
                    let near = suggestion(name, numbers.map(|(name, _)| name.as_str()));
                    let why =
                        format!("names \"{name}\", which is no parameter with a number{near}");
                    return Err(self.entry.wrong(&why));
                }
            },
            _ => self.entry.number(0.001..=ROWS_MAX as f64)?,
        };
        Ok(number * self.share)
    }
}

impl PlannedStep {
    /// Concurrent clients of all roles.
    pub fn clients(&self) -> u32 {
        self.roles.iter().map(|role| role.clients).sum()
    }

    /// The longest that it may take, in seconds.
    pub fn limit_s(&self) -> f64 {
        match self.work {
            StepWork::Seconds(seconds) => seconds,
            StepWork::Rows(_) | StepWork::Task(_) => A_DAY_S,
        }
    }

    /// Clients of the role that has most.
    pub fn clients_of_largest_role(&self) -> u32 {
        self.roles.iter().map(|role| role.clients).max().unwrap_or(0)
    }

    /// How long it is expected to take on an engine that takes so many rows a second in bulk. Tasks are not estimated.
    pub(crate) fn expected_seconds(&self, load_rows_per_s: f64) -> f64 {
        match self.work {
            StepWork::Seconds(seconds) => seconds,
            StepWork::Rows(rows) => {
                let clients = self.roles.iter().map(|role| role.clients).max().unwrap_or(0);
                rows as f64 * f64::from(clients) * SLOWER_THAN_LOADING / load_rows_per_s
            }
            StepWork::Task(_) => 0.0,
        }
    }
}

impl fmt::Display for PlannedStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            StepWork::Rows(rows) => write!(out, "{}: {rows} rows each", self.name)?,
            StepWork::Seconds(seconds) => write!(out, "{}: {seconds} s", self.name)?,
            StepWork::Task(task) => write!(out, "{}: {task}", self.name)?,
        }
        for role in &self.roles {
            let PlannedRole { role, clients, rows_per_request, rate_per_s, arrival } = role;
            write!(out, ", {role} by {clients}")?;
            if *rows_per_request > 1 {
                write!(out, ", {rows_per_request} rows a commit")?;
            }
            match (rate_per_s, arrival) {
                (Some(rate), Arrival::Burst1s) => write!(out, ", {rate}/s each in bursts")?,
                (Some(rate), _) => write!(out, ", {rate}/s each")?,
                (None, _) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Shows what steps come to for a cell, and what is said of those that cannot be meant.
    use super::*;

    const WORKLOAD: WorkloadEntry = WorkloadEntry {
        name: "rows",
        version: 1,
        about: "",
        parameters: &[],
        roles: &[
            RoleEntry { name: "insert", counts_rows: true },
            RoleEntry { name: "query", counts_rows: false },
        ],
        tasks: &["index", "drain"],
        needs: &[],
        check_needs: &[],
        validate: |_| Ok(()),
        not_run: |_, _| None,
        dataset: |_, _, _| unreachable!("steps need no dataset"),
    };

    fn steps(text: &str) -> Result<Vec<PlannedStep>, InputError> {
        let mut table = Table::parse("x.toml", text)?;
        let entry = table.optional("step");
        let steps = read_steps(entry.as_ref(), &WORKLOAD, &Place::line("x.toml", 1))?;
        let settings = [
            ("x".to_owned(), Setting::Integer(1_000)),
            ("query_s".to_owned(), Setting::Number(30.0)),
            ("dialect".to_owned(), Setting::Text("2023".to_owned())),
        ];
        steps.iter().map(|step| step.resolve(&settings.clone().into(), 4)).collect()
    }

    #[test]
    fn amounts_are_numbers_or_parameters() {
        let found = steps(
            "[[step]]\nname = 'l.i0'\nrows = 'x'\ninsert = { rows_per_request = 100 }\n\
             [[step]]\nname = 'l.x'\ntask = 'index'\n\
             [[step]]\nname = 'l.i1'\nrows = 'x'\nshare = 0.8\ninsert = { clients = 2 }\n\
             [[step]]\nname = 'q20.1'\nseconds = 'query_s'\nquery = {}\n\
             insert = { rate = 20, rows_per_request = 50, arrival = 'burst-1s' }\n",
        );
        let role = |role: &str, clients, arrival, rate_per_s, rows_per_request| PlannedRole {
            role: role.to_owned(),
            clients,
            arrival,
            rate_per_s,
            rows_per_request,
        };
        let step = |name: &str, work, roles| PlannedStep { name: name.to_owned(), work, roles };
        let expected = [
            step(
                "l.i0",
                StepWork::Rows(1_000),
                vec![role("insert", 4, Arrival::Closed, None, 100)],
            ),
            step("l.x", StepWork::Task("index".to_owned()), vec![]),
            step("l.i1", StepWork::Rows(800), vec![role("insert", 2, Arrival::Closed, None, 1)]),
            step(
                "q20.1",
                StepWork::Seconds(30.0),
                vec![
                    // A commit of 50 rows would come less often than once a second.
                    role("insert", 4, Arrival::Burst1s, Some(20.0), 20),
                    role("query", 4, Arrival::Closed, None, 1),
                ],
            ),
        ];
        let found = found.expect("plans");
        assert_eq!(found, expected);
        let shown = found.iter().map(PlannedStep::to_string).collect::<Vec<_>>();
        let words = [
            "l.i0: 1000 rows each, insert by 4, 100 rows a commit",
            "l.x: index",
            "l.i1: 800 rows each, insert by 2",
            "q20.1: 30 s, insert by 4, 20 rows a commit, 20/s each in bursts, query by 4",
        ];
        assert_eq!(shown, words);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        fn check(step: &str, expected: &str) {
            let error = steps(&format!("[[step]]\nname = 'a'\n{step}")).expect_err(expected);
            let message = error.to_string();
            assert!(message.contains(expected), "{step}: {message}");
        }
        check("", "names step a, which needs one of rows, seconds and task");
        check("rows = 1\nseconds = 1", "which needs one of rows, seconds and task");
        check("seconds = 1", "which needs clients: one of insert, query");
        check("rows = 1\nquery = {}", "goes through no rows, which are to end step a");
        check("task = 'index'\nquery = {}", "whose task index has no clients");
        check("task = 'indx'", "did you mean \"index\"?");
        check("seconds = 1\nqery = {}", "unknown key \"qery\"");
        check("seconds = 1\nquery = { rows_per_request = 2 }", "means nothing to query");
        check(
            "seconds = 1\nquery = { rate = 2, arrival = 'closed' }",
            "is closed, which has no rate",
        );
        check("seconds = 1\nquery = { arrival = 'poisson' }", "needs a rate unless it is closed");
        check(
            "seconds = 'query'\nquery = {}",
            "no parameter with a number; did you mean \"query_s\"?",
        );
        check("seconds = 'dialect'\nquery = {}", "which is no parameter with a number");
        check("seconds = 1\nquery = {}\n[[step]]\nname = 'a'\ntask = 'drain'", "twice; rename one");
    }

    #[test]
    fn workloads_have_steps_or_not() {
        let place = Place::line("x.toml", 1);
        assert!(read_steps(None, &WORKLOAD, &place).is_err());
        let without = WorkloadEntry { roles: &[], ..WORKLOAD };
        assert_eq!(read_steps(None, &without, &place), Ok(vec![]));
        let mut table = Table::parse("x.toml", "[[step]]\nname = 'a'").expect("parses");
        assert!(read_steps(table.optional("step").as_ref(), &without, &place).is_err());
    }
}
