//! The conversation of a measured client: requests become commands, answers become outcomes.
//!
//! Commands are made once for all connections and only numbers are written into them; nothing is allocated once the
//! buffers have their size.

use super::message::{Message, broken};
use super::reply::Reply;
use super::template::{Place, Template};
use super::{Fault, class_of, closes_connection, leaves_unknown};
use crate::outcome::{Failure, FailureClass, Outcome};
use crate::wire::{Broken, Session};
use bson::{Document, doc};
use dbdyno_workload::{Action, Request};
use std::collections::VecDeque;
use std::sync::Arc;

/// The commands of one table.
#[derive(Debug)]
struct TableCommands {
    read: (Template, Place),
    increment: (Template, Place),
    assign: (Template, Place, Place),
}

/// The commands of all tables.
#[derive(Debug)]
pub struct Commands(Vec<TableCommands>);

impl Commands {
    /// Of so many tables of a database, with what a write waits for, if that is not left to the server.
    ///
    /// # Errors
    /// If the name of the database cannot be sent.
    pub fn new(
        tables: u16,
        database: &str,
        write_concern: Option<&Document>,
    ) -> Result<Commands, Fault> {
        let table = |number: u16| TableCommands::new(number, database, write_concern);
        (1..=tables).map(table).collect::<Result<_, _>>().map(Commands)
    }
}

impl TableCommands {
    fn new(number: u16, database: &str, write_concern: Option<&Document>) -> Result<Self, Fault> {
        let name = format!("t{number}");
        let read = Template::new(&doc! {
            "find": &name, "filter": { "_id": 0i64 }, "projection": { "_id": 0, "k": 1, "filler": 1 },
            "limit": 1, "singleBatch": true, "$db": database,
        })?;
        let update = |change: Document| {
            let mut command =
                doc! { "update": &name, "updates": [{ "q": { "_id": 0i64 }, "u": change }] };
            if let Some(write_concern) = write_concern {
                command.insert("writeConcern", write_concern);
            }
            command.insert("$db", database);
            Template::new(&command)
        };
        let increment = update(doc! { "$inc": { "k": 1i64 } })?;
        let assign = update(doc! { "$set": { "k": 0i64 } })?;
        let row = ["updates", "0", "q", "_id"];
        let (increment_row, assign_row) = (increment.place(&row)?, assign.place(&row)?);
        let value = assign.place(&["updates", "0", "u", "$set", "k"])?;
        let read_row = read.place(&["filter", "_id"])?;
        Ok(TableCommands {
            read: (read, read_row),
            increment: (increment, increment_row),
            assign: (assign, assign_row, value),
        })
    }
}

/// One connection's conversation.
#[derive(Debug)]
pub struct MongodbSession {
    commands: Arc<Commands>,
    /// Requests under way, the oldest first.
    under_way: VecDeque<Action>,
    /// Number of the last request.
    made: i32,
    /// Number of the last request that was answered.
    answered: i32,
}

impl MongodbSession {
    /// A session with nothing under way, for up to `pipeline` requests. The server answers them one after the other.
    pub fn new(commands: Arc<Commands>, pipeline: u32) -> Self {
        let under_way = VecDeque::with_capacity(pipeline.max(1) as usize);
        MongodbSession { commands, under_way, made: 0, answered: 0 }
    }
}

impl Session for MongodbSession {
    #[inline]
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) {
        self.made = self.made.wrapping_add(1);
        let commands = &self.commands.0[usize::from(request.table)];
        let row = request.row;
        match request.action {
            Action::Read => {
                let (template, row_at) = &commands.read;
                template.append(self.made, [(*row_at, row)], out);
            }
            Action::Increment => {
                let (template, row_at) = &commands.increment;
                template.append(self.made, [(*row_at, row)], out);
            }
            Action::Assign(value) => {
                let (template, row_at, value_at) = &commands.assign;
                template.append(self.made, [(*row_at, row), (*value_at, value)], out);
            }
            _ => unreachable!("this connection is to tables of counters"),
        }
        self.under_way.push_back(request.action);
    }

    #[inline]
    fn decode(
        &mut self,
        bytes: &[u8],
        _: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<usize, Broken> {
        let mut done = 0;
        while let Some(message) = Message::first_of(&bytes[done..])? {
            done += message.length;
            let next = self.answered.wrapping_add(1);
            let (Some(action), true) = (self.under_way.front(), message.answers == next) else {
                return Err(broken("the server sent what nobody asked for"));
            };
            let reply = Reply::read(message.document).map_err(|error| broken(error.to_string()))?;
            let outcome = outcome_of(*action, &reply)?;
            self.answered = next;
            self.under_way.pop_front();
            ended(outcome);
        }
        Ok(done)
    }
}

fn failure(code: i32) -> Failure {
    Failure { class: class_of(code), code }
}

/// How a request ended, as its answer says.
#[inline]
fn outcome_of(action: Action, reply: &Reply) -> Result<Outcome, Broken> {
    if !reply.is_ok || reply.write_error.is_some() {
        let code = if reply.is_ok { reply.write_error.unwrap_or(0) } else { reply.code };
        return outcome_of_error(action, code);
    }
    if let Some(code) = reply.concern_error {
        // It is written, but not as safely as was asked for.
        return Ok(Outcome::Unknown(failure(code)));
    }
    let rows = match action {
        Action::Read => reply.has_row.map(i64::from),
        _ => reply.matched,
    };
    match rows {
        // A row whose counter was one more and is not changed is no increment.
        Some(1) if action == Action::Increment && reply.modified == Some(0) => {
            Ok(Outcome::Unknown(failure(0)))
        }
        Some(1) => Ok(Outcome::Acknowledged),
        Some(0) => Ok(Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code: 0 })),
        Some(_) => Err(broken("the server found several rows with one primary key")),
        None => Err(broken("the server's answer does not say what was done")),
    }
}

#[cold]
fn outcome_of_error(action: Action, code: i32) -> Result<Outcome, Broken> {
    if closes_connection(code) {
        return Err(Broken { message: format!("the server shuts down (code {code})"), code });
    }
    // Whatever happens to it, a read has changed nothing.
    Ok(match action != Action::Read && leaves_unknown(code) {
        true => Outcome::Unknown(failure(code)),
        false => Outcome::Refused(failure(code)),
    })
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
