//! Commands outside measured time: one is sent, and its whole answer is waited for.

use super::message::{self, HEADER, Message, Sequence};
use super::template::encoded;
use super::{COMMAND_NOT_FOUND, Fault, login};
use crate::server::Server;
use crate::wire::stream::Stream;
use bson::{Bson, Document, doc};
use std::io::{Read, Write};

/// A connection that waits for each answer.
pub struct Control {
    stream: Stream,
    /// The database of commands that do not name one.
    database: String,
    /// Number of the last request.
    request: i32,
    /// The name of the replica set that the server is a member of, as it said when it greeted.
    pub(super) replica_set: Option<String>,
}

impl Control {
    /// Connects and logs in. A command that takes longer than opening may take is a fault, until
    /// [`Control::wait_without_limit`] is called.
    ///
    /// # Errors
    /// If the server cannot be reached, encrypted or convinced.
    pub fn open(server: &Server) -> Result<Control, Fault> {
        login::log_in(server)
    }

    /// A connection on which nothing was said yet.
    pub(super) fn new(stream: Stream, database: &str) -> Control {
        Control { stream, database: database.to_owned(), request: 0, replica_set: None }
    }

    /// From here on commands may take as long as they need.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_without_limit(&self) -> Result<(), Fault> {
        Ok(self.stream.wait_without_limit()?)
    }

    /// The replica set that the server is a member of.
    pub fn replica_set(&self) -> Option<&str> {
        self.replica_set.as_deref()
    }

    /// The socket alone, between two answers.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Runs any command, in the connection's database unless it names one in `$db`. Returns the whole answer.
    ///
    /// # Errors
    /// The server's, with the name of the command, also if only one of several writes failed or a write concern was
    /// not met.
    pub fn command(&mut self, command: &Document) -> Result<Document, Fault> {
        self.command_with(command, None)
    }

    /// The same, with documents beside the command.
    ///
    /// # Errors
    /// As for [`Control::command`].
    pub fn command_with(
        &mut self,
        command: &Document,
        sequence: Option<Sequence<'_>>,
    ) -> Result<Document, Fault> {
        let name = command.keys().next().map_or("an empty command", String::as_str);
        self.exchange(command, sequence)
            .and_then(|answer| match fault_in(&answer) {
                Some(fault) if fault.code == COMMAND_NOT_FOUND => {
                    Err(fault.at("the server does not have this command"))
                }
                Some(fault) => Err(fault),
                None => Ok(answer),
            })
            .map_err(|fault| fault.at(name))
    }

    /// Runs a command that answers with a cursor, and passes on its documents, batch after batch.
    ///
    /// # Errors
    /// The server's, and those of `each`.
    pub fn for_each(
        &mut self,
        command: &Document,
        mut each: impl FnMut(Document) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut answer = self.command(command)?;
        let mut batch = "firstBatch";
        loop {
            let strange = || Fault::new("the server's answer has no cursor that can be read");
            let cursor = answer.get_document_mut("cursor").map_err(|_| strange())?;
            let id = cursor.get_i64("id").map_err(|_| strange())?;
            let namespace = cursor.get_str("ns").map(str::to_owned);
            let Some(Bson::Array(documents)) = cursor.remove(batch) else { return Err(strange()) };
            for document in documents {
                match document {
                    Bson::Document(document) => each(document)?,
                    _ => return Err(strange()),
                }
            }
            if id == 0 {
                return Ok(());
            }
            let namespace = namespace.map_err(|_| strange())?;
            let (database, collection) = namespace.split_once('.').ok_or_else(strange)?;
            let more = doc! { "getMore": id, "collection": collection, "$db": database };
            answer = self.command(&more)?;
            batch = "nextBatch";
        }
    }

    /// The first document that a command's cursor has.
    ///
    /// # Errors
    /// The server's.
    pub fn first(&mut self, command: &Document) -> Result<Option<Document>, Fault> {
        let mut first = None;
        self.for_each(command, |document| {
            first.get_or_insert(document);
            Ok(())
        })?;
        Ok(first)
    }

    /// Sends a command and reads its answer, whatever that says.
    fn exchange(
        &mut self,
        command: &Document,
        sequence: Option<Sequence<'_>>,
    ) -> Result<Document, Fault> {
        let mut command = command.clone();
        if !command.contains_key("$db") {
            command.insert("$db", &self.database);
        }
        self.request = self.request.wrapping_add(1);
        let mut bytes = Vec::new();
        message::write_message(&mut bytes, self.request, &encoded(&command)?, sequence);
        self.stream.write_all(&bytes)?;
        self.stream.flush()?;
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        bytes.clear();
        bytes.extend_from_slice(&header);
        bytes.resize(message::read_header(&header)?, 0);
        self.stream.read_exact(&mut bytes[HEADER..])?;
        let strange = || Fault::new("the server's answer cannot be read");
        let answer = Message::first_of(&bytes)?.ok_or_else(strange)?;
        if answer.answers != self.request {
            return Err(Fault::new("the server answers another request than the last"));
        }
        Document::from_reader(answer.document).map_err(|_| strange())
    }
}

/// What went wrong, if an answer says so.
fn fault_in(answer: &Document) -> Option<Fault> {
    let is_ok = answer.get("ok").and_then(whole_number).is_some_and(|ok| ok != 0);
    let write_error = answer.get_array("writeErrors").ok().and_then(|errors| errors.first());
    let concern_error = answer.get("writeConcernError");
    let error = match write_error.or(concern_error) {
        Some(Bson::Document(error)) => error,
        _ if is_ok => return None,
        _ => answer,
    };
    let code = error.get("code").and_then(whole_number);
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    let message = error.get_str("errmsg").unwrap_or("the server gives no reason");
    Some(Fault { message: format!("{message} (code {code})"), code })
}

/// A value as a whole number, whichever type of number the server took for it; fractions are cut.
pub fn whole_number(value: &Bson) -> Option<i64> {
    match *value {
        Bson::Int32(number) => Some(number.into()),
        Bson::Int64(number) => Some(number),
        Bson::Double(number) => Some(number as i64),
        Bson::Boolean(flag) => Some(flag.into()),
        _ => None,
    }
}
