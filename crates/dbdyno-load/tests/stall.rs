//! A server that stands still shows in the response time of what was due meanwhile, over either wire and either event
//! queue. A file of its own, so that no other test runs beside it.

mod support;

use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Driver, OpenOptions, mysql::Mysql, postgres::Postgres};
use dbdyno_load::server::{ClientOptions, EventQueue};
use std::time::Duration;
use support::mysql_server::MysqlServer;
use support::postgres_server::PostgresServer;
use support::{loaded, schedule};

/// Two of ten seconds: a fifth of the requests wait, one second on average.
fn a_stall_shows<D: Driver>(
    options: impl Fn(ClientOptions) -> OpenOptions,
    signal: impl Fn(libc::c_int) + Sync,
) {
    for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
        let client = ClientOptions { threads: 1, event_queue, ..ClientOptions::default() };
        let driver: D = loaded(&options(client));
        let (measured, totals, due) = schedule::run_while(&driver, 10 * SECOND, || {
            signal(libc::SIGSTOP);
            std::thread::sleep(Duration::from_secs(2));
            signal(libc::SIGCONT);
        });
        let counts = &totals.due_in_measured;
        assert_eq!((counts.response_time_ns.len(), due), (5_000, 5_000));
        assert_eq!((measured.unsent, measured.counters.reconnects), (0, 0));
        let near = |what: &str, found_ns: f64, expected_ns: f64| {
            let ratio = found_ns / expected_ns;
            assert!(
                (0.9..1.1).contains(&ratio),
                "{event_queue:?}, {what}: {found_ns} ns, expected {expected_ns} ns"
            );
        };
        near("mean", counts.response_time_ns.mean(), 0.2e9);
        near("p95", counts.response_time_ns.value_at_quantile(0.95) as f64, 1.5e9);
        near("p99", counts.response_time_ns.value_at_quantile(0.99) as f64, 1.9e9);
    }
}

/// PostgreSQL, then MySQL's wire, one after the other.
#[test]
fn a_stall_shows_in_response_time() {
    let postgres = PostgresServer::start(None);
    a_stall_shows::<Postgres>(
        |client| postgres.options_with(client),
        |signal| postgres.signal_all(signal),
    );
    drop(postgres);
    // No commit waits for a disk: the row takes 500 updates a second on any.
    let mysql = MysqlServer::start(&["--innodb-flush-log-at-trx-commit=0"]);
    a_stall_shows::<Mysql>(|client| mysql.options(client), |signal| mysql.signal(signal));
}
