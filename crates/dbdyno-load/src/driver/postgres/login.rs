//! From an address to a connection that is logged in: encryption, the start of the protocol, and passwords.

use super::control::Conversation;
use super::message::{append, append_text, append_untyped};
use crate::driver::DriverError;
use crate::server::{Address, Server, Tls};
use crate::wire::stream::Stream;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use std::io::{Read, Write};

/// The number that asks for encryption in place of a protocol version.
const ENCRYPTION_REQUEST: u32 = 80_877_103;
/// Version 3.0 of the protocol.
const PROTOCOL_VERSION: u32 = 3 << 16;

/// Connects and logs in.
///
/// # Errors
/// Name the address, and say in the server's words why it does not let us in. No password is in them.
pub(super) fn log_in(server: &Server) -> Result<Conversation, DriverError> {
    let at = |what: &str, error: &dyn std::fmt::Display| {
        DriverError::new(format!("postgres: {what} {}: {error}", server.address))
    };
    let mut stream = Stream::connect(&server.address).map_err(|error| {
        at("connect to", &format!("{error}; does the server run, and listen there?"))
    })?;
    if server.tls != Tls::Off {
        ask_for_encryption(&mut stream, server)?;
    }
    let mut conversation = Conversation::new(stream);
    let mut message = Vec::new();
    append_untyped(&mut message, |out| {
        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        let parameters = [
            ("user", server.user.as_str()),
            ("database", server.database.as_str()),
            ("application_name", "dbdyno"),
            ("client_encoding", "UTF8"),
        ];
        for (name, value) in parameters {
            append_text(out, name);
            append_text(out, value);
        }
        out.push(0);
    });
    conversation.send(&message)?;
    let what = format!("log in at {} as \"{}\"", server.address, server.user);
    authenticate(&mut conversation, server, &what)?;
    conversation.until_ready(&what, |_, _| ())?;
    conversation.be_patient();
    Ok(conversation)
}

fn ask_for_encryption(stream: &mut Stream, server: &Server) -> Result<(), DriverError> {
    let failed = |error: &dyn std::fmt::Display| {
        DriverError::new(format!("postgres: encrypt the connection to {}: {error}", server.address))
    };
    let mut message = Vec::new();
    append_untyped(&mut message, |out| {
        out.extend_from_slice(&ENCRYPTION_REQUEST.to_be_bytes());
    });
    stream.write_all(&message).map_err(|error| failed(&error))?;
    // One byte and no more: what follows it must already be encrypted.
    let mut answer = [0];
    stream.read_exact(&mut answer).map_err(|error| failed(&error))?;
    if answer != *b"S" {
        return Err(failed(
            &"the server refuses TLS; enable ssl there or write sslmode=disable here",
        ));
    }
    let host = match &server.address {
        Address::Tcp { host, .. } => host,
        Address::Unix(_) => "localhost",
    };
    stream.encrypt(&server.tls, host).map_err(|error| failed(&error))
}

/// Answers the server's questions until it is content.
fn authenticate(
    conversation: &mut Conversation,
    server: &Server,
    what: &str,
) -> Result<(), DriverError> {
    let failed = |why: &str| DriverError::new(format!("postgres: {what}: {why}"));
    let mut scram: Option<ScramSha256> = None;
    loop {
        match conversation.receive()? {
            b'E' => return Err(conversation.error(what)),
            b'R' => {}
            // Notices and the refusal of protocol options come at any time.
            b'N' | b'v' => continue,
            _ => return Err(failed("the server sent a message that does not belong to a login")),
        }
        let Some((kind, data)) = conversation.body.split_first_chunk::<4>() else {
            return Err(failed("the server sent half a message"));
        };
        let (kind, data) = (u32::from_be_bytes(*kind), data.to_vec());
        let password = || {
            let password = server.password.as_ref().map(|password| password.0.as_bytes());
            password.ok_or_else(|| failed("the server asks for a password and none is given"))
        };
        let mut message = Vec::new();
        let bad_scram = |error: std::io::Error| failed(&format!("SCRAM: {error}"));
        match (kind, &mut scram) {
            (0, _) => return Ok(()),
            (3, _) => append_password(&mut message, &[password()?, b"\0"]),
            (5, _) => {
                let salt = data.first_chunk().ok_or_else(|| failed("the salt is too short"))?;
                let hash = md5_hash(server.user.as_bytes(), password()?, *salt);
                append_password(&mut message, &[hash.as_bytes(), b"\0"]);
            }
            (10, _) => {
                let has_scram =
                    data.split(|&byte| byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes());
                if !has_scram {
                    return Err(failed(
                        "the server wants an authentication that is not known here",
                    ));
                }
                let begun = ScramSha256::new(password()?, ChannelBinding::unsupported());
                let length = (begun.message().len() as u32).to_be_bytes();
                let name = SCRAM_SHA_256.as_bytes();
                append_password(&mut message, &[name, b"\0", &length, begun.message()]);
                scram = Some(begun);
            }
            (11, Some(scram)) => {
                scram.update(&data).map_err(bad_scram)?;
                append_password(&mut message, &[scram.message()]);
            }
            (12, Some(scram)) => {
                scram.finish(&data).map_err(bad_scram)?;
                continue;
            }
            _ => {
                return Err(failed(
                    "the server wants an authentication that is not known here; \
                     use trust, password, md5 or scram-sha-256",
                ));
            }
        }
        conversation.send(&message)?;
    }
}

/// Every answer to a question is a message of this kind, whatever it holds.
fn append_password(message: &mut Vec<u8>, parts: &[&[u8]]) {
    append(message, b'p', |out| parts.iter().for_each(|part| out.extend_from_slice(part)));
}
