//! The requests of one client of a step: it inserts, deletes, or asks.
//!
//! Which rows go in, how many leave, and which queries are asked in which order is a function of the seed; what is told
//! of other clients' progress ([`TableSpan`]) decides only which keys there are. This is in the request loop: no
//! allocation, and no lock. Start with [`InsertBenchmark::stream`].

use super::query::Queries;
use super::{InsertBenchmark, Ledger, TableSpan};
use crate::RequestStream;
use crate::request::{Action, Request};
use crate::rng::{Random, Seed};
use std::sync::Arc;

/// Where tables keep their size, an inserter waits while deletes are so many commits behind: the depth of the queue
/// between the tool's inserts and deletes.
pub const LEAD_COMMITS_MAX: u64 = 8;

/// Indexes into [`super::REQUEST_CLASSES`]; range queries are between them.
const INSERT: u8 = 0;
const DELETE: u8 = 1;
const POINTS: u8 = 5;

/// What a client of a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Inserts rows.
    Insert,
    /// Deletes the oldest rows, as many as are inserted in the step.
    Delete,
    /// Asks range queries.
    Query,
    /// Asks queries by primary key.
    Points,
}

impl Role {
    /// The role of this name, as experiment files write it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Role> {
        match name {
            "insert" => Some(Role::Insert),
            "delete" => Some(Role::Delete),
            "query" => Some(Role::Query),
            "points" => Some(Role::Points),
            _ => None,
        }
    }
}

/// One client of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepClient {
    /// What it does.
    pub role: Role,
    /// Its number among the clients of its role, from 0.
    pub number: u32,
    /// Clients of its role in the step.
    pub clients: u32,
    /// Rows that an inserter or a deleter puts into one transaction, at least 1 and the same for both.
    pub rows_per_commit: u16,
    /// Rows that an inserter inserts before it is over, those included that are refused; `None` for as many as it can.
    pub rows_max: Option<u64>,
    /// Whether the step has deleters, so that inserters wait for them and tables keep their size.
    pub keeps_size: bool,
}

/// The requests of one client. An inserter with `rows_max` is over with its last row. A deleter waits while all that was
/// inserted is deleted, and is over when nobody inserts any more. What is under way does not count, so that deleters with
/// several requests under way may delete so much more before they wait.
#[derive(Debug)]
pub struct InsertBenchmarkStream {
    table: u16,
    span: Arc<TableSpan>,
    work: Work,
    ledger: Ledger,
}

impl InsertBenchmarkStream {
    /// The client's account of how its requests ended.
    #[must_use]
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }
}

#[derive(Debug)]
enum Work {
    Insert(Inserts),
    Delete {
        rows_per_commit: u16,
        /// Rows that the table is to have.
        rows_kept: u64,
    },
    Query(Queries),
    Points {
        count: u16,
        random: Random,
    },
}

#[derive(Debug)]
struct Inserts {
    rows_per_commit: u16,
    next_row: u64,
    /// Rows that other clients of the table insert between two commits of this one.
    rows_between: u64,
    rows_left: u64,
    /// Requests that have not ended.
    under_way: u32,
    /// Rows in the table from which on it waits.
    rows_waiting: u64,
}

impl Inserts {
    #[inline]
    fn next(&mut self, table: u16) -> Request {
        let rows = self.rows_left.min(self.rows_per_commit.into()) as u16;
        let row = self.next_row;
        self.rows_left -= u64::from(rows);
        self.under_way += 1;
        self.next_row += u64::from(rows) + self.rows_between;
        Request { class: INSERT, table, row, action: Action::Insert(rows) }
    }

    /// One of its requests has ended. Returns whether it was the last.
    #[inline]
    fn ended(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.rows_left == 0 && self.under_way == 0
    }
}

impl InsertBenchmark {
    /// The requests of a client. All clients of a step are given the same seed, another in each step, and the same
    /// spans, one for each table; all streams of a step are made before its first request.
    ///
    /// # Panics
    /// When there are no tables, or the workload has no clients of this role ([`InsertBenchmark::not_possible`]).
    #[must_use]
    pub fn stream(
        &self,
        seed: Seed,
        client: &StepClient,
        spans: &[Arc<TableSpan>],
    ) -> InsertBenchmarkStream {
        let tables = spans.len() as u32;
        let table = client.number % tables;
        let span = Arc::clone(&spans[table as usize]);
        // Clients of this role that share the table, and which of them this one is.
        let sharers = u64::from((client.clients - table).div_ceil(tables));
        let place = u64::from(client.number / tables);
        let rows_per_commit = client.rows_per_commit;
        let commit = u64::from(rows_per_commit);
        let random = |label| Random::new(seed.derive(label, client.number.into()));
        let work = match client.role {
            Role::Insert => Work::Insert(Inserts {
                rows_per_commit,
                next_row: span.next_row() + place * commit,
                rows_between: (sharers - 1) * commit,
                rows_left: client.rows_max.unwrap_or(u64::MAX),
                under_way: 0,
                rows_waiting: if client.keeps_size {
                    span.rows() + LEAD_COMMITS_MAX * commit * sharers
                } else {
                    u64::MAX
                },
            }),
            Role::Delete => Work::Delete { rows_per_commit, rows_kept: span.rows() },
            Role::Query => Work::Query(self.queries(random("insert_benchmark query"))),
            Role::Points => {
                if let Some(reason) = self.not_possible(Role::Points) {
                    panic!("{reason}");
                }
                Work::Points { count: self.points, random: random("insert_benchmark points") }
            }
        };
        if client.role == Role::Insert && client.rows_max != Some(0) {
            span.inserter_begins();
        }
        let ledger = Ledger::new(client.role, table as u16, sharers > 1);
        InsertBenchmarkStream { table: table as u16, span, work, ledger }
    }
}

impl RequestStream for InsertBenchmarkStream {
    #[inline]
    fn next(&mut self) -> Request {
        let table = self.table;
        let request = match &mut self.work {
            Work::Insert(inserts) => inserts.next(table),
            Work::Query(queries) => queries.next(table, &self.span),
            Work::Delete { rows_per_commit, rows_kept } => {
                let surplus = self.span.rows().saturating_sub(*rows_kept);
                let rows = surplus.clamp(1, u64::from(*rows_per_commit)) as u16;
                let row = self.span.first();
                Request { class: DELETE, table, row, action: Action::Delete(rows) }
            }
            Work::Points { count, random } => {
                let first = self.span.first();
                let last = self.span.keys().map_or(first, |keys| keys.last);
                let seed = (random.bits() >> 32) as u32;
                let action = Action::Points { count: *count, seed, last };
                Request { class: POINTS, table, row: first, action }
            }
        };
        self.ledger.asked(&request);
        request
    }

    #[inline]
    fn is_over(&self) -> bool {
        match &self.work {
            Work::Insert(inserts) => inserts.rows_left == 0,
            Work::Delete { rows_kept, .. } => {
                self.span.is_complete() && self.span.rows() <= *rows_kept
            }
            Work::Query(_) | Work::Points { .. } => false,
        }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        match &self.work {
            Work::Insert(inserts) => self.span.rows() >= inserts.rows_waiting,
            Work::Delete { rows_kept, .. } => self.span.rows() <= *rows_kept,
            Work::Query(_) => false,
            Work::Points { .. } => self.span.keys().is_none(),
        }
    }

    #[inline]
    fn acknowledged(&mut self, request: &Request) {
        self.ledger.acknowledged(request);
        match request.action {
            Action::Insert(rows) => self.span.inserted(rows),
            Action::Delete(rows) => self.span.deleted(rows),
            _ => {}
        }
        self.ended();
    }

    fn unknown(&mut self, request: &Request) {
        self.ledger.unknown(request);
        self.ended();
    }

    fn refused(&mut self, _: &Request) {
        self.ended();
    }
}

impl InsertBenchmarkStream {
    /// One of its requests has ended.
    #[inline]
    fn ended(&mut self) {
        if let Work::Insert(inserts) = &mut self.work
            && inserts.ended()
        {
            self.span.inserter_ends();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Shows that streams are frozen, who inserts which rows, and who waits for whom.
    use super::super::KeySpan;
    use super::*;
    use crate::parameter::{Setting, Settings};

    const INSERTER: StepClient = StepClient {
        role: Role::Insert,
        number: 0,
        clients: 1,
        rows_per_commit: 100,
        rows_max: None,
        keeps_size: false,
    };
    const QUERIER: StepClient = StepClient { role: Role::Query, ..INSERTER };
    const POINTER: StepClient = StepClient { role: Role::Points, ..INSERTER };

    fn workload(dialect: &str, query_start: &str) -> InsertBenchmark {
        let settings = [("dialect", dialect), ("query_start", query_start)]
            .map(|(name, value)| (name.to_owned(), Setting::Text(value.to_owned())));
        InsertBenchmark::from_settings(&Settings::from(settings)).expect("valid")
    }

    /// Tables with the keys 1 to `rows`.
    fn spans(tables: usize, rows: u64) -> Vec<Arc<TableSpan>> {
        let keys = (rows > 0).then_some(KeySpan { first: 1, last: rows });
        (0..tables).map(|_| Arc::new(TableSpan::new(keys, rows + 1))).collect()
    }

    #[test]
    fn streams_never_change_within_a_version() {
        assert_eq!(super::super::VERSION, 1);
        let spans = spans(1, 1_000_000);
        let check = |dialect, query_start, expected: [(u8, u64); 3]| {
            let mut stream = workload(dialect, query_start).stream(Seed(42), &QUERIER, &spans);
            let asked = expected.map(|_| stream.next()).map(|request| (request.class, request.row));
            assert_eq!(asked, expected, "{dialect} {query_start}");
        };
        // Computed by a separate program from the description of the stream.
        check(
            "2015",
            "as-published",
            [(2, 692_851_520), (3, 11_241_038_585_812), (4, 8_710_102_416_859_263_174)],
        );
        check("2023", "as-published", [(2, 71_838), (3, 616), (3, 76)]);
        check("2024", "as-published", [(2, 4091), (3, 616), (3, 76)]);
        check("2024", "uniform", [(2, 274_579_039_559), (3, 33_787_317_386), (2, 403_234_120_455)]);
        let second = StepClient { number: 1, clients: 2, ..POINTER };
        let mut points = workload("2024", "uniform").stream(Seed(42), &second, &spans);
        let action = Action::Points { count: 10, seed: 975_351_235, last: 1_000_000 };
        assert_eq!(points.next(), Request { class: POINTS, table: 0, row: 1, action });
    }

    #[test]
    fn an_inserter_ends_with_a_smaller_commit() {
        let client = StepClient { rows_max: Some(250), ..INSERTER };
        let spans = spans(1, 1000);
        let mut stream = workload("2023", "uniform").stream(Seed(1), &client, &spans);
        for (row, rows) in [(1001, 100), (1101, 100), (1201, 50)] {
            assert!(!stream.is_over() && !stream.is_waiting());
            let request = stream.next();
            let expected = Request { class: INSERT, table: 0, row, action: Action::Insert(rows) };
            assert_eq!(request, expected);
            stream.acknowledged(&request);
        }
        assert!(stream.is_over());
        assert_eq!(spans[0].keys(), Some(KeySpan { first: 1, last: 1250 }));
        assert_eq!(stream.into_ledger().acknowledged_total(), 250);
    }

    #[test]
    fn inserters_share_tables_and_never_rows() {
        let spans = spans(2, 0);
        let mut rows = [Vec::new(), Vec::new()];
        for number in 0..5 {
            let client = StepClient {
                number,
                clients: 5,
                rows_max: Some(60),
                rows_per_commit: 20,
                ..INSERTER
            };
            let mut stream = workload("2023", "uniform").stream(Seed(1), &client, &spans);
            while !stream.is_over() {
                let request = stream.next();
                assert_eq!(u32::from(request.table), number % 2);
                let Action::Insert(count) = request.action else { panic!("{request:?}") };
                rows[usize::from(request.table)]
                    .extend(request.row..request.row + u64::from(count));
            }
        }
        for (table, clients) in [(0, 3), (1, 2)] {
            rows[table].sort_unstable();
            assert_eq!(rows[table], (1..=60 * clients).collect::<Vec<_>>());
        }
    }

    #[test]
    fn deleters_follow_inserters_and_inserters_wait_for_them() {
        let spans = spans(1, 1000);
        let workload = workload("2023", "uniform");
        let client = StepClient { keeps_size: true, rows_max: Some(950), ..INSERTER };
        let mut inserter = workload.stream(Seed(1), &client, &spans);
        let mut deleter =
            workload.stream(Seed(1), &StepClient { role: Role::Delete, ..client }, &spans);
        assert!(deleter.is_waiting());
        for _ in 0..LEAD_COMMITS_MAX {
            assert!(!inserter.is_waiting());
            let request = inserter.next();
            inserter.acknowledged(&request);
        }
        assert!(inserter.is_waiting() && !inserter.is_over());
        let mut deleted = Vec::new();
        loop {
            while !deleter.is_waiting() {
                let request = deleter.next();
                deleter.acknowledged(&request);
                deleted.push((request.row, request.action));
            }
            if inserter.is_over() {
                break;
            }
            assert!(!inserter.is_waiting());
            let request = inserter.next();
            inserter.acknowledged(&request);
        }
        let last = (901, Action::Delete(50));
        assert_eq!((deleted.len(), deleted[1], deleted[9]), (10, (101, Action::Delete(100)), last));
        assert_eq!(spans[0].keys(), Some(KeySpan { first: 951, last: 1950 }));
        assert!(deleter.is_over());
    }

    #[test]
    fn inserters_of_one_table_may_be_ahead_together() {
        let spans = spans(1, 1000);
        let pair = StepClient { keeps_size: true, clients: 2, ..INSERTER };
        let mut inserter = workload("2023", "uniform").stream(Seed(1), &pair, &spans);
        let mut commits = 0;
        while !inserter.is_waiting() {
            let request = inserter.next();
            inserter.acknowledged(&request);
            commits += 1;
        }
        assert_eq!(commits, 2 * LEAD_COMMITS_MAX);
    }

    #[test]
    fn a_delete_of_unknown_fate_is_asked_again_from_the_same_key() {
        let spans = spans(1, 0);
        let workload = workload("2023", "uniform");
        let mut deleter =
            workload.stream(Seed(1), &StepClient { role: Role::Delete, ..INSERTER }, &spans);
        spans[0].inserted(300);
        let request = deleter.next();
        deleter.unknown(&request);
        assert_eq!(deleter.next(), request);
    }

    #[test]
    fn point_queries_ask_for_keys_that_are_there() {
        let spans = spans(1, 0);
        let mut stream = workload("2024", "uniform").stream(Seed(1), &POINTER, &spans);
        assert!(stream.is_waiting(), "there are no keys");
        spans[0].inserted(500);
        spans[0].deleted(100);
        assert!(!stream.is_waiting());
        for _ in 0..100 {
            let keys = stream.next().point_keys();
            assert_eq!(keys.len(), 10);
            assert!(keys.into_iter().all(|key| (101..=500).contains(&key)));
        }
    }

    #[test]
    #[should_panic(expected = "set dialect to 2024")]
    fn other_dialects_have_no_point_queries() {
        let _ = workload("2023", "uniform").stream(Seed(1), &POINTER, &spans(1, 1));
    }
}
