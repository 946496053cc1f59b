//! The postgres driver and the event loop against a real server: every way of speaking counts exactly, every way of
//! logging in works or says why not, and outages show where they belong.

mod support;

use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::{self, Ns, SECOND};
use dbdyno_load::driver::{Client, Driver, OpenOptions, postgres::Postgres};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{Measured, RoleShape, Shape};
use dbdyno_load::outcome::{FailureClass, Outcome};
use dbdyno_load::server::{
    Address, ClientOptions, EventQueue, Server, Statements, Tls, Transaction,
};
use dbdyno_workload::{Action, Request, Seed};
use std::sync::Mutex;
use std::time::Duration;
use support::postgres_server::{PASSWORD, PostgresServer};
use support::schedule::{self, check_streams_that_end, due_by_schedule, run, shape};
use support::{Counting, loaded};

/// Tests of time must not share the machine with each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn open(options: &OpenOptions) -> Postgres {
    loaded(options)
}

fn acknowledged(measured: &Measured<Counting>) -> u64 {
    measured.streams.iter().map(|stream| stream.acknowledged).sum()
}

/// Whatever is sent in whatever way, the row's counter is the number of acknowledged increments.
fn counts_exactly(options: &OpenOptions, law: ArrivalLaw) {
    let driver = open(options);
    let before = driver.counter_sum(0).expect("adds up");
    let shape = shape(law, 1_000.0, SECOND / 2);
    let (measured, totals) = run(&driver, &shape);
    let acknowledged = acknowledged(&measured);
    let added = driver.counter_sum(0).expect("adds up").wrapping_sub(before);
    assert!(acknowledged > 100, "{:?}: only {acknowledged}", options.client);
    assert_eq!(added, acknowledged, "{:?} {law:?}", options.client);
    let made: u64 = measured.streams.iter().map(|stream| stream.made).sum();
    assert_eq!(made, acknowledged, "{:?} {law:?}", options.client);
    assert_eq!((measured.unsent, measured.counters.reconnects), (0, 0));
    if law != ArrivalLaw::Closed {
        let due = due_by_schedule(&shape, measured.timeline);
        assert_eq!(totals.due_in_measured.response_time_ns.len(), due, "{:?}", options.client);
    }
}

/// Prepared and as text, alone and in transactions, one at a time and many, on one thread and on two.
#[test]
fn every_way_of_speaking_counts_exactly() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = PostgresServer::start(None);
    for statements in [Statements::Prepared, Statements::Text] {
        for transaction in [Transaction::Autocommit, Transaction::BeginCommit] {
            for (pipeline, threads) in [(1, 1), (8, 2)] {
                for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
                    let client =
                        ClientOptions { threads, pipeline, statements, transaction, event_queue };
                    for law in [ArrivalLaw::Closed, ArrivalLaw::Uniform] {
                        counts_exactly(&server.options_with(client), law);
                    }
                }
            }
        }
    }
}

/// Clients of several roles on one thread, whose requests end: the measurement ends with the last of them.
#[test]
fn streams_end() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = PostgresServer::start(None);
    for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
        for pipeline in [1, 7] {
            let client =
                ClientOptions { threads: 1, pipeline, event_queue, ..ClientOptions::default() };
            check_streams_that_end(&open(&server.options_with(client)));
        }
    }
}

/// More requests under way than a socket has room for, plain and encrypted: what does not fit is sent when there is
/// room, in order, once.
#[test]
fn full_sockets_lose_nothing() {
    let _alone = ONE_AT_A_TIME.lock();
    let certified =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a key");
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let server = PostgresServer::start(Some((&certificate, &key)));
    let trusted = server.file("trusted.pem");
    std::fs::write(&trusted, &certificate).expect("writes");
    let encrypted = Server {
        address: Address::Tcp { host: "127.0.0.1".to_owned(), port: server.port },
        tls: Tls::Verified { trusted: Some(trusted) },
        ..server.server_as("scram", PASSWORD)
    };
    let ways = [
        (server.server(), EventQueue::Epoll),
        (server.server(), EventQueue::IoUring),
        (encrypted, EventQueue::IoUring),
    ];
    for (server, event_queue) in ways {
        let client =
            ClientOptions { threads: 1, pipeline: 20_000, event_queue, ..ClientOptions::default() };
        let driver = open(&OpenOptions { client, server: Some(server), ..server_options() });
        let before = driver.counter_sum(0).expect("adds up");
        let shape = Shape {
            roles: vec![RoleShape {
                clients: 1,
                arrival: ArrivalPlan::closed(),
                classes: 0..1,
                seed: Seed(5),
            }],
            drain_limit_ns: 60 * SECOND,
            ..shape(ArrivalLaw::Closed, 0.0, SECOND / 5)
        };
        let (measured, _) = run(&driver, &shape);
        let acknowledged = acknowledged(&measured);
        assert!(acknowledged >= 20_000, "{acknowledged}");
        assert_eq!(driver.counter_sum(0).expect("adds up") - before, acknowledged);
        assert_eq!(measured.streams[0].made, acknowledged);
    }
}

/// One request in every way: values go through unchanged, and a row that is not there is not there.
#[test]
fn requests_end_as_they_should() {
    let server = PostgresServer::start(None);
    for statements in [Statements::Prepared, Statements::Text] {
        for transaction in [Transaction::Autocommit, Transaction::BeginCommit] {
            let client = ClientOptions { statements, transaction, ..ClientOptions::default() };
            let driver = open(&server.options_with(client));
            let mut connection = driver.connect(1).expect("connects");
            for value in [0, 7, u64::MAX - 1, 1 << 63, u64::MAX >> 1] {
                for action in [Action::Assign(value), Action::Read] {
                    let request = Request { class: 0, table: 0, row: 3, action };
                    assert_eq!(connection.execute(&request), Outcome::Acknowledged, "{client:?}");
                }
                let row = driver.row(0, 3).expect("reads").expect("is there");
                assert_eq!(row.counter, value, "{client:?}");
            }
            let overflow = Request { class: 0, table: 0, row: 3, action: Action::Increment };
            match connection.execute(&overflow) {
                Outcome::Refused(failure) => assert_eq!(failure.class, FailureClass::Other),
                wrong => panic!("{client:?}: {wrong:?}"),
            }
            let missing = Request { class: 0, table: 0, row: 11, action: Action::Read };
            match connection.execute(&missing) {
                Outcome::Refused(failure) => assert_eq!(failure.class, FailureClass::NoSuchRow),
                wrong => panic!("{client:?}: {wrong:?}"),
            }
        }
    }
}

/// A lock that is not had in time is waited for again until it is had; nothing is counted twice.
#[test]
fn refusals_that_pass_are_tried_again() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = PostgresServer::start(None);
    server.psql("ALTER DATABASE dbdyno SET lock_timeout = '20ms'");
    for transaction in [Transaction::Autocommit, Transaction::BeginCommit] {
        let client = ClientOptions { threads: 1, transaction, ..ClientOptions::default() };
        let driver = open(&server.options_with(client));
        let before = driver.counter_sum(0).expect("adds up");
        let (measured, totals) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                server.psql_in(
                    "dbdyno",
                    "BEGIN; UPDATE t1 SET filler = filler WHERE id = 1; SELECT pg_sleep(0.3); COMMIT",
                );
            });
            run(&driver, &shape(ArrivalLaw::Uniform, 200.0, SECOND))
        });
        let counts = &totals.due_in_measured;
        assert!(counts.retries > 10, "only {} were tried again", counts.retries);
        assert_eq!((counts.refused, counts.unknown), (0, 0));
        let failures: u64 = counts.failures.values().sum();
        assert_eq!(failures, counts.retries);
        assert!(counts.failures.keys().all(|failure| failure.class == FailureClass::LockTimeout));
        let added = driver.counter_sum(0).expect("adds up") - before;
        assert_eq!(added, acknowledged(&measured));
        assert_eq!(counts.response_time_ns.len(), 200);
    }
}

fn login_error(server: Server) -> String {
    let options =
        OpenOptions { server: Some(server), ..OpenOptions::of_directory("".into(), [].into(), 1) };
    match Postgres::open(&options) {
        Ok(_) => panic!("{options:?} was let in"),
        Err(error) => error.to_string(),
    }
}

/// Every kind of password, encrypted or not; what is wrong is said, and passwords are not.
#[test]
fn logins_work_or_say_why_not() {
    let certified =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a key");
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let server = PostgresServer::start(Some((&certificate, &key)));
    let trusted = server.file("trusted.pem");
    std::fs::write(&trusted, &certificate).expect("writes");
    let encrypted = |login, trusted| Server {
        address: Address::Tcp { host: "127.0.0.1".to_owned(), port: server.port },
        tls: Tls::Verified { trusted },
        ..server.server_as(login, PASSWORD)
    };
    for login in ["cleartext", "md5", "scram"] {
        let options = |server| OpenOptions { server: Some(server), ..server_options() };
        counts_exactly(&options(server.server_as(login, PASSWORD)), ArrivalLaw::Closed);
        let error = login_error(server.server_as(login, "abracadabra"));
        assert!(error.contains("password authentication failed"), "{error}");
        assert!(error.contains(login) && !error.contains("abracadabra"), "{error}");
        let error = login_error(Server { password: None, ..server.server_as(login, "") });
        assert!(error.contains("none is given"), "{error}");
        if login != "cleartext" {
            let encrypted = encrypted(login, Some(trusted.clone()));
            counts_exactly(&options(encrypted), ArrivalLaw::Uniform);
        }
    }
    let client = ClientOptions { threads: 1, pipeline: 8, ..ClientOptions::default() };
    let encrypted_options = OpenOptions {
        client,
        server: Some(encrypted("scram", Some(trusted.clone()))),
        ..server_options()
    };
    counts_exactly(&encrypted_options, ArrivalLaw::Closed);
    let error = login_error(encrypted("scram", None));
    assert!(error.contains("certificate"), "{error}");
    let on_socket = Server { tls: Tls::Verified { trusted: None }, ..server.server() };
    assert!(login_error(on_socket).contains("the server refuses TLS"));
    let nowhere =
        Server { address: Address::Unix("/tmp/no-server-here".into()), ..server.server() };
    assert!(login_error(nowhere).contains("/tmp/no-server-here"));
}

fn server_options() -> OpenOptions {
    OpenOptions::of_directory("".into(), [].into(), 8)
}

const OF_A_CLIENT: &str =
    "FROM pg_stat_activity WHERE datname = 'dbdyno' AND query LIKE 'UPDATE%' LIMIT 1";

/// Runs 500 requests a second for some seconds while something is done to the server after one second.
fn run_while(
    server: &PostgresServer,
    event_queue: EventQueue,
    measured_ns: Ns,
    act: impl FnOnce() + Send,
) -> (Measured<Counting>, Totals, u64) {
    let client = ClientOptions { threads: 1, event_queue, ..ClientOptions::default() };
    schedule::run_while(&open(&server.options_with(client)), measured_ns, act)
}

/// One connection that is closed by the server is opened again; the schedule goes on.
#[test]
fn one_lost_connection_is_opened_again() {
    let _alone = ONE_AT_A_TIME.lock();
    for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
        one_lost_connection_is_opened_again_by(event_queue);
    }
}

fn one_lost_connection_is_opened_again_by(event_queue: EventQueue) {
    let server = PostgresServer::start(None);
    let (measured, totals, due) = run_while(&server, event_queue, 3 * SECOND, || {
        server.psql(&format!("SELECT pg_terminate_backend(pid) {OF_A_CLIENT}"));
    });
    let counts = &totals.due_in_measured;
    assert_eq!(measured.counters.reconnects, 1);
    assert_eq!(counts.response_time_ns.len() + counts.unknown, due);
    assert!(counts.unknown <= 1 && measured.unsent == 0 && counts.refused == 0);
}

/// A backend that is killed takes all connections with it; they all come back after the server has recovered, and what
/// was due meanwhile is sent late.
#[test]
fn all_lost_connections_are_opened_again() {
    let _alone = ONE_AT_A_TIME.lock();
    for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
        all_lost_connections_are_opened_again_by(event_queue);
    }
}

fn all_lost_connections_are_opened_again_by(event_queue: EventQueue) {
    let server = PostgresServer::start(None);
    let (measured, totals, due) = run_while(&server, event_queue, 4 * SECOND, || {
        let process = server.psql(&format!("SELECT pid {OF_A_CLIENT}"));
        // SAFETY: kill takes numbers only; the process is this test's server's.
        unsafe { libc::kill(process.parse().expect("a number"), libc::SIGKILL) };
    });
    let counts = &totals.due_in_measured;
    // A server that has not yet noticed lets a client in once more, only to throw it out with the others.
    let reconnects = measured.counters.reconnects;
    assert!(reconnects >= 8, "{reconnects}");
    assert_eq!(counts.response_time_ns.len() + counts.unknown, due);
    assert!(counts.unknown <= reconnects && measured.unsent == 0);
    // The outage is in the response time of what was due in it, not in anybody's service time.
    assert!(counts.response_time_ns.max() > 10 * counts.service_time_ns.value_at_quantile(0.9));
}

/// A server that never comes back: the loop ends on time, and every request that was due is accounted for.
#[test]
fn a_server_that_is_gone_is_not_waited_for() {
    let _alone = ONE_AT_A_TIME.lock();
    for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
        a_server_that_is_gone_is_not_waited_for_by(event_queue);
    }
}

fn a_server_that_is_gone_is_not_waited_for_by(event_queue: EventQueue) {
    let server = PostgresServer::start(None);
    let begun = clock::now();
    let (measured, totals, due) =
        run_while(&server, event_queue, 2 * SECOND, || server.signal_all(libc::SIGKILL));
    assert!(clock::now() - begun < 5 * SECOND);
    let counts = &totals.due_in_measured;
    assert_eq!(counts.response_time_ns.len() + counts.unknown + measured.unsent, due);
    assert!(measured.unsent > 300, "{}", measured.unsent);
    let unknown: u64 = measured.streams.iter().map(|stream| stream.unknown).sum();
    assert_eq!(unknown, counts.unknown);
}
