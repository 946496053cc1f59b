//! The request loop allocates nothing: counted by an allocator, on the worker's own thread, while requests run.

mod support;

use dbdyno_load::arrival::{ArrivalLaw, ArrivalPlan};
use dbdyno_load::clock::{self, Ns, SECOND};
use dbdyno_load::driver::{
    Driver, OpenOptions, lmdb::Lmdb, memory::Memory, mongodb::Mongodb, mysql::Mysql, null::Null,
    postgres::Postgres, sqlite::Sqlite,
};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{RoleShape, Shape, Subject, Until, measure};
use dbdyno_load::server::{ClientOptions, EventQueue, Statements, Transaction};
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::ferretdb_server::FerretdbServer;
use support::mysql_server::MysqlServer;
use support::postgres_server::PostgresServer;

const LAWS: [ArrivalLaw; 4] =
    [ArrivalLaw::Closed, ArrivalLaw::Uniform, ArrivalLaw::Poisson, ArrivalLaw::BurstEachSecond];

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

// SAFETY: everything is passed on to the system's allocator; the counter is a plain cell that never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of GlobalAlloc.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Notes the thread's count of allocations at one request and at a later one.
#[derive(Default)]
struct Watching {
    made: u64,
    first: u64,
    last: u64,
    /// When the first request was made.
    began: Ns,
}

/// How long requests are watched. What a slow server leaves for after the measured interval is not: an interval's end
/// is no part of the request loop.
const WATCHED_NS: Ns = SECOND / 5;

impl RequestStream for Watching {
    fn next(&mut self) -> Request {
        self.made += 1;
        let count = ALLOCATIONS.with(Cell::get);
        if self.made == 10 {
            self.first = count;
        }
        let now = clock::now();
        if self.made == 1 {
            self.began = now;
        }
        if self.made <= 10 || now < self.began + WATCHED_NS {
            self.last = count;
        }
        Request {
            class: 0,
            table: 0,
            row: 1 + self.made % 10,
            action: match self.made % 3 {
                0 => Action::Read,
                1 => Action::Increment,
                _ => Action::Assign(self.made),
            },
        }
    }

    fn acknowledged(&mut self, _: &Request) {}

    fn unknown(&mut self, _: &Request) {}
}

fn check_library<D: Driver>(law: ArrivalLaw) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = [
        ("no_sync", "true"),
        ("write_map", "false"),
        ("map_size_mb", "64"),
        ("synchronous", "OFF"),
        ("cache_mb", "2"),
        ("wal_autocheckpoint_pages", "1000"),
        ("page_size", "4096"),
        ("busy_handler", "backoff"),
        ("busy_timeout_ms", "10000"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = OpenOptions::of_directory(directory.path().to_owned(), settings, 2);
    check::<D>(&options, law);
}

fn check<D: Driver>(options: &OpenOptions, law: ArrivalLaw) {
    let driver = D::open(options).expect("opens");
    driver.create_tables(1).expect("makes a table");
    let first = driver.last_row(0).expect("reads").unwrap_or(0) + 1;
    driver.insert_rows(0, first..=first + 9, &|_, filler| filler.resize(100, 7)).expect("inserts");
    let rates_per_s = if law == ArrivalLaw::Closed { vec![] } else { vec![2_000.0] };
    // No warm-up and less than a second measured: no interval ends while requests run, and what happens once a second
    // is not part of the request loop.
    let shape = Shape {
        roles: vec![RoleShape {
            clients: 2,
            arrival: ArrivalPlan { law, rates_per_s },
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 0,
        until: Until::Time,
        measured_ns: SECOND / 4,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    };
    let measured = measure(&driver, &shape, |_| Watching::default(), &mut Totals::default());
    let streams = measured.expect("clients start").streams;
    let made: u64 = streams.iter().map(|stream| stream.made).sum();
    assert!(made > 40, "{made} requests are too few to say anything");
    // On a busy host SQLite's growing sleeps may let one client hardly begin: it has nothing to say then.
    for stream in streams.iter().filter(|stream| stream.made > 10) {
        let allocations = stream.last - stream.first;
        assert_eq!(allocations, 0, "in {} requests, {law:?}, {:?}", stream.made, options.client);
    }
}

/// Every driver, every arrival law.
#[test]
fn the_request_loop_allocates_nothing() {
    for law in LAWS {
        check_library::<Null>(law);
        check_library::<Memory>(law);
        check_library::<Lmdb>(law);
        check_library::<Sqlite>(law);
    }
}

/// The driver of a server with every way of speaking, every arrival law.
fn check_server<D: Driver>(options: impl Fn(ClientOptions) -> OpenOptions) {
    for law in LAWS {
        for statements in [Statements::Prepared, Statements::Text] {
            for transaction in [Transaction::Autocommit, Transaction::BeginCommit] {
                for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
                    let client = ClientOptions {
                        threads: 2,
                        pipeline: 4,
                        statements,
                        transaction,
                        event_queue,
                    };
                    check::<D>(&options(client), law);
                }
            }
        }
    }
}

/// The event loop and the session of postgres.
#[test]
fn the_event_loop_allocates_nothing() {
    let server = PostgresServer::start(None);
    check_server::<Postgres>(|client| server.options_with(client));
}

/// The event loop and the session of mysql.
#[test]
fn the_session_of_mysql_allocates_nothing() {
    // Without syncs requests end in the time that each law has, so that no interval ends while they run.
    let server = MysqlServer::start(&["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]);
    check_server::<Mysql>(|client| server.options(client));
}

/// The session of mongodb, which has one way of speaking.
#[test]
fn the_session_of_mongodb_allocates_nothing() {
    let server = FerretdbServer::start(&[]);
    for law in LAWS {
        for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
            let client =
                ClientOptions { threads: 2, pipeline: 4, event_queue, ..ClientOptions::default() };
            check::<Mongodb>(&server.options(client), law);
        }
    }
}

/// The allocator does count: a test that cannot fail shows nothing.
#[test]
fn the_allocator_counts() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(ALLOCATIONS.with(Cell::get), before + 1);
}
