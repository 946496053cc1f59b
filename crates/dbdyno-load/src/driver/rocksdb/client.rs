//! One client of RocksDB: the data plane. A read is a get; an update reads the row for update, changes its counter and
//! commits, in a transaction object that is used again for every request.

use super::api::{ColumnFamily, Transaction};
use super::database::{Database, copied, pinned};
use super::status::{Fault, damaged, no_such_row, uncommitted};
use super::{COUNTER_BYTES, key_of};
use crate::driver::Client;
use crate::outcome::{NOT_MADE_FOR, Outcome};
use crate::recorder::Recorder;
use crate::worker::{Lane, Limits, WorkerEnd, work_in_turn};
use dbdyno_workload::{Action, Request, RequestStream};
use std::sync::Arc;

/// A row that is read for update is locked against everybody else.
const EXCLUSIVE: u8 = 1;

/// A connection: a transaction object, and a buffer for changed values.
pub struct RocksdbClient {
    database: Arc<Database>,
    tables: Vec<*mut ColumnFamily>,
    transaction: *mut Transaction,
    value: Vec<u8>,
}

// SAFETY: a transaction may be used by one thread after another, and a client has one owner; column families may be
// used from any thread.
unsafe impl Send for RocksdbClient {}

impl Drop for RocksdbClient {
    fn drop(&mut self) {
        // SAFETY: the transaction is live and the database is still open.
        unsafe { (self.database.api.transaction_destroy)(self.transaction) };
    }
}

impl Client for RocksdbClient {
    #[inline]
    fn execute(&mut self, request: &Request) -> Outcome {
        let table = self.tables[usize::from(request.table)];
        match request.action {
            Action::Read => self.read(table, request.row),
            Action::Increment => self.update(table, request.row, |old| old.wrapping_add(1)),
            Action::Assign(value) => self.update(table, request.row, |_| value),
            _ => NOT_MADE_FOR,
        }
    }

    fn run<S: RequestStream>(
        clients: &mut [Self],
        lanes: &mut [Lane<S>],
        recorder: &mut Recorder<'_>,
        limits: Limits,
    ) -> WorkerEnd {
        let Some(database) = clients.first().map(|client| Arc::clone(&client.database)) else {
            return WorkerEnd::default();
        };
        let mut requests = || work_in_turn(clients, lanes, recorder, limits);
        match &database.perf_context {
            Some(perf_context) => perf_context.count(&database.api, requests),
            None => requests(),
        }
    }
}

impl RocksdbClient {
    pub(super) fn new(database: Arc<Database>, tables: Vec<*mut ColumnFamily>) -> Self {
        let transaction = database.begin(std::ptr::null_mut());
        // Values are copied here to be changed; rows are never longer than this, because loading wrote them.
        let value = Vec::with_capacity(64 << 10);
        RocksdbClient { database, tables, transaction, value }
    }

    #[inline]
    fn read(&mut self, table: *mut ColumnFamily, row: u64) -> Outcome {
        let mut fault = Fault::new(&self.database.api);
        let found = self.database.get(table, &key_of(row), &mut fault, |value| {
            std::hint::black_box(value);
        });
        match found {
            Some(()) => Outcome::Acknowledged,
            None if fault.is_set() => Outcome::Refused(fault.failure()),
            None => no_such_row(),
        }
    }

    #[inline]
    fn update(
        &mut self,
        table: *mut ColumnFamily,
        row: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Outcome {
        self.transaction = self.database.begin(self.transaction);
        let key = key_of(row);
        if let Err(outcome) = self.change(table, &key, change) {
            self.roll_back();
            return outcome;
        }
        let mut fault = Fault::new(&self.database.api);
        // SAFETY: the transaction is live, and the fault's place takes the error.
        unsafe { (self.database.api.transaction_commit)(self.transaction, fault.place()) };
        if !fault.is_set() {
            return Outcome::Acknowledged;
        }
        let outcome = uncommitted(&fault);
        self.roll_back();
        outcome
    }

    /// Reads the row for update and puts it back changed. Nothing is changed outside the transaction, so what fails
    /// here is refused.
    #[inline]
    fn change(
        &mut self,
        table: *mut ColumnFamily,
        key: &[u8; 8],
        change: impl FnOnce(u64) -> u64,
    ) -> Result<(), Outcome> {
        let RocksdbClient { database, transaction, value: buffer, .. } = self;
        let mut fault = Fault::new(&database.api);
        let row = LockedRow { database, transaction: *transaction, table, key };
        if row.read(buffer, &mut fault).is_none() {
            return Err(match fault.is_set() {
                true => Outcome::Refused(fault.failure()),
                false => no_such_row(),
            });
        }
        let counter = buffer.first_chunk_mut::<COUNTER_BYTES>().ok_or_else(damaged)?;
        *counter = change(u64::from_le_bytes(*counter)).to_le_bytes();
        // SAFETY: transaction, family, key and value are live; the library copies both.
        unsafe {
            (database.api.transaction_put_cf)(
                *transaction,
                table,
                key.as_ptr().cast(),
                key.len(),
                buffer.as_ptr().cast(),
                buffer.len(),
                fault.place(),
            );
        }
        if fault.is_set() { Err(Outcome::Refused(fault.failure())) } else { Ok(()) }
    }

    /// Gives up what the transaction locked. That it fails too cannot help: beginning again clears it as well.
    #[cold]
    fn roll_back(&self) {
        let mut fault = Fault::new(&self.database.api);
        // SAFETY: the transaction is live, and the fault's place takes the error.
        unsafe { (self.database.api.transaction_rollback)(self.transaction, fault.place()) };
    }
}

/// A row that a transaction is about to change.
struct LockedRow<'a> {
    database: &'a Database,
    transaction: *mut Transaction,
    table: *mut ColumnFamily,
    key: &'a [u8; 8],
}

impl LockedRow<'_> {
    /// Brings its value into the buffer, locked or noted for the comparison at commit.
    #[inline]
    fn read(&self, buffer: &mut Vec<u8>, fault: &mut Fault<'_>) -> Option<()> {
        let (api, read) = (&self.database.api, self.database.objects.read.get());
        let (key, length) = (self.key.as_ptr().cast(), self.key.len());
        let keep = |value: &[u8]| {
            buffer.clear();
            buffer.extend_from_slice(value);
        };
        // SAFETY: transaction, family and key are live, the fault's place takes the error, and each value is ended by
        // the function that belongs to its kind.
        unsafe {
            if let Some(get) = api.transaction_get_pinned_for_update_cf {
                let value =
                    get(self.transaction, read, self.table, key, length, EXCLUSIVE, fault.place());
                return pinned(api, value, keep);
            }
            let mut size = 0;
            let value = (api.transaction_get_for_update_cf)(
                self.transaction,
                read,
                self.table,
                key,
                length,
                &mut size,
                EXCLUSIVE,
                fault.place(),
            );
            copied(api, value, size, keep)
        }
    }
}
