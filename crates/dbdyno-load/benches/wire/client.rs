//! dbdyno as one of the programs that are compared: its driver, worker and recorder, all recording on, in a process of its
//! own, and the table that everyone reads, loaded through it.

use crate::peer::{Cost, Task, Work};
use crate::server::Kind;
use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Driver, DriverError, OpenOptions};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{
    Boundary, ClientId, Observer, RoleShape, Shape, Subject, Until, measure,
};
use dbdyno_load::recorder::Interval;
use dbdyno_load::server::{ClientOptions, EventQueue};
use dbdyno_load::wire::has_io_uring;
use dbdyno_load::with_driver;
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RequestStream};
use std::collections::BTreeMap;
use std::path::Path;

const FILLER_BYTES: usize = 100;
const ROWS_PER_TRANSACTION: u64 = 10_000;

/// Rows from the high bits of a linear congruential generator, as the bare loops take them.
struct Rows {
    state: u64,
    rows: u64,
    work: Work,
}

impl RequestStream for Rows {
    #[inline]
    fn next(&mut self) -> Request {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let row = (((self.state >> 32) * self.rows) >> 32) + 1;
        let action = match self.work {
            Work::Read => Action::Read,
            Work::Update => Action::Assign(self.state >> 32),
        };
        Request { class: 0, table: 0, row, action }
    }

    fn acknowledged(&mut self, _: &Request) {}

    fn unknown(&mut self, _: &Request) {}
}

/// Adds up the requests, and takes the process's CPU time at both boundaries.
#[derive(Default)]
struct Watch {
    totals: Totals,
    at_start: (f64, f64),
    at_end: (f64, f64),
}

impl Observer for Watch {
    fn boundary(&mut self, boundary: Boundary, _: &[u32]) {
        match boundary {
            Boundary::MeasureStart => self.at_start = own_cpu(),
            Boundary::MeasureEnd => self.at_end = own_cpu(),
        }
    }

    fn interval(&mut self, interval: Interval) {
        self.totals.interval(interval);
    }
}

/// User and system seconds of this process so far.
fn own_cpu() -> (f64, f64) {
    // SAFETY: zero bytes are a valid rusage, and the call with our own number and a valid pointer cannot fail.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// A time of the C library in seconds.
pub fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn options(kind: Kind, socket: &Path, clients: u32, event_queue: EventQueue) -> OpenOptions {
    // One thread, like every other program here.
    let client = ClientOptions { threads: 1, event_queue, ..ClientOptions::default() };
    let directory = socket.parent().unwrap_or(Path::new("/")).to_owned();
    let server = Some(kind.target(socket));
    OpenOptions { server, client, ..OpenOptions::of_directory(directory, BTreeMap::new(), clients) }
}

/// Measures for so long and returns what it cost; called in a child.
pub fn run(
    kind: Kind,
    socket: &Path,
    task: Task,
    event_queue: EventQueue,
) -> Result<Cost, DriverError> {
    let Task { clients, length_s: length, work } = task;
    let shape = Shape {
        roles: vec![RoleShape {
            clients,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: SECOND / 2,
        until: Until::Time,
        measured_ns: length * SECOND,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    };
    if event_queue == EventQueue::IoUring && !has_io_uring() {
        return Err(DriverError::new("the kernel has no io_uring for us"));
    }
    let options = options(kind, socket, clients, event_queue);
    let mut watch = Watch::default();
    with_driver!(kind.name(), D => {
        let driver = D::open(&options)?;
        let stream_of = |ClientId { client, .. }| {
            let state = u64::from(client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Rows { state, rows: kind.rows(), work }
        };
        measure(&driver, &shape, stream_of, &mut watch).map(|_| ())
    })?;
    Ok(Cost {
        operations: watch.totals.completed,
        user_s: watch.at_end.0 - watch.at_start.0,
        system_s: watch.at_end.1 - watch.at_start.1,
        wall_s: length as f64,
    })
}

/// Makes the table and fills it.
pub fn load(kind: Kind, socket: &Path) -> Result<(), DriverError> {
    let options = options(kind, socket, 1, EventQueue::Automatic);
    with_driver!(kind.name(), D => {
        let driver = D::open(&options)?;
        driver.create_tables(1)?;
        for first in (1..=kind.rows()).step_by(ROWS_PER_TRANSACTION as usize) {
            let rows = first..=(first + ROWS_PER_TRANSACTION - 1).min(kind.rows());
            driver.insert_rows(0, rows, &|_, filler| {
                filler.clear();
                filler.resize(FILLER_BYTES, b'f');
            })?;
        }
        driver.settle()
    })
}
