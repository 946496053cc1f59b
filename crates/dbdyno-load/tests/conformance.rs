//! Every driver whose engine is built in or comes with the host conforms, and durability settings sync as often as
//! their names say.

mod support;

use dbdyno_load::conformance::{self, fill};
use dbdyno_load::driver::{
    Client, Driver, OpenOptions, lmdb::Lmdb, memory::Memory, mongodb::Mongodb, mysql::Mysql,
    postgres::Postgres, sqlite::Sqlite,
};
use dbdyno_load::outcome::Outcome;
use dbdyno_load::server::{ClientOptions, Statements, Transaction};
use dbdyno_load::sync_counter;
use dbdyno_workload::{Action, Request};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use support::ferretdb_server::FerretdbServer;
use support::mysql_server::MysqlServer;
use support::postgres_server::PostgresServer;

/// Syncs are counted for the whole process, so tests of them must not overlap with other tests here.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn options(directory: &Path, changed: &[(&str, &str)]) -> OpenOptions {
    let defaults = [
        ("no_sync", "true"),
        ("write_map", "false"),
        ("map_size_mb", "64"),
        ("synchronous", "NORMAL"),
        ("cache_mb", "2"),
        ("wal_autocheckpoint_pages", "1000"),
        ("page_size", "4096"),
        ("busy_handler", "backoff"),
        ("busy_timeout_ms", "10000"),
    ];
    let settings: BTreeMap<String, String> = defaults
        .iter()
        .chain(changed)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    OpenOptions::of_directory(directory.to_owned(), settings, 8)
}

fn request(table: u16, row: u64, action: Action) -> Request {
    Request { class: 0, table, row, action }
}

fn conforms<D: Driver>(survives_closing: bool) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    conformance::conforms::<D>(&options(directory.path(), &[]), survives_closing);
}

/// The memory engine keeps its promises while it is open.
#[test]
fn memory_conforms() {
    conforms::<Memory>(false);
}

/// SQLite's tables with secondary indexes answer as they must.
#[test]
fn tables_of_sqlite_conform() {
    let _alone = ONE_AT_A_TIME.lock();
    let directory = tempfile::tempdir().expect("a temporary directory");
    conformance::tables_conform::<Sqlite>(&options(directory.path(), &[]));
}

/// SQLite keeps its promises, also after closing.
#[test]
fn sqlite_conforms() {
    let _alone = ONE_AT_A_TIME.lock();
    conforms::<Sqlite>(true);
}

/// LMDB keeps its promises, also after closing.
#[test]
fn lmdb_conforms() {
    let _alone = ONE_AT_A_TIME.lock();
    conforms::<Lmdb>(true);
}

/// How clients of a server can speak to it: each value of each option at least once.
const WAYS_TO_SPEAK: [(Statements, Transaction, u32); 4] = [
    (Statements::Prepared, Transaction::Autocommit, 1),
    (Statements::Text, Transaction::Autocommit, 4),
    (Statements::Prepared, Transaction::BeginCommit, 4),
    (Statements::Text, Transaction::BeginCommit, 1),
];

/// A server of the MySQL family keeps its promises, however clients speak to it.
#[test]
fn mysql_conforms() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = MysqlServer::start(&[]);
    for (number, (statements, transaction, pipeline)) in WAYS_TO_SPEAK.into_iter().enumerate() {
        let client = ClientOptions {
            threads: 1,
            pipeline,
            statements,
            transaction,
            ..ClientOptions::default()
        };
        let mut options = server.options(client);
        let login = options.server.as_mut().expect("has a server");
        login.database = format!("dbdyno{number}");
        conformance::conforms::<Mysql>(&options, true);
        conformance::counts::<Mysql>(&options);
    }
    let client = ClientOptions { threads: 1, ..ClientOptions::default() };
    conformance::tables_conform::<Mysql>(&server.options(client));
}

/// PostgreSQL keeps its promises, also for those who connect later.
#[test]
fn postgres_conforms() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = PostgresServer::start(None);
    conformance::conforms::<Postgres>(&server.options(), true);
    conformance::counts::<Postgres>(&server.options());
    conformance::tables_conform::<Postgres>(&server.options());
}

/// A server that speaks MongoDB's protocol keeps its promises, one request at a time and several.
#[test]
fn mongodb_conforms() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = FerretdbServer::start(&[]);
    for pipeline in [1, 4] {
        let client = ClientOptions { threads: 1, pipeline, ..ClientOptions::default() };
        let mut options = server.options(client);
        let login = options.server.as_mut().expect("has a server");
        login.database = format!("dbdyno{pipeline}");
        conformance::conforms::<Mongodb>(&options, true);
    }
}

/// Updates of one row from many threads are all there: none is lost, none is made twice.
fn counts_under_contention<D: Driver>(changed: &[(&str, &str)]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    conformance::counts::<D>(&options(directory.path(), changed));
}

/// Contention on one row, each engine, each way of waiting.
#[test]
fn contended_counters_are_exact() {
    let _alone = ONE_AT_A_TIME.lock();
    counts_under_contention::<Memory>(&[]);
    counts_under_contention::<Lmdb>(&[]);
    for handler in ["backoff", "sleep-1ms", "yield"] {
        counts_under_contention::<Sqlite>(&[("busy_handler", handler)]);
    }
    // A handler that gives up at once refuses: the engine then did nothing.
    counts_under_contention::<Sqlite>(&[("busy_timeout_ms", "0")]);
}

fn syncs_of_100_updates<D: Driver>(changed: &[(&str, &str)]) -> u64 {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let driver = D::open(&options(directory.path(), changed)).expect("opens");
    driver.create_tables(1).expect("makes a table");
    driver.insert_rows(0, 1..=10, &fill).expect("inserts");
    let mut client = driver.connect(1).expect("connects");
    let before = sync_counter::syncs();
    for _ in 0..100 {
        assert_eq!(client.execute(&request(0, 1, Action::Increment)), Outcome::Acknowledged);
    }
    sync_counter::syncs() - before
}

/// The library's own calls are counted: one sync per commit where commits are synced, none where they are not.
#[test]
fn syncs_are_counted() {
    let _alone = ONE_AT_A_TIME.lock();
    assert_eq!(syncs_of_100_updates::<Lmdb>(&[]), 0);
    assert_eq!(syncs_of_100_updates::<Lmdb>(&[("no_sync", "false")]), 100);
    assert_eq!(syncs_of_100_updates::<Sqlite>(&[("synchronous", "OFF")]), 0);
    // The header of a new log is synced, and the file at checkpoints; commits are not.
    assert!(syncs_of_100_updates::<Sqlite>(&[("synchronous", "NORMAL")]) <= 3);
    assert!((100..=103).contains(&syncs_of_100_updates::<Sqlite>(&[("synchronous", "FULL")])));
}

/// Wrong settings are refused with the setting's name.
#[test]
fn wrong_settings_are_named() {
    let _alone = ONE_AT_A_TIME.lock();
    let directory = tempfile::tempdir().expect("a temporary directory");
    fn refused<D: Driver>(options: &OpenOptions) -> String {
        D::open(options).err().expect("is refused").to_string()
    }
    let wrong = |changed| options(directory.path(), changed);
    assert!(refused::<Sqlite>(&wrong(&[("busy_handler", "pray")])).contains("busy_handler"));
    assert!(refused::<Sqlite>(&wrong(&[("cache_mb", "much")])).contains("cache_mb"));
    assert!(refused::<Lmdb>(&wrong(&[("write_map", "maybe")])).contains("write_map"));
    assert!(refused::<Lmdb>(&wrong(&[("map_size_mb", "-1")])).contains("map_size_mb"));
}
