//! The part of an order that is about a server: where it listens, who asks, and what to ask it for.
//!
//! It travels over the job's standard input only, because it may hold a password; no record has it.

use dbdyno_load::server::{
    Address, ClientOptions, EventQueue, Password, Server, Statements, Tls, Transaction,
};
use dbdyno_plan::{ClientLoad, SettleStep};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The database that everything happens in, on servers of ours and on named ones.
pub const DATABASE: &str = "dbdyno";

/// A server to connect to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerOrder {
    /// Its socket, if it has one.
    pub socket: Option<PathBuf>,
    /// Its host and port, if it listens on one.
    pub host_and_port: Option<(String, u16)>,
    /// Login name.
    pub user: String,
    /// Password, if it asks for one.
    pub password: Option<String>,
    /// Whether the connection is encrypted and the certificate checked.
    pub encrypted: bool,
    /// Trusted certificates instead of the host's own.
    pub trusted: Option<PathBuf>,
    /// A statement whose only value is the version.
    pub version_query: String,
    /// A statement that lists the effective settings.
    pub settings_query: String,
    /// A statement whose last value is the number of log syncs, if the server counts them.
    pub log_syncs_query: Option<String>,
    /// What is done before each trial, so that it begins without the last one's debts.
    pub settle: Vec<SettleStep>,
    /// Whether the user named it, so that it is not ours to start, stop or set.
    pub is_named: bool,
    /// The first process of the server and that of the one behind it; a server elsewhere, or one of another user, has
    /// none that can be watched.
    pub processes: Vec<u32>,
    /// The server behind it, which has the data and so is asked for what concerns them.
    pub backend: Option<Box<BackendOrder>>,
}

/// A server behind another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackendOrder {
    /// Name of its engine.
    pub engine: String,
    /// Driver that speaks to it.
    pub driver: String,
    /// Where it listens and what to ask it.
    pub server: ServerOrder,
}

impl ServerOrder {
    /// As the driver wants it, for a way to reach it: `own`, `unix` or `tcp`.
    ///
    /// # Errors
    /// If the server cannot be reached that way.
    pub fn server(&self, transport: &str) -> Result<Server, String> {
        let unix = self.socket.clone().map(Address::Unix);
        let tcp = self.host_and_port.clone();
        let tcp = tcp.map(|(host, port)| Address::Tcp { host, port });
        let address = match transport {
            "unix" => unix,
            "tcp" => tcp,
            _ => unix.or(tcp),
        };
        let missing = || format!("the server cannot be reached by transport {transport}");
        Ok(Server {
            address: address.ok_or_else(missing)?,
            user: self.user.clone(),
            password: self.password.clone().map(Password),
            database: DATABASE.to_owned(),
            tls: match self.encrypted {
                true => Tls::Verified { trusted: self.trusted.clone() },
                false => Tls::Off,
            },
            version_query: self.version_query.clone(),
            settings_query: self.settings_query.clone(),
        })
    }
}

/// How clients speak to it, as the driver wants it.
pub fn client_options(load: &ClientLoad) -> ClientOptions {
    ClientOptions {
        threads: load.threads,
        pipeline: load.pipeline,
        statements: match load.statements.as_str() {
            "text" => Statements::Text,
            _ => Statements::Prepared,
        },
        transaction: match load.transaction.as_str() {
            "begin-commit" => Transaction::BeginCommit,
            _ => Transaction::Autocommit,
        },
        event_queue: EventQueue::Automatic,
    }
}
