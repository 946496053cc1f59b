//! Opening a connection: encryption if it is wanted, the server's greeting, and proving the password if there is one.
//!
//! Users are looked for in the database `admin`, where MongoDB keeps those who may do more than one database wants.

use super::Fault;
use super::control::Control;
use super::scram::Scram;
use crate::server::{Address, Server, Tls};
use crate::wire::stream::Stream;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use ring::rand::{SecureRandom, SystemRandom};

/// The database that users are looked for in.
const USERS_DATABASE: &str = "admin";
/// Random bytes of a login; three quarters of the letters that they become.
const NONCE_BYTES: usize = 24;

/// Connects and logs in. Without a password nobody is logged in: the server then lets everybody in, or says later that
/// it wants a login.
///
/// # Errors
/// Name the address, and say in the server's words why it does not let us in. No password is in them.
pub(super) fn log_in(server: &Server) -> Result<Control, Fault> {
    let at = |what: &str, error: Fault| error.at(format!("{what} {}", server.address));
    let mut stream = Stream::connect(&server.address).map_err(|error| {
        Fault::new(format!("{error}; does the server run, and listen there?"))
            .at(format!("connect to {}", server.address))
    })?;
    if server.tls != Tls::Off {
        let host = match &server.address {
            Address::Tcp { host, .. } => host,
            Address::Unix(_) => "localhost",
        };
        let encrypted = stream.encrypt(&server.tls, host);
        encrypted.map_err(|error| at("encrypt the connection to", error.into()))?;
    }
    let mut control = Control::new(stream, &server.database);
    let greeting = greet(&mut control).map_err(|fault| at("greet", fault))?;
    control.replica_set = greeting.get_str("setName").ok().map(str::to_owned);
    if let Some(password) = &server.password {
        authenticate(&mut control, &server.user, &password.0)
            .map_err(|fault| at(&format!("log in as \"{}\" at", server.user), fault))?;
    }
    Ok(control)
}

/// What the server says of itself. Servers before 4.4.2 know only the older name of the command.
fn greet(control: &mut Control) -> Result<Document, Fault> {
    let greet = |command: &str| {
        doc! { command: 1, "client": {
            "application": { "name": "dbdyno" },
            "driver": { "name": "dbdyno", "version": env!("CARGO_PKG_VERSION") },
            "os": { "type": "Linux" },
        }, "$db": USERS_DATABASE }
    };
    match control.command(&greet("hello")) {
        Err(fault) if fault.is_missing() => control.command(&greet("isMaster")),
        greeting => greeting,
    }
}

fn authenticate(control: &mut Control, user: &str, password: &str) -> Result<(), Fault> {
    let mut nonce = [0; NONCE_BYTES];
    let random = SystemRandom::new().fill(&mut nonce);
    random.map_err(|_| Fault::new("the system has no random numbers"))?;
    let mut scram = Scram::new(user, password, &STANDARD.encode(nonce))?;
    let begun = control.command(&doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": binary(&scram.first()),
        "options": { "skipEmptyExchange": true }, "$db": USERS_DATABASE,
    })?;
    let proof = scram.answer(payload(&begun)?)?;
    let proven = go_on(control, &begun, &proof)?;
    scram.finish(payload(&proven)?)?;
    // Servers that do not know `skipEmptyExchange` want one more message that says nothing.
    let ended = match proven.get_bool("done") {
        Ok(true) => return Ok(()),
        _ => go_on(control, &proven, "")?,
    };
    match ended.get_bool("done") {
        Ok(true) => Ok(()),
        _ => Err(Fault::new("the server does not come to an end with the login")),
    }
}

/// Sends the next message of a login.
fn go_on(control: &mut Control, begun: &Document, message: &str) -> Result<Document, Fault> {
    let conversation = begun.get("conversationId").cloned().unwrap_or(Bson::Int32(1));
    control.command(&doc! {
        "saslContinue": 1, "conversationId": conversation, "payload": binary(message),
        "$db": USERS_DATABASE,
    })
}

fn binary(message: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: message.as_bytes().to_vec() }
}

/// The server's part of the login in an answer.
fn payload(answer: &Document) -> Result<&str, Fault> {
    let bytes = answer.get_binary_generic("payload").ok();
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.ok_or_else(|| Fault::new("the server's answer to the login cannot be read"))
}
