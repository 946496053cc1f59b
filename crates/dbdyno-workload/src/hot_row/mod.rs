//! Workload `hot_row`: every client updates one row of a few big tables, and the row is the same for all.
//!
//! This is document 000's question ("Biebermarks": counters of very popular entities). With another key distribution
//! it becomes a skewed update benchmark. Here are the parameters and what follows from them alone; `stream` makes the
//! requests, `ledger` remembers their ends, `check` judges the database. Start with [`HotRow::from_settings`].

mod check;
mod ledger;
mod stream;

pub use crate::check_report::CheckReport;
pub use check::{Evidence, SampledRow, TableState};
pub use ledger::Ledger;
pub use stream::HotRowStream;

use crate::WorkloadEntry;
use crate::dataset::Dataset;
use crate::distribution::KeyDistribution;
use crate::parameter::{Kind, Parameter, SettingError, Settings, complete, integer, number, text};
use crate::rng::Seed;

/// Name, as experiment files write it.
pub const NAME: &str = "hot_row";
/// Version: it grows when requests, dataset or check change so that numbers can no longer be compared.
pub const VERSION: u32 = 1;
/// One sentence for lists of workloads.
pub const ABOUT: &str =
    "Clients update one row of each of a few big tables by primary key, auto-commit.";
/// Statistics are kept per class; this workload has one.
pub const REQUEST_CLASSES: &[&str] = &["update"];
/// More clients than this cannot be told apart in assigned values (see [`HotRowStream`]).
pub const CLIENTS_MAX: u32 = 1 << 20;

/// The knobs.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "tables",
        kind: Kind::Integer { min: 1, max: 64 },
        default: "1",
        about: "Tables that are updated; at most dataset_tables.",
    },
    Parameter {
        name: "dataset_tables",
        kind: Kind::Integer { min: 1, max: 64 },
        default: "8",
        about: "Tables that are loaded, so that one dataset serves every value of tables.",
    },
    Parameter {
        name: "rows",
        kind: Kind::Integer { min: 1, max: 1_000_000_000_000 },
        default: "100000",
        about: "Rows in each table, so that the tree above the updated row has several levels.",
    },
    Parameter {
        name: "filler_bytes",
        kind: Kind::Integer { min: 0, max: 65_535 },
        default: "100",
        about: "Bytes in each row besides its key and counter.",
    },
    Parameter {
        name: "age",
        kind: Kind::Number { min: 0.0, max: 1000.0 },
        default: "0.2",
        about: "Uniformly random updates per row between loading and measuring.",
    },
    Parameter {
        name: "assignment",
        kind: Kind::Choice(&["pinned", "roaming", "divided"]),
        default: "pinned",
        about: "pinned: client i updates table i mod tables; roaming: any client updates any table; \
                divided: as roaming, with DOP / tables clients.",
    },
    Parameter {
        name: "update",
        kind: Kind::Choice(&["increment", "assign"]),
        default: "increment",
        about: "increment: add one to the counter; assign: write client and sequence number into it.",
    },
    Parameter {
        name: "keys",
        kind: Kind::Syntax(check_keys),
        default: "single",
        about: "Rows that are updated: single, uniform, zipfian(theta), hotspot(fraction, share) or latest.",
    },
];

fn check_keys(text: &str) -> Result<(), String> {
    KeyDistribution::parse(text).map(|_| ())
}

/// Its entry in the list of workloads.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    name: NAME,
    version: VERSION,
    about: ABOUT,
    parameters: PARAMETERS,
    roles: &[],
    tasks: &[],
    needs: &["update-by-key"],
    check_needs: &["counter-check"],
    validate: |settings| HotRow::from_settings(settings).map(drop),
    not_run: |settings, dop| HotRow::from_settings(settings).ok()?.not_run(dop),
    dataset: |settings, seed, _| {
        let workload = HotRow::from_settings(settings).expect("settings are validated first");
        workload.dataset(seed).facts()
    },
};

/// Which tables a client updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// Client i updates table i mod T, as the MySQL client of document 000 did.
    Pinned,
    /// Every client updates any table, as the MongoDB client of document 000 was meant to do.
    Roaming,
    /// As roaming, but only DOP / T clients run. Document 000's numbers for MongoDB and TokuMX at T tables equal those
    /// at one table and DOP / T, so this seems to be what really ran.
    Divided,
}

/// What an update does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Adds one to the counter.
    Increment,
    /// Writes (client, sequence number) into the counter.
    Assign,
}

/// What a driver reads before and after a trial as the counter of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterScope {
    /// The counter of row 1.
    Row1,
    /// The sum of the counters of all rows: a full scan, which the reader must not let disturb what is measured.
    WholeTable,
}

/// The workload with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HotRow {
    tables: u16,
    dataset_tables: u16,
    rows: u64,
    filler_bytes: u32,
    age: f64,
    assignment: Assignment,
    update: Update,
    keys: KeyDistribution,
}

impl HotRow {
    /// Takes settings by the names of [`PARAMETERS`]; what is not set has its default.
    ///
    /// # Errors
    /// When a name is unknown, a value is out of range, or two values do not fit together.
    pub fn from_settings(settings: &Settings) -> Result<HotRow, SettingError> {
        let settings = complete(PARAMETERS, settings)?;
        let workload = HotRow {
            tables: integer(&settings, "tables") as u16,
            dataset_tables: integer(&settings, "dataset_tables") as u16,
            rows: integer(&settings, "rows"),
            filler_bytes: integer(&settings, "filler_bytes") as u32,
            age: number(&settings, "age"),
            assignment: match text(&settings, "assignment") {
                "roaming" => Assignment::Roaming,
                "divided" => Assignment::Divided,
                _ => Assignment::Pinned,
            },
            update: match text(&settings, "update") {
                "assign" => Update::Assign,
                _ => Update::Increment,
            },
            keys: KeyDistribution::parse(text(&settings, "keys"))
                .map_err(|message| SettingError { key: "keys".to_owned(), message })?,
        };
        workload.check_together()?;
        Ok(workload)
    }

    /// What no single parameter can check.
    fn check_together(&self) -> Result<(), SettingError> {
        let error = |key: &str, message| Err(SettingError { key: key.to_owned(), message });
        if self.tables > self.dataset_tables {
            let message = format!(
                "{} tables cannot be updated when {} are loaded; set dataset_tables to at least {}",
                self.tables, self.dataset_tables, self.tables
            );
            return error("tables", message);
        }
        if self.update == Update::Assign && self.keys != KeyDistribution::Single {
            let message = format!(
                "assign can be checked on one row only; set keys to single (it is {}), or update to increment",
                self.keys
            );
            return error("update", message);
        }
        Ok(())
    }

    /// Number of tables that are updated: tables 0 to this number - 1.
    #[must_use]
    pub fn tables(&self) -> u16 {
        self.tables
    }

    /// What is loaded. Cells that differ only in `tables`, `assignment`, `update` or `keys` share it.
    #[must_use]
    pub fn dataset(&self, seed: Seed) -> Dataset {
        Dataset {
            seed,
            tables: self.dataset_tables,
            rows: self.rows,
            filler_bytes: self.filler_bytes,
            age: self.age,
        }
    }

    /// Why a cell with this DOP is left out (shown as X, as in document 000), if it is.
    #[must_use]
    pub fn not_run(&self, dop: u32) -> Option<String> {
        (dop < u32::from(self.tables)).then(|| format!("dop {dop} is below tables {}", self.tables))
    }

    /// Clients that run at this DOP: DOP, or for `divided` DOP / tables, rounded down, at least 1.
    #[must_use]
    pub fn clients(&self, dop: u32) -> u32 {
        match self.assignment {
            Assignment::Pinned | Assignment::Roaming => dop,
            Assignment::Divided => (dop / u32::from(self.tables)).max(1),
        }
    }

    /// What [`TableState::counter`] must hold. With another key distribution than single any row may have grown.
    #[must_use]
    pub fn counter_scope(&self) -> CounterScope {
        match self.keys {
            KeyDistribution::Single => CounterScope::Row1,
            _ => CounterScope::WholeTable,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Shows defaults, refused settings with their advice, left-out cells and the number of clients.
    use super::*;
    use crate::parameter::Setting;

    fn hot_row(settings: &[(&str, &str)]) -> Result<HotRow, SettingError> {
        let setting = |(name, value): &(&str, &str)| {
            let value = value.parse().map_or(Setting::Text((*value).to_owned()), Setting::Integer);
            ((*name).to_owned(), value)
        };
        HotRow::from_settings(&settings.iter().map(setting).collect())
    }

    #[test]
    fn defaults_are_document_000_scaled_down() {
        let workload = hot_row(&[]).expect("defaults fit together");
        assert_eq!(workload.tables(), 1);
        let dataset = workload.dataset(Seed(7));
        let expected =
            Dataset { seed: Seed(7), tables: 8, rows: 100_000, filler_bytes: 100, age: 0.2 };
        assert_eq!(dataset, expected);
        assert_eq!((workload.assignment, workload.update), (Assignment::Pinned, Update::Increment));
        assert_eq!(workload.counter_scope(), CounterScope::Row1);
    }

    #[test]
    fn bad_settings_name_the_key_and_what_to_do() {
        let check = |settings: &[(&str, &str)], expected: &str| {
            let message = hot_row(settings).expect_err(expected).to_string();
            assert!(message.starts_with(expected), "{settings:?}: {message}");
        };
        check(
            &[("table", "1")],
            "table: no parameter has this name; there are tables, dataset_tables",
        );
        check(
            &[("tables", "0")],
            "tables: 0 is not possible here; write a whole number from 1 to 64",
        );
        check(&[("tables", "two")], "tables: two is not possible");
        check(
            &[("tables", "16")],
            "tables: 16 tables cannot be updated when 8 are loaded; set dataset_tables to at least 16",
        );
        check(
            &[("assignment", "free")],
            "assignment: free is not possible here; write one of pinned",
        );
        check(&[("keys", "zipf")], "keys: \"zipf\" is no key distribution");
        check(
            &[("update", "assign"), ("keys", "uniform")],
            "update: assign can be checked on one row only; set keys to single (it is uniform)",
        );
    }

    #[test]
    fn cells_with_fewer_clients_than_tables_are_left_out() {
        let two = hot_row(&[("tables", "2")]).expect("valid");
        assert_eq!(two.not_run(1).as_deref(), Some("dop 1 is below tables 2"));
        assert_eq!(two.not_run(2), None);
        assert_eq!(hot_row(&[]).expect("valid").not_run(1), None);
    }

    #[test]
    fn only_divided_runs_fewer_clients_than_dop() {
        let check = |assignment, tables, dop, expected| {
            let workload = hot_row(&[("assignment", assignment), ("tables", tables)]);
            assert_eq!(
                workload.expect("valid").clients(dop),
                expected,
                "{assignment} {tables} {dop}"
            );
        };
        check("pinned", "8", 64, 64);
        check("roaming", "8", 64, 64);
        check("divided", "1", 64, 64);
        check("divided", "8", 64, 8);
        check("divided", "8", 12, 1);
        check("divided", "8", 1, 1);
    }

    #[test]
    fn other_keys_than_single_need_the_sum_of_the_table() {
        let workload = hot_row(&[("keys", "zipfian(0.99)")]).expect("valid");
        assert_eq!(workload.counter_scope(), CounterScope::WholeTable);
    }
}
