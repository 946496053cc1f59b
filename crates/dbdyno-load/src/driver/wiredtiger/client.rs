//! A client of WiredTiger: a session with a cursor per table, and one call into the shim for each request.

use super::database::{
    Database, OpenSession, WT_CACHE_FULL, WT_NOTFOUND, WT_ROLLBACK, is_disk_full,
};
use super::settings::Backoff;
use super::shim::Cursor;
use super::table_name;
use crate::driver::{Client, ClientCounters, DriverError};
use crate::outcome::{Failure, FailureClass, NOT_MADE_FOR, Outcome};
use dbdyno_workload::{Action, Request};
use std::ffi::c_int;
use std::sync::Arc;

/// The shim's words for how a counter changes.
const CHANGE_ADD: c_int = 0;
const CHANGE_SET: c_int = 1;
/// The shim's word for an update that came as far as its commit.
const STAGE_COMMIT: c_int = 3;

/// One client.
pub struct WiredTigerClient {
    cursors: Vec<*mut Cursor>,
    session: OpenSession,
    backoff: Backoff,
    /// Write conflicts since a request ended otherwise.
    conflicts: u32,
    counters: ClientCounters,
}

// SAFETY: the cursors belong to the session, which may move between threads with its owner.
unsafe impl Send for WiredTigerClient {}

impl WiredTigerClient {
    /// Opens a session and its cursors.
    pub fn connect(
        database: &Arc<Database>,
        tables: u16,
        backoff: Backoff,
    ) -> Result<Self, DriverError> {
        let session = OpenSession::of(database)?;
        let cursors = (0..tables)
            .map(|table| session.cursor(&table_name(table)))
            .collect::<Result<_, _>>()?;
        let counters = ClientCounters::default();
        Ok(WiredTigerClient { cursors, session, backoff, conflicts: 0, counters })
    }

    #[inline]
    fn read(&mut self, cursor: *mut Cursor, row: u64) -> Outcome {
        let mut counter = 0;
        // SAFETY: the cursor belongs to this client's session; the counter is filled in.
        match unsafe { (self.session.database.shim.read)(cursor, row, &mut counter) } {
            0 => {
                std::hint::black_box(counter);
                self.conflicts = 0;
                Outcome::Acknowledged
            }
            code => self.refused(code),
        }
    }

    #[inline]
    fn update(&mut self, cursor: *mut Cursor, row: u64, how: c_int, number: u64) -> Outcome {
        let mut stage = 0;
        // SAFETY: session and cursor are this client's; no transaction is open, because each call ends its own.
        let code = unsafe {
            let update = self.session.database.shim.update;
            update(self.session.session, cursor, row, how, number, &mut stage)
        };
        match code {
            0 => {
                self.conflicts = 0;
                Outcome::Acknowledged
            }
            // The library rolls a transaction back when it says so; any other failure to commit may have reached the log.
            code if stage == STAGE_COMMIT && code != WT_ROLLBACK => {
                Outcome::Unknown(self.failure(code))
            }
            code => self.refused(code),
        }
    }

    /// Nothing was changed. After a write conflict it waits, so that whoever holds the row can go on.
    #[cold]
    fn refused(&mut self, code: c_int) -> Outcome {
        let failure = self.failure(code);
        if failure.class != FailureClass::Serialization {
            self.conflicts = 0;
            return Outcome::Refused(failure);
        }
        self.conflicts = self.conflicts.saturating_add(1);
        match self.backoff.sleep(self.conflicts) {
            Some(sleep) => {
                self.counters.busy_waits += 1;
                self.counters.busy_sleep_ns += sleep.as_nanos() as u64;
                std::thread::sleep(sleep);
            }
            None if self.backoff == Backoff::Yield => {
                self.counters.busy_waits += 1;
                std::thread::yield_now();
            }
            None => {}
        }
        Outcome::Refused(failure)
    }

    #[cold]
    fn failure(&self, code: c_int) -> Failure {
        let class = match code {
            WT_ROLLBACK => FailureClass::Serialization,
            WT_NOTFOUND => FailureClass::NoSuchRow,
            WT_CACHE_FULL => FailureClass::Full,
            code if is_disk_full(code) || self.session.database.gave_up_on_full_disk(code) => {
                FailureClass::DiskFull
            }
            _ => FailureClass::Other,
        };
        Failure { class, code }
    }
}

impl Client for WiredTigerClient {
    #[inline]
    fn execute(&mut self, request: &Request) -> Outcome {
        let cursor = self.cursors[usize::from(request.table)];
        match request.action {
            Action::Read => self.read(cursor, request.row),
            Action::Increment => self.update(cursor, request.row, CHANGE_ADD, 1),
            Action::Assign(value) => self.update(cursor, request.row, CHANGE_SET, value),
            _ => NOT_MADE_FOR,
        }
    }

    fn counters(&self) -> ClientCounters {
        self.counters
    }
}
