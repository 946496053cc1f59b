//! The mongodb driver against a real server: requests end as they should, counters are exact, lost connections come
//! back, logins work or say why not, and what the server lacks is named.

mod support;

use bson::{Document, doc};
use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Client, Driver, DriverError, OpenOptions, mongodb::Mongodb};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{ClientId, Measured, RoleShape, Shape, Subject, Until, measure};
use dbdyno_load::outcome::{FailureClass, Outcome};
use dbdyno_load::server::{ClientOptions, EventQueue, Server};
use dbdyno_load::wire::mongodb::control::Control;
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};
use std::time::Duration;
use support::ferretdb_server::{FerretdbServer, options_of};

const CLIENTS: u32 = 8;
const QUEUES: [EventQueue; 2] = [EventQueue::Epoll, EventQueue::IoUring];

fn request(row: u64, action: Action) -> Request {
    Request { class: 0, table: 0, row, action }
}

fn open(options: &OpenOptions) -> Mongodb {
    let driver = Mongodb::open(options).expect("opens");
    driver.create_tables(1).expect("makes a collection");
    if driver.last_row(0).expect("reads").is_none() {
        driver.insert_rows(0, 1..=10, &|_, filler| filler.resize(100, 7)).expect("inserts");
    }
    driver
}

/// Increments of one row, counted.
struct OfOneRow {
    row: u64,
    acknowledged: u64,
    unknown: u64,
}

impl RequestStream for OfOneRow {
    fn next(&mut self) -> Request {
        request(self.row, Action::Increment)
    }

    fn acknowledged(&mut self, _: &Request) {
        self.acknowledged += 1;
    }

    fn unknown(&mut self, _: &Request) {
        self.unknown += 1;
    }
}

/// Runs clients that each raise the row that `row_of` gives them.
fn run(
    driver: &Mongodb,
    measured_ns: u64,
    row_of: impl Fn(u32) -> u64,
) -> (Measured<OfOneRow>, Totals) {
    let shape = Shape {
        roles: vec![RoleShape {
            clients: CLIENTS,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(5),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 0,
        until: Until::Time,
        measured_ns,
        drain_limit_ns: 20 * SECOND,
        retries_max: u32::MAX,
    };
    let mut totals = Totals::default();
    let stream = |id: ClientId| OfOneRow { row: row_of(id.client), acknowledged: 0, unknown: 0 };
    let measured = measure(driver, &shape, stream, &mut totals).expect("clients start");
    (measured, totals)
}

fn sums(measured: &Measured<OfOneRow>) -> (u64, u64) {
    let sum = |of: fn(&OfOneRow) -> u64| measured.streams.iter().map(of).sum();
    (sum(|stream| stream.acknowledged), sum(|stream| stream.unknown))
}

/// Values go through unchanged, and a row that is not there is not there.
#[test]
fn requests_end_as_they_should() {
    let server = FerretdbServer::start(&[]);
    let driver = open(&server.options(ClientOptions::default()));
    let mut connection = driver.connect(1).expect("connects");
    for value in [0, 7, u64::MAX - 1, 1 << 63, u64::MAX >> 1] {
        for action in [Action::Assign(value), Action::Read] {
            assert_eq!(connection.execute(&request(3, action)), Outcome::Acknowledged);
        }
        let row = driver.row(0, 3).expect("reads").expect("is there");
        assert_eq!((row.counter, row.filler), (value, vec![7; 100]));
        assert_eq!(driver.counter_sum(0), Ok(value));
    }
    for action in [Action::Read, Action::Increment, Action::Assign(1)] {
        match connection.execute(&request(11, action)) {
            Outcome::Refused(failure) => assert_eq!(failure.class, FailureClass::NoSuchRow),
            wrong => panic!("{action:?}: {wrong:?}"),
        }
    }
    // A sum that no signed number holds is found in another way than one that fits.
    for row in [4, 5, 6] {
        let assign = request(row, Action::Assign(u64::MAX >> 1));
        assert_eq!(connection.execute(&assign), Outcome::Acknowledged);
    }
    let of_one = u64::MAX >> 1;
    assert_eq!(driver.counter_sum(0), Ok(of_one.wrapping_mul(4)));
}

/// With rows of their own, clients' counters are exact, whatever is under way at a time and whoever tells of it.
#[test]
fn every_way_of_speaking_counts_exactly() {
    let server = FerretdbServer::start(&[]);
    for event_queue in QUEUES {
        for (pipeline, threads) in [(1, 1), (4, 2)] {
            let client =
                ClientOptions { threads, pipeline, event_queue, ..ClientOptions::default() };
            let driver = open(&server.options(client));
            let before = driver.counter_sum(0).expect("adds up");
            let (measured, _) = run(&driver, SECOND, |client| u64::from(client) + 1);
            let (acknowledged, unknown) = sums(&measured);
            assert!(
                acknowledged > u64::from(CLIENTS) && unknown == 0,
                "{client:?}: {acknowledged}"
            );
            let added = driver.counter_sum(0).expect("adds up") - before;
            assert_eq!(added, acknowledged, "{client:?}");
        }
    }
}

/// On one row nothing is counted twice. FerretDB 1 reads a document, changes it and writes it back without a lock, so
/// that it loses updates of others; the counters of every other server are exact.
#[test]
fn contended_counters_are_not_counted_twice() {
    let server = FerretdbServer::start(&[]);
    let driver = open(&server.options(ClientOptions::default()));
    let before = driver.counter_sum(0).expect("adds up");
    let (measured, _) = run(&driver, SECOND, |_| 1);
    let (acknowledged, unknown) = sums(&measured);
    let added = driver.counter_sum(0).expect("adds up") - before;
    assert!(acknowledged > 0 && added > 0);
    assert!(added <= acknowledged + unknown, "{added} of {acknowledged}, {unknown} unknown");
    let receipt = driver.receipt().expect("a receipt");
    let loses_updates =
        receipt.settings.get("ferretdb_version").is_some_and(|version| version.starts_with("v1."));
    assert!(loses_updates || added >= acknowledged, "{added} of {acknowledged}");
}

/// A server that is killed and started again gets its clients back, and what it said was done is done.
#[test]
fn clients_come_back_to_a_server_that_was_killed() {
    for event_queue in QUEUES {
        let mut server = FerretdbServer::start(&[]);
        let client = ClientOptions { threads: 1, event_queue, ..ClientOptions::default() };
        let options = server.options(client);
        let driver = open(&options);
        let before = driver.counter_sum(0).expect("adds up");
        let (measured, totals) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(800));
                server.kill();
                server.start_again();
            });
            run(&driver, 5 * SECOND, |client| u64::from(client) + 1)
        });
        let (acknowledged, unknown) = sums(&measured);
        assert_eq!(measured.counters.reconnects, u64::from(CLIENTS), "{event_queue:?}");
        assert!(unknown <= u64::from(CLIENTS), "{unknown}");
        let failures = totals.due_in_measured.failures.keys();
        let mut classes = failures.map(|failure| failure.class);
        assert!(classes.all(|class| class == FailureClass::LostConnection), "{event_queue:?}");
        let again = Mongodb::open(&options).expect("opens again");
        let added = again.counter_sum(0).expect("adds up") - before;
        assert!((acknowledged..=acknowledged + unknown).contains(&added), "{added}");
    }
}

fn refusal(server: Server) -> String {
    let opened = Mongodb::open(&options_of(server, ClientOptions::default()));
    opened.err().expect("is refused").to_string()
}

/// Users log in with their password, and no other; an error never shows it.
#[test]
fn logins_work_or_say_why_not() {
    let secret = "it's =a, s\u{e9}same";
    let password = format!("--setup-password={secret}");
    let setup =
        ["--test-enable-new-auth", "--setup-database=admin", "--setup-username=tester", &password];
    let server = FerretdbServer::start(&setup);
    let options = options_of(server.login_as("tester", secret), ClientOptions::default());
    let mut connection = open(&options).connect(1).expect("connects");
    assert_eq!(connection.execute(&request(1, Action::Increment)), Outcome::Acknowledged);
    for wrong in
        [server.login_as("tester", "abracadabra"), server.login_as("nobody", "abracadabra")]
    {
        let error = refusal(wrong);
        assert!(error.contains("log in as") && error.contains("code 18"), "{error}");
        assert!(!error.contains("abracadabra"), "{error}");
    }
    let anonymous = options_of(server.login(), ClientOptions::default());
    let error = Mongodb::open(&anonymous).and_then(|driver| driver.create_tables(1));
    assert!(error.expect_err("is refused").to_string().contains("uthenticat"));
}

/// Everything works encrypted as well; a certificate that is not trusted is refused.
#[test]
fn connections_are_encrypted() {
    let directory = tempfile::tempdir_in("/tmp").expect("a temporary directory");
    let names = vec!["127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).expect("makes a certificate");
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).expect("writes");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("writes");
    let files = [
        format!("--listen-tls-cert-file={}", certificate.display()),
        format!("--listen-tls-key-file={}", key.display()),
    ];
    let server = FerretdbServer::start_in(directory, &[&files[0], &files[1]]);
    let client = ClientOptions { threads: 1, pipeline: 4, ..ClientOptions::default() };
    let driver = open(&options_of(server.encrypted(Some(certificate)), client));
    let (measured, _) = run(&driver, SECOND / 2, |client| u64::from(client) + 1);
    let (acknowledged, unknown) = sums(&measured);
    assert!(acknowledged > 0 && unknown == 0);
    assert_eq!(driver.counter_sum(0), Ok(acknowledged));
    let error = refusal(server.encrypted(None));
    assert!(error.contains("certificate") && error.contains("encrypt"), "{error}");
}

/// A database that somebody else made is left alone; the note of what is loaded in ours comes back.
#[test]
fn databases_of_others_are_left_alone() {
    let server = FerretdbServer::start(&[]);
    let options = server.options(ClientOptions::default());
    let mut control = Control::open(&server.login()).expect("logs in");
    control.command(&doc! { "create": "t1" }).expect("makes a collection");
    for done in [Mongodb::create_database(&options), Mongodb::drop_database(&options)] {
        let error = done.expect_err("is refused").to_string();
        assert!(error.contains("did not make") && error.contains("dbdyno"), "{error}");
    }
    control.command(&doc! { "dropDatabase": 1 }).expect("drops");
    for _ in 0..2 {
        Mongodb::create_database(&options).expect("is ours now");
    }
    let driver = Mongodb::open(&options).expect("opens");
    assert_eq!(driver.noted_dataset(), Ok(None));
    driver.note_dataset("hot_row 'of' {1}").expect("notes");
    assert_eq!(driver.noted_dataset(), Ok(Some("hot_row 'of' {1}".to_owned())));
    Mongodb::drop_database(&options).expect("is ours");
    Mongodb::drop_database(&options).expect("is not there, which is what was wanted");
    assert_eq!(driver.noted_dataset(), Ok(None));
}

/// The receipt says that this is FerretDB, whatever version of MongoDB it imitates, and which replica set it is in.
#[test]
fn receipts_tell_servers_apart() {
    let server = FerretdbServer::start(&["--repl-set-name=rs0"]);
    let driver = open(&server.options(ClientOptions::default()));
    let receipt = driver.receipt().expect("a receipt");
    assert!(receipt.version.starts_with("7."), "{}", receipt.version);
    let setting = |name: &str| receipt.settings.get(name).map(String::as_str);
    assert!(setting("ferretdb_version").is_some_and(|version| version.starts_with('v')));
    assert_eq!(setting("replica_set"), Some("rs0"));
    assert_eq!(setting("quiet"), Some("false"));
    assert_eq!(driver.statement(r#"{"count": "t1"} | n"#), Ok(Some(10)));
    assert_eq!(driver.statement(r#"{"count": "t1"}"#), Ok(None));
    let fails = |done: Result<Option<u64>, DriverError>| done.expect_err("fails").to_string();
    let error = fails(driver.statement(r#"{"frobnicate": 1} | x"#));
    assert!(error.contains("frobnicate") && error.contains("does not have"), "{error}");
    assert!(fails(driver.statement("SELECT 1")).contains("SELECT 1"));
}

/// More rows than one batch of a cursor has, larger than one read: all are inserted, aged and found.
#[test]
fn many_rows_and_large_rows_are_kept() {
    let server = FerretdbServer::start(&[]);
    let driver = Mongodb::open(&server.options(ClientOptions::default())).expect("opens");
    driver.create_tables(2).expect("makes collections");
    driver.insert_rows(0, 1..=300, &|_, filler| filler.resize(60_000, 1)).expect("inserts");
    assert_eq!(driver.last_row(0), Ok(Some(300)));
    let mut connection = driver.connect(1).expect("connects");
    assert_eq!(connection.execute(&request(300, Action::Read)), Outcome::Acknowledged);
    let filler = driver.row(0, 300).expect("reads").map(|row| row.filler.len());
    assert_eq!(filler, Some(60_000));
    assert!(driver.insert_rows(0, 300..=301, &|_, filler| filler.clear()).is_err());
    let missing = dbdyno_workload::RowId { table: 0, row: 1_000 };
    let error = driver.age_rows(&[missing], 1).expect_err("is not there").to_string();
    assert!(error.contains("0 of 1"), "{error}");
    assert_eq!(driver.age_progress(), Ok(0));
}

/// What later workloads will ask is understood as it is meant.
#[test]
fn the_vocabulary_is_understood() {
    let server = FerretdbServer::start(&[]);
    let mut control = Control::open(&server.login()).expect("logs in");
    let mut ask = |command: Document| {
        control.command(&command).unwrap_or_else(|fault| panic!("{command}: {fault}"))
    };
    let rows: Vec<Document> =
        (1..=250i64).map(|row| doc! { "_id": row, "k": row % 10, "pad": "x".repeat(50) }).collect();
    assert_eq!(ask(doc! { "insert": "v", "documents": rows }).get("n"), Some(&250i32.into()));
    let key = doc! { "k": 1, "_id": 1 };
    ask(doc! { "createIndexes": "v", "indexes": [{ "key": &key, "name": "k_1" }] });
    let set = doc! { "q": { "_id": 3i64 }, "u": { "$set": { "pad": "y" } } };
    assert_eq!(ask(doc! { "update": "v", "updates": [set] }).get("nModified"), Some(&1i32.into()));
    let keyset = doc! { "$or": [{ "k": { "$gt": 4 } }, { "k": 4, "_id": { "$gte": 100i64 } }] };
    let find = doc! {
        "find": "v", "filter": keyset, "projection": { "_id": 0, "k": 1 }, "sort": key,
        "hint": "k_1", "limit": 10,
    };
    let found = ask(find.clone());
    let rows = found.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let rows = rows.expect("are there");
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row.as_document() == Some(&doc! { "k": 4i64 })));
    ask(doc! { "explain": find });
    let delete = doc! { "q": { "_id": 250i64 }, "limit": 1 };
    assert_eq!(ask(doc! { "delete": "v", "deletes": [delete] }).get("n"), Some(&1i32.into()));
    let count = doc! { "aggregate": "v", "pipeline": [{ "$count": "rows" }], "cursor": {} };
    let counted = control.first(&count).expect("counts").expect("has a row");
    assert_eq!(counted.get("rows"), Some(&249i32.into()));
    let mut found = 0;
    let all = control.for_each(&doc! { "find": "v", "filter": {}, "batchSize": 100 }, |_| {
        found += 1;
        Ok(())
    });
    assert_eq!((all, found), (Ok(()), 249));
}
