//! Workload `insert_benchmark`: rows go in at the end of tables with three secondary indexes, leave at the beginning,
//! and covered range queries read the indexes meanwhile.
//!
//! This is what documents 002 and 004 ran, in three dialects. Here are the parameters and what follows from them alone;
//! `dialect` holds schemas, `purchase` and `dataset` the rows, `stream` and `query` make the requests of a step's
//! clients, `span` is what they share, `ledger` remembers how requests ended, `check` judges the database. Start with
//! [`InsertBenchmark::from_settings`].

mod check;
mod dataset;
mod dialect;
mod ledger;
mod purchase;
mod query;
mod span;
mod stream;

pub use crate::check_report::CheckReport;
pub use check::{
    SampledPurchase, StepEvidence, TableReading, WholeEvidence, check_step, check_whole,
    sample_keys,
};
pub use dataset::PurchaseDataset;
pub use dialect::{Dialect, QueryStart};
pub use ledger::{Ledger, TableAccount};
pub use purchase::{PURCHASE_FORMAT, Purchase, PurchaseRows};
pub use span::{KeySpan, TableSpan};
pub use stream::{InsertBenchmarkStream, LEAD_COMMITS_MAX, Role, StepClient};

use crate::parameter::{
    Kind, Parameter, SettingError, Settings, complete, flag, integer, number, text,
};
use crate::rng::Seed;
use crate::schema::{Schema, TEXT_BYTES_MAX};
use crate::{DatasetFacts, RoleEntry, WorkloadEntry};

/// Name, as experiment files write it.
pub const NAME: &str = "insert_benchmark";
/// Version: it grows when requests, dataset or check change so that numbers can no longer be compared.
pub const VERSION: u32 = 1;
/// One sentence for lists of workloads.
pub const ABOUT: &str = "Clients insert rows in key order into tables with three secondary indexes, delete the oldest, \
                         and run covered range queries.";
/// Statistics are kept per class: inserts, deletes, one for each range query by the name of its index, and queries by
/// primary key.
pub const REQUEST_CLASSES: &[&str] =
    &["insert", "delete", "marketsegment", "registersegment", "pdc", "points"];

/// Task of a step: make the secondary indexes.
pub const INDEX: &str = "index";
/// Task of a step: pay the engine's debts.
pub const DRAIN: &str = "drain";

/// Its entry in the list of workloads.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    name: NAME,
    version: VERSION,
    about: ABOUT,
    parameters: PARAMETERS,
    roles: &[
        RoleEntry { name: "insert", counts_rows: true },
        RoleEntry { name: "delete", counts_rows: true },
        RoleEntry { name: "query", counts_rows: false },
        RoleEntry { name: "points", counts_rows: false },
    ],
    tasks: &[INDEX, DRAIN],
    needs: &["tables"],
    check_needs: &[],
    validate: |settings| InsertBenchmark::from_settings(settings).map(drop),
    not_run: |_, _| None,
    dataset: |settings, seed, clients| {
        let workload =
            InsertBenchmark::from_settings(settings).expect("settings are validated first");
        let dataset = workload.dataset(seed, clients);
        DatasetFacts {
            fingerprint: dataset.fingerprint(),
            rows: dataset.rows_total(),
            bytes: dataset.bytes_estimate(),
            aging_updates: 0,
        }
    },
};

/// The knobs.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "dialect",
        kind: Kind::Choice(&["2015", "2023", "2024"]),
        default: "2023",
        about: "Schema, queries and values: 2015 as in document 002, 2023 as in document 004, 2024 as its tool has \
                been since.",
    },
    Parameter {
        name: "tables",
        kind: Kind::Choice(&["per-client", "one"]),
        default: "per-client",
        about: "per-client: a table for each client; one: all clients share a table.",
    },
    Parameter {
        name: "rows",
        kind: Kind::Integer { min: 0, max: 1_000_000_000_000 },
        default: "0",
        about: "Rows loaded into each table before the first step; 0 begins with empty tables.",
    },
    Parameter {
        name: "indexed",
        kind: Kind::Flag,
        default: "false",
        about: "Whether tables have their secondary indexes before the first step.",
    },
    Parameter {
        name: "load_rows",
        kind: Kind::Integer { min: 1, max: 1_000_000_000_000 },
        default: "1000000",
        about: "Rows that each client inserts before there are indexes (X of the documents), for steps that name it.",
    },
    Parameter {
        name: "insert_rows",
        kind: Kind::Integer { min: 1, max: 1_000_000_000_000 },
        default: "1000000",
        about: "Rows that each client inserts with indexes (Y of the documents), for steps that name it.",
    },
    Parameter {
        name: "query_s",
        kind: Kind::Number { min: 0.1, max: 1e6 },
        default: "30",
        about: "Seconds of a step of queries, for steps that name it.",
    },
    Parameter {
        name: "data_bytes_min",
        kind: Kind::Integer { min: 0, max: TEXT_BYTES_MAX as u64 },
        default: "0",
        about: "Shortest data of a row in bytes; 0: as the dialect has it, 256 for 2015 and 10 for the others.",
    },
    Parameter {
        name: "data_bytes_max",
        kind: Kind::Integer { min: 0, max: TEXT_BYTES_MAX as u64 },
        default: "0",
        about: "Longest data of a row in bytes; 0: as the dialect has it, 256 for 2015 and 20 for the others.",
    },
    Parameter {
        name: "data_random_share",
        kind: Kind::Number { min: 0.0, max: 1.0 },
        // The tool's 50 %, of which it takes three quarters to allow for base64.
        default: "0.375",
        about: "Random letters in data as a fraction of its length; the rest is one letter.",
    },
    Parameter {
        name: "query_start",
        kind: Kind::Choice(&["as-published", "uniform"]),
        default: "as-published",
        about: "as-published: range queries start at a value of their first column (2015: of all columns); uniform: \
                at any entry of their index alike.",
    },
    Parameter {
        name: "query_limit",
        kind: Kind::Integer { min: 1, max: 10_000 },
        default: "10",
        about: "Index entries that a range query reads.",
    },
    Parameter {
        name: "points",
        kind: Kind::Integer { min: 1, max: 1000 },
        default: "10",
        about: "Keys in a query by primary key, which only dialect 2024 has.",
    },
];

/// The workload with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InsertBenchmark {
    dialect: Dialect,
    has_one_table: bool,
    rows: u64,
    is_indexed: bool,
    data_bytes_min: u16,
    data_bytes_max: u16,
    data_random_share: f64,
    query_start: QueryStart,
    query_limit: u16,
    points: u16,
}

impl InsertBenchmark {
    /// Takes settings by the names of [`PARAMETERS`]; what is not set has its default.
    ///
    /// # Errors
    /// When a name is unknown, a value is out of range, or two values do not fit together.
    pub fn from_settings(settings: &Settings) -> Result<InsertBenchmark, SettingError> {
        let settings = complete(PARAMETERS, settings)?;
        let dialect = match text(&settings, "dialect") {
            "2015" => Dialect::Year2015,
            "2024" => Dialect::Year2024,
            _ => Dialect::Year2023,
        };
        let (published_min, published_max) = dialect.data_bytes();
        let bytes = |name, published| match integer(&settings, name) as u16 {
            0 => published,
            bytes => bytes,
        };
        let workload = InsertBenchmark {
            dialect,
            has_one_table: text(&settings, "tables") == "one",
            rows: integer(&settings, "rows"),
            is_indexed: flag(&settings, "indexed"),
            data_bytes_min: bytes("data_bytes_min", published_min),
            data_bytes_max: bytes("data_bytes_max", published_max),
            data_random_share: number(&settings, "data_random_share"),
            query_start: match text(&settings, "query_start") {
                "uniform" => QueryStart::Uniform,
                _ => QueryStart::AsPublished,
            },
            query_limit: integer(&settings, "query_limit") as u16,
            points: integer(&settings, "points") as u16,
        };
        workload.check_together()?;
        Ok(workload)
    }

    /// What no single parameter can check.
    fn check_together(&self) -> Result<(), SettingError> {
        let (min, max) = (self.data_bytes_min, self.data_bytes_max);
        if min > max {
            let message = format!(
                "the shortest data has {min} bytes and the longest {max}; set data_bytes_min to at most {max}, or \
                 data_bytes_max to at least {min}"
            );
            return Err(SettingError { key: "data_bytes_min".to_owned(), message });
        }
        Ok(())
    }

    /// Which form of the benchmark it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Index entries that a range query reads at most.
    #[must_use]
    pub fn query_limit(&self) -> u16 {
        self.query_limit
    }

    /// Table, indexes and queries.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.dialect.schema(self.query_start, self.points)
    }

    /// Number of tables for so many clients: of the role that a step has most clients of, over all steps.
    #[must_use]
    pub fn tables(&self, clients: u16) -> u16 {
        if self.has_one_table { 1 } else { clients }
    }

    /// What is in the rows, loaded ones and inserted ones.
    #[must_use]
    pub fn purchase_rows(&self, seed: Seed) -> PurchaseRows {
        PurchaseRows {
            dialect: self.dialect,
            seed: seed.derive("insert_benchmark rows", 0),
            data_bytes_min: self.data_bytes_min,
            data_bytes_max: self.data_bytes_max,
            data_random_share: self.data_random_share,
        }
    }

    /// What is loaded for so many clients (see [`InsertBenchmark::tables`]). Cells that differ only in `query_start`,
    /// `query_limit` or `points` share it.
    #[must_use]
    pub fn dataset(&self, seed: Seed, clients: u16) -> PurchaseDataset {
        PurchaseDataset {
            rows: self.purchase_rows(seed),
            tables: self.tables(clients),
            rows_per_table: self.rows,
            is_indexed: self.is_indexed,
        }
    }

    /// Why a step cannot have clients of this role, if it cannot.
    #[must_use]
    pub fn not_possible(&self, role: Role) -> Option<String> {
        let has_points = self.dialect == Dialect::Year2024;
        (role == Role::Points && !has_points).then(|| {
            "this dialect has no queries by primary key; set dialect to 2024, or leave them out"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    //! Shows defaults, refused settings with their advice, and what follows from them.
    use super::*;
    use crate::parameter::Setting;
    use std::collections::BTreeSet;

    fn workload(settings: &[(&str, &str)]) -> Result<InsertBenchmark, SettingError> {
        let setting = |(name, value): &(&str, &str)| {
            let parameter = PARAMETERS.iter().find(|parameter| parameter.name == *name);
            let word = || Setting::Text((*value).to_owned());
            let value =
                parameter.map_or_else(word, |knob| knob.parse(value).unwrap_or_else(|_| word()));
            ((*name).to_owned(), value)
        };
        InsertBenchmark::from_settings(&settings.iter().map(setting).collect())
    }

    #[test]
    fn defaults_are_document_004_with_empty_tables() {
        let workload = workload(&[]).expect("defaults fit together");
        let expected = InsertBenchmark {
            dialect: Dialect::Year2023,
            has_one_table: false,
            rows: 0,
            is_indexed: false,
            data_bytes_min: 10,
            data_bytes_max: 20,
            data_random_share: 0.375,
            query_start: QueryStart::AsPublished,
            query_limit: 10,
            points: 10,
        };
        assert_eq!(workload, expected);
        let names: BTreeSet<_> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names.len(), PARAMETERS.len());
        for parameter in PARAMETERS {
            assert!(parameter.about.ends_with('.'), "{}", parameter.name);
        }
        assert!(ABOUT.ends_with('.') && !names.contains("dop"));
    }

    #[test]
    fn settings_decide_schema_and_dataset() {
        let given = [
            ("dialect", "2024"),
            ("tables", "one"),
            ("rows", "500"),
            ("indexed", "true"),
            ("data_bytes_max", "100"),
            ("query_start", "uniform"),
            ("points", "7"),
        ];
        let workload = workload(&given).expect("valid");
        let schema = workload.schema();
        assert_eq!(schema, Dialect::Year2024.schema(QueryStart::Uniform, 7));
        assert_eq!(schema.points.map(|points| points.count), Some(7));
        let dataset = workload.dataset(Seed(1), 4);
        assert_eq!((dataset.tables, dataset.rows_per_table, dataset.is_indexed), (1, 500, true));
        assert_eq!((dataset.rows.data_bytes_min, dataset.rows.data_bytes_max), (10, 100));
        assert_ne!(dataset.rows, workload.purchase_rows(Seed(2)));
        assert_eq!((workload.dialect(), workload.tables(4)), (Dialect::Year2024, 1));
    }

    #[test]
    fn document_002_has_a_pad_of_256_bytes_and_no_point_queries() {
        let workload = workload(&[("dialect", "2015")]).expect("valid");
        assert_eq!((workload.data_bytes_min, workload.data_bytes_max), (256, 256));
        assert_eq!(workload.tables(10), 10);
        let reason = workload.not_possible(Role::Points).expect("2015 has none");
        assert!(reason.contains("set dialect to 2024"), "{reason}");
        assert_eq!(workload.not_possible(Role::Delete), None);
    }

    #[test]
    fn bad_settings_name_the_key_and_what_to_do() {
        let check = |settings: &[(&str, &str)], expected: &str| {
            let message = workload(settings).expect_err(expected).to_string();
            assert!(message.starts_with(expected), "{settings:?}: {message}");
        };
        check(&[("dop", "1")], "dop: no parameter has this name; there are dialect, tables");
        check(
            &[("dialect", "2022")],
            "dialect: 2022 is not possible here; write one of 2015, 2023",
        );
        check(&[("points", "0")], "points: 0 is not possible here; write a whole number from 1");
        check(
            &[("data_bytes_max", "5")],
            "data_bytes_min: the shortest data has 10 bytes and the longest 5; set data_bytes_min to at most 5",
        );
        check(&[("dialect", "2015"), ("data_bytes_max", "255")], "data_bytes_min: the shortest");
    }

    #[test]
    fn range_queries_have_the_classes_of_their_indexes() {
        let schema = workload(&[]).expect("valid").schema();
        let names: Vec<_> = schema.indexes.iter().map(|index| index.name).collect();
        assert_eq!(REQUEST_CLASSES[2..5], names[..]);
    }
}
