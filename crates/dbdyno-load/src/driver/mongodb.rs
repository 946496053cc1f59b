//! Servers that speak MongoDB's protocol: MongoDB itself and FerretDB, which the receipt tells apart.
//!
//! A table is a collection of documents `{_id: row, k: counter, filler: bytes}`; counters are unsigned here and signed
//! there, bit for bit. What is spoken is in [`crate::wire::mongodb`]; how statements are written, in [`question`].
//!
//! Settings: `write_concern` (a number from 1, or `majority`) and `journal` (`true` or `false`) say what a write waits
//! for; what is not set is left to the server. Whoever sets `journal` promises something by it, so a server that cannot
//! keep it is refused before anything is written: see [`facts`].

mod facts;
mod question;
mod settings;

use super::{Driver, DriverError, FillRow, OpenOptions, Receipt, Row};
use crate::server::{ClientOptions, MARKER, Server, not_ours};
use crate::wire::connection::{Connection, Open};
use crate::wire::mongodb::Fault;
use crate::wire::mongodb::control::{Control, whole_number};
use crate::wire::mongodb::message::Sequence;
use crate::wire::mongodb::session::{Commands, MongodbSession};
use crate::wire::mongodb::template::encoded;
use crate::wire::stream::Stream;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use dbdyno_workload::RowId;
use facts::Facts;
use question::{Question, flattened, shown};
use settings::{check_client, promises, write_concern_of};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Updates of one command while ageing. FerretDB 1 holds a connection of its pool of 50 for each of them until the command
/// ends: with more of them it waits for itself for ever.
const UPDATES_PER_COMMAND: usize = 32;
/// Documents in one command: the most that MongoDB takes.
const BATCH_DOCUMENTS: usize = 100_000;
/// Bytes of documents in one command; MongoDB takes 48 MB in all, and a third of it keeps memory small on both sides.
const BATCH_BYTES: usize = 16_000_000;
/// The collection that notes how far ageing came, and the document in it.
const PROGRESS: &str = "dbdyno_progress";
const AGED: &str = "aged";
/// The server's code for a collection that is there already.
const NAMESPACE_EXISTS: i32 = 48;
/// The server's code for what this login may not do.
const UNAUTHORIZED: i32 = 13;

/// A server's database.
pub struct Mongodb {
    server: Server,
    client: ClientOptions,
    /// What writes wait for, if the settings say.
    write_concern: Option<Document>,
    control: Mutex<Control>,
    commands: Mutex<Option<(u16, Arc<Commands>)>>,
}

/// The server that the options name.
fn server_of(options: &OpenOptions) -> Result<Server, DriverError> {
    let missing =
        || DriverError::new("mongodb: no server is given: say in the engine file where it listens");
    options.server.clone().ok_or_else(missing)
}

/// Logs in to the database, patiently: loading and adding up are slow. A server that cannot keep what the settings
/// promise is refused.
fn open_control(server: &Server, options: &OpenOptions) -> Result<Control, DriverError> {
    let mut control = Control::open(server)?;
    control.wait_without_limit()?;
    if promises(options) {
        Facts::ask(|command| control.command(command))?.can_keep_promises()?;
    }
    Ok(control)
}

/// Whether the database that a connection is in was made by dbdyno; `None` for one without collections, which is how a
/// database that is not there looks.
fn is_ours(control: &mut Control) -> Result<Option<bool>, Fault> {
    let mut ours = None;
    let list = doc! { "listCollections": 1, "filter": {}, "nameOnly": true };
    control.for_each(&list, |collection| {
        let name = collection.get_str("name").unwrap_or_default();
        if !name.starts_with("system.") {
            ours = Some(ours == Some(true) || name == MARKER);
        }
        Ok(())
    })?;
    Ok(ours)
}

/// The name of a table's collection.
fn collection(table: u16) -> String {
    format!("t{}", u32::from(table) + 1)
}

/// A number that BSON keeps signed, as it is here: unsigned, bit for bit.
fn unsigned(document: &Document, name: &str) -> Result<u64, Fault> {
    let number = document.get(name).and_then(whole_number);
    let strange = || Fault::new(format!("the server's answer has no number {name}"));
    number.map(|number| number as u64).ok_or_else(strange)
}

impl Mongodb {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write with what it waits for.
    fn waiting(&self, mut write: Document) -> Document {
        if let Some(concern) = &self.write_concern {
            write.insert("writeConcern", concern);
        }
        write
    }

    /// Runs a question and returns the value that it asks for.
    fn ask(&self, text: &str) -> Result<Option<Bson>, DriverError> {
        let question = Question::parse(text)?;
        let answer = self.control().command(&question.command)?;
        Ok(question.value(answer))
    }

    /// Sets one field of a document in a collection of our own, and makes both where they do not exist.
    fn note(&self, collection: &str, id: &str, fields: Document) -> Result<(), DriverError> {
        let update = doc! { "q": { "_id": id }, "u": { "$set": fields }, "upsert": true };
        let command = self.waiting(doc! { "update": collection, "updates": [update] });
        self.control().command(&command)?;
        Ok(())
    }

    /// One document of a collection.
    fn find(&self, collection: &str, id: impl Into<Bson>) -> Result<Option<Document>, DriverError> {
        let find = doc! {
            "find": collection, "filter": { "_id": id.into() }, "limit": 1, "singleBatch": true,
        };
        Ok(self.control().first(&find)?)
    }

    /// Sends documents beside a command, in batches that the server takes. Returns the sum of `n`, which is how many
    /// documents were inserted or matched.
    fn send_all(
        &self,
        command: &Document,
        name: &str,
        documents: impl Iterator<Item = Document>,
    ) -> Result<u64, DriverError> {
        let command = self.waiting(command.clone());
        let (mut batch, mut in_batch, mut done) = (Vec::new(), 0, 0);
        let send = |batch: &[u8]| {
            let sequence = Sequence { name, documents: batch };
            unsigned(&self.control().command_with(&command, Some(sequence))?, "n")
        };
        for document in documents {
            let document = encoded(&document)?;
            let is_full = in_batch == BATCH_DOCUMENTS || batch.len() + document.len() > BATCH_BYTES;
            if in_batch > 0 && is_full {
                done += send(&batch)?;
                batch.clear();
                in_batch = 0;
            }
            batch.extend_from_slice(&document);
            in_batch += 1;
        }
        if in_batch > 0 {
            done += send(&batch)?;
        }
        Ok(done)
    }

    /// The sum as the server works it out; nothing if it lacks the command, or gives a fraction because the sum does
    /// not fit into a whole number.
    fn sum_by_server(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let group = doc! { "$group": { "_id": null, "sum": { "$sum": "$k" } } };
        let sum = doc! { "aggregate": collection(table), "pipeline": [group], "cursor": {} };
        match self.control().first(&sum) {
            Ok(None) => Ok(Some(0)),
            Ok(Some(answer)) => match answer.get("sum") {
                Some(Bson::Int32(_) | Bson::Int64(_)) => Ok(Some(unsigned(&answer, "sum")?)),
                _ => Ok(None),
            },
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The sum of all counters, fetched one by one.
    fn sum_by_walk(&self, table: u16) -> Result<u64, DriverError> {
        let mut sum = 0u64;
        let find =
            doc! { "find": collection(table), "filter": {}, "projection": { "_id": 0, "k": 1 } };
        self.control().for_each(&find, |document| {
            sum = sum.wrapping_add(unsigned(&document, "k")?);
            Ok(())
        })?;
        Ok(sum)
    }
}

impl Driver for Mongodb {
    type Client = Connection<MongodbSession>;

    fn create_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        let mut control = open_control(&server, options)?;
        match is_ours(&mut control)? {
            Some(true) => Ok(()),
            Some(false) => Err(not_ours(&server)),
            None => {
                let document = doc! { "_id": MARKER, "dataset": "" };
                control.command(&doc! { "insert": MARKER, "documents": [document] })?;
                Ok(())
            }
        }
    }

    fn drop_database(options: &OpenOptions) -> Result<(), DriverError> {
        let server = server_of(options)?;
        let mut control = open_control(&server, options)?;
        if is_ours(&mut control)? == Some(false) {
            return Err(not_ours(&server));
        }
        Ok(control.command(&doc! { "dropDatabase": 1 }).map(|_| ())?)
    }

    fn noted_dataset(&self) -> Result<Option<String>, DriverError> {
        let marker = self.find(MARKER, MARKER)?;
        let dataset = marker.as_ref().and_then(|marker| marker.get_str("dataset").ok());
        Ok(dataset.filter(|dataset| !dataset.is_empty()).map(str::to_owned))
    }

    fn note_dataset(&self, fingerprint: &str) -> Result<(), DriverError> {
        self.note(MARKER, MARKER, doc! { "dataset": fingerprint })
    }

    /// A command as extended JSON and, behind a bar, where in the answer the number is: see [`question`].
    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError> {
        let number = |value: Bson| match value {
            Bson::String(text) => text.parse().ok(),
            value => whole_number(&value).map(|number| number as u64),
        };
        Ok(self.ask(text)?.and_then(number))
    }

    fn open(options: &OpenOptions) -> Result<Self, DriverError> {
        let server = server_of(options)?;
        let write_concern = write_concern_of(options)?;
        check_client(options.client)?;
        let control = Mutex::new(open_control(&server, options)?);
        let (client, commands) = (options.client, Mutex::new(None));
        Ok(Mongodb { server, client, write_concern, control, commands })
    }

    /// Also notes `replica_set`, or that there is none, and of MongoDB its `storage_engine` and what it was `started_with`;
    /// or else `ferretdb_version` of a server that only speaks like it: the version that such a server calls MongoDB's is
    /// the one that it imitates.
    fn receipt(&self) -> Result<Receipt, DriverError> {
        let ask = |name: &str, text: &str| {
            self.ask(text)?.ok_or_else(|| {
                DriverError::new(format!("mongodb: {name} \"{text}\" found no value in the answer"))
            })
        };
        let version = shown(&ask("version_query", &self.server.version_query)?);
        let mut settings = match ask("settings_query", &self.server.settings_query)? {
            Bson::Document(settings) => flattened(&settings),
            value => {
                return Err(DriverError::new(format!(
                    "mongodb: settings_query must find a document, not {value}"
                )));
            }
        };
        let mut control = self.control();
        let facts = Facts::ask(|command| control.command(command))?;
        settings.extend(facts.as_settings());
        let replica_set = control.replica_set().unwrap_or("none");
        settings.insert("replica_set".to_owned(), replica_set.to_owned());
        Ok(Receipt { version, settings })
    }

    fn create_tables(&self, tables: u16) -> Result<(), DriverError> {
        for table in 0..tables {
            match self.control().command(&doc! { "create": collection(table) }) {
                Err(fault) if fault.code == NAMESPACE_EXISTS => {}
                made => drop(made?),
            }
        }
        Ok(())
    }

    fn last_row(&self, table: u16) -> Result<Option<u64>, DriverError> {
        let find = doc! {
            "find": collection(table), "filter": {}, "sort": { "_id": -1 }, "projection": { "_id": 1 },
            "limit": 1, "singleBatch": true,
        };
        let last = self.control().first(&find)?;
        Ok(last.map(|last| unsigned(&last, "_id")).transpose()?)
    }

    /// Not in one transaction, which not all of these servers have. Documents are inserted in order, so that what an
    /// interruption leaves is the beginning, and the next attempt goes on behind it.
    fn insert_rows(
        &self,
        table: u16,
        rows: RangeInclusive<u64>,
        fill: FillRow<'_>,
    ) -> Result<(), DriverError> {
        let wanted = (rows.end() + 1).saturating_sub(*rows.start());
        let mut filler = Vec::new();
        let documents = rows.map(|row| {
            fill(RowId { table, row }, &mut filler);
            let filler = Binary { subtype: BinarySubtype::Generic, bytes: filler.clone() };
            doc! { "_id": row as i64, "k": 0i64, "filler": filler }
        });
        let name = collection(table);
        let inserted =
            self.send_all(&doc! { "insert": &name, "ordered": true }, "documents", documents)?;
        if inserted != wanted {
            return Err(DriverError::new(format!(
                "mongodb: the server took {inserted} of {wanted} documents for {name} and gave no error"
            )));
        }
        Ok(())
    }

    /// Not in one transaction, which not all of these servers have: an interruption can leave counters raised that the
    /// progress does not tell of, and they are then raised again. No check is misled by that, since checks compare
    /// counters with what they were before the trial; and an interrupted template is made again from nothing.
    fn age_rows(&self, rows: &[RowId], progress: u64) -> Result<(), DriverError> {
        let mut by_table: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for &RowId { table, row } in rows {
            by_table.entry(table).or_default().push(row);
        }
        let commands = by_table.iter().flat_map(|(&table, rows)| {
            rows.chunks(UPDATES_PER_COMMAND).map(move |rows| (table, rows))
        });
        for (table, rows) in commands {
            let name = collection(table);
            let updates = rows
                .iter()
                .map(|&row| doc! { "q": { "_id": row as i64 }, "u": { "$inc": { "k": 1i64 } } });
            let aged =
                self.send_all(&doc! { "update": &name, "ordered": true }, "updates", updates)?;
            if aged != rows.len() as u64 {
                return Err(DriverError::new(format!(
                    "mongodb: only {aged} of {} rows of {name} are there to be aged",
                    rows.len()
                )));
            }
        }
        self.note(PROGRESS, AGED, doc! { "progress": progress as i64 })
    }

    fn age_progress(&self) -> Result<u64, DriverError> {
        match self.find(PROGRESS, AGED)? {
            Some(note) => Ok(unsigned(&note, "progress")?),
            None => Ok(0),
        }
    }

    fn row(&self, table: u16, row: u64) -> Result<Option<Row>, DriverError> {
        let Some(document) = self.find(&collection(table), row as i64)? else { return Ok(None) };
        let strange = |_| Fault::new(format!("row {row} of {} has no filler", collection(table)));
        let filler = document.get_binary_generic("filler").map_err(strange)?.clone();
        Ok(Some(Row { counter: unsigned(&document, "k")?, filler }))
    }

    fn counter_sum(&self, table: u16) -> Result<u64, DriverError> {
        self.sum_by_server(table)?.map_or_else(|| self.sum_by_walk(table), Ok)
    }

    /// Asks for everything to be written to disk. A server that has no such command, like FerretDB, or that does not
    /// let this login use it, settles by itself or by the steps in its engine file.
    fn settle(&self) -> Result<(), DriverError> {
        match self.control().command(&doc! { "fsync": 1, "$db": "admin" }) {
            Err(fault) if fault.is_missing() || fault.code == UNAUTHORIZED => Ok(()),
            done => Ok(done.map(|_| ())?),
        }
    }

    fn connect(&self, tables: u16) -> Result<Self::Client, DriverError> {
        let mut shared = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = match shared.take() {
            Some((made_for, commands)) if made_for == tables => commands,
            _ => {
                let concern = self.write_concern.as_ref();
                Arc::new(Commands::new(tables, &self.server.database, concern)?)
            }
        };
        *shared = Some((tables, commands.clone()));
        drop(shared);
        let (server, pipeline) = (self.server.clone(), self.client.pipeline);
        Connection::open(Arc::new(Opener { server, pipeline, commands }), &self.client)
    }

    fn threads(&self, clients: u32) -> u32 {
        self.client.threads_for(clients)
    }
}

/// Opens the connections of clients.
struct Opener {
    server: Server,
    pipeline: u32,
    commands: Arc<Commands>,
}

impl Open<MongodbSession> for Opener {
    fn open(&self) -> Result<(Stream, MongodbSession), DriverError> {
        let stream = Control::open(&self.server)?.into_stream();
        Ok((stream, MongodbSession::new(self.commands.clone(), self.pipeline)))
    }
}
