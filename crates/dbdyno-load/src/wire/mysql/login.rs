//! Opening a connection: the server's greeting, encryption if it is wanted, and proving the password.
//!
//! Methods are `mysql_native_password` and `caching_sha2_password`. A password is sent readable only where nobody can
//! listen (encrypted, or a socket of this host), and otherwise under the server's public key.

use super::Fault;
use super::packet::{self, Fields, HEADER, ServerError};
use crate::server::{Address, Server, Tls};
use crate::wire::stream::Stream;
use mysql_common::constants::CapabilityFlags as Ability;
use mysql_common::scramble::{scramble_native, scramble_sha256};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use std::io::{Read, Write};

const NATIVE: &[u8] = b"mysql_native_password";
const CACHING_SHA2: &[u8] = b"caching_sha2_password";
/// The number of the character set `binary`, which every version has: text is passed on as it is.
const BINARY: u8 = 63;
/// The longest packet that we announce to take.
const PACKET_MAX: u32 = 1 << 24;
/// Length of the random bytes with which a password is scrambled.
const NONCE: usize = 20;
/// A key of 2,048 bits, which servers make, takes so many bytes.
const PASSWORD_MAX: usize = 214;

/// A connected socket, and whole packets over it. Blocking.
pub struct Channel {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Channel {
    /// The next packet: its number and what it says.
    ///
    /// # Errors
    /// If none comes.
    pub fn read(&mut self) -> Result<(u8, Vec<u8>), Fault> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let (length, sequence) =
            packet::read_header(header).map_err(|broken| Fault::new(broken.message))?;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok((sequence, payload))
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn write(&mut self, sequence: u8, payload: &[u8]) -> Result<(), Fault> {
        self.buffer.clear();
        packet::write_packet(&mut self.buffer, sequence, |out| out.extend_from_slice(payload));
        self.stream.write_all(&self.buffer)?;
        Ok(self.stream.flush()?)
    }

    /// Sends bytes that are packets already.
    ///
    /// # Errors
    /// If they cannot be sent.
    pub fn write_packets(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// The socket. Nothing that was read is kept back, so it can be given to another reader between packets.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The socket alone.
    pub fn into_stream(self) -> Stream {
        self.stream
    }
}

/// What the server says of itself first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Greeting {
    abilities: Ability,
    nonce: Vec<u8>,
    method: Vec<u8>,
}

impl Greeting {
    fn parse(payload: &[u8]) -> Result<Greeting, Fault> {
        if let Some(error) = ServerError::from(payload) {
            return Err(error.into());
        }
        let strange = || Fault::new("the server's greeting is not that of protocol version 10");
        Greeting::fields(payload).ok_or_else(strange)
    }

    fn fields(payload: &[u8]) -> Option<Greeting> {
        let mut fields = Fields(payload);
        if fields.u8()? != 10 {
            return None;
        }
        let _version = fields.up_to_zero();
        let _connection = fields.u32()?;
        let mut nonce = fields.take(8)?.to_vec();
        fields.take(1)?;
        let low = fields.u16()?;
        let _character_set_and_status = fields.take(3)?;
        let high = fields.u16()?;
        let abilities = Ability::from_bits_truncate(u32::from(high) << 16 | u32::from(low));
        let nonce_length = usize::from(fields.u8()?);
        fields.take(10)?;
        nonce.extend_from_slice(fields.take(nonce_length.saturating_sub(8).max(13))?);
        nonce.truncate(NONCE);
        let has_methods = abilities.contains(Ability::CLIENT_PLUGIN_AUTH);
        let method = if has_methods { fields.up_to_zero() } else { NATIVE };
        Some(Greeting { abilities, nonce, method: method.to_vec() })
    }
}

/// Connects and logs in, with the server's database as the current one or none.
///
/// # Errors
/// If the server is not there, refuses, or asks for what we do not speak. No message holds the password.
pub fn log_in(server: &Server, with_database: bool) -> Result<Channel, Fault> {
    try_log_in(server, with_database)
        .map_err(|fault| fault.at(format_args!("log in at {} as {}", server.address, server.user)))
}

fn try_log_in(server: &Server, with_database: bool) -> Result<Channel, Fault> {
    let stream = Stream::connect(&server.address).map_err(|error| {
        Fault::new(format!("connect: {error}; does the server run, and listen there?"))
    })?;
    let mut channel = Channel { stream, buffer: Vec::new() };
    let (mut sequence, greeting) = channel.read()?;
    let greeting = Greeting::parse(&greeting)?;
    if !greeting.abilities.contains(Ability::CLIENT_PROTOCOL_41) {
        return Err(Fault::new("the server is older than MySQL 4.1"));
    }
    let abilities = abilities(server, &greeting, with_database);
    if server.tls != Tls::Off {
        if !greeting.abilities.contains(Ability::CLIENT_SSL) {
            return Err(Fault::new(
                "the server refuses TLS: give it a certificate, or switch tls off for it",
            ));
        }
        sequence = sequence.wrapping_add(1);
        let mut request = Vec::new();
        write_abilities(&mut request, abilities);
        channel.write(sequence, &request)?;
        let host = host(&server.address);
        channel.stream.encrypt(&server.tls, host).map_err(|error| {
            Fault::new(format!(
                "encrypt: {error}; the server must speak TLS 1.2 and show a certificate for {host} \
                 that this host trusts or that tls names"
            ))
        })?;
    }
    let password = server.password.as_ref().map_or("", |password| password.0.as_str());
    // A method that we do not know may be the server's only by default: it is told ours and can change it.
    let method = if greeting.method == CACHING_SHA2 { CACHING_SHA2 } else { NATIVE };
    let proof = prove(method, &greeting.nonce, password)?;
    let response = response(server, abilities, method, &proof);
    channel.write(sequence.wrapping_add(1), &response)?;
    let is_private = channel.stream.is_encrypted() || matches!(server.address, Address::Unix(_));
    let login = Login { password, is_private, method: method.to_vec(), nonce: greeting.nonce };
    login.finish(&mut channel)?;
    Ok(channel)
}

/// The name against which a certificate is checked.
fn host(address: &Address) -> &str {
    match address {
        Address::Unix(_) => "localhost",
        Address::Tcp { host, .. } => host,
    }
}

fn abilities(server: &Server, greeting: &Greeting, with_database: bool) -> Ability {
    // FOUND_ROWS: an update answers with the rows that it matched, so that setting a value that is there already
    // is not taken for a missing row.
    let mut abilities = Ability::CLIENT_LONG_PASSWORD
        | Ability::CLIENT_FOUND_ROWS
        | Ability::CLIENT_LONG_FLAG
        | Ability::CLIENT_PROTOCOL_41
        | Ability::CLIENT_TRANSACTIONS
        | Ability::CLIENT_SECURE_CONNECTION;
    abilities |= greeting.abilities & Ability::CLIENT_PLUGIN_AUTH;
    if with_database {
        abilities |= Ability::CLIENT_CONNECT_WITH_DB;
    }
    if server.tls != Tls::Off {
        abilities |= Ability::CLIENT_SSL;
    }
    abilities
}

/// The beginning of a response, which alone is the request to encrypt.
fn write_abilities(out: &mut Vec<u8>, abilities: Ability) {
    out.extend_from_slice(&abilities.bits().to_le_bytes());
    out.extend_from_slice(&PACKET_MAX.to_le_bytes());
    out.push(BINARY);
    out.extend_from_slice(&[0; 23]);
}

fn response(server: &Server, abilities: Ability, method: &[u8], proof: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_abilities(&mut out, abilities);
    out.extend_from_slice(server.user.as_bytes());
    out.push(0);
    out.push(proof.len() as u8);
    out.extend_from_slice(proof);
    if abilities.contains(Ability::CLIENT_CONNECT_WITH_DB) {
        out.extend_from_slice(server.database.as_bytes());
        out.push(0);
    }
    if abilities.contains(Ability::CLIENT_PLUGIN_AUTH) {
        out.extend_from_slice(method);
        out.push(0);
    }
    out
}

/// The password scrambled with the server's random bytes; nothing for an empty password.
fn prove(method: &[u8], nonce: &[u8], password: &str) -> Result<Vec<u8>, Fault> {
    let password = password.as_bytes();
    match method {
        NATIVE => Ok(scramble_native(nonce, password).map_or_else(Vec::new, Vec::from)),
        CACHING_SHA2 => Ok(scramble_sha256(nonce, password).map_or_else(Vec::new, Vec::from)),
        other => Err(Fault::new(format!(
            "the server asks for the login method \"{}\", which dbdyno does not speak: give the user \
             mysql_native_password or caching_sha2_password",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// What is needed to answer the server's questions after our response.
struct Login<'a> {
    password: &'a str,
    /// Whether nobody can listen.
    is_private: bool,
    method: Vec<u8>,
    nonce: Vec<u8>,
}

impl Login<'_> {
    /// Answers until the server is content.
    fn finish(mut self, channel: &mut Channel) -> Result<(), Fault> {
        loop {
            let (sequence, payload) = channel.read()?;
            if let Some(error) = ServerError::from(&payload) {
                return Err(error.into());
            }
            let answer = match payload[0] {
                packet::OK => return Ok(()),
                packet::END => Some(self.change_method(&payload[1..])?),
                packet::MORE if self.method == CACHING_SHA2 => {
                    self.prove_fully(&payload[1..], channel.stream.is_encrypted())?
                }
                _ => return Err(Fault::new("the server asks something unknown of the login")),
            };
            if let Some(answer) = answer {
                let mut packet = Vec::new();
                packet::write_packet(&mut packet, sequence.wrapping_add(1), |out| {
                    out.extend_from_slice(&answer);
                });
                channel.write_packets(&packet)?;
            }
        }
    }

    fn change_method(&mut self, question: &[u8]) -> Result<Vec<u8>, Fault> {
        if question.is_empty() {
            return prove(b"mysql_old_password", &[], self.password);
        }
        let mut fields = Fields(question);
        self.method = fields.up_to_zero().to_vec();
        self.nonce = fields.0.iter().copied().take(NONCE).collect();
        prove(&self.method, &self.nonce, self.password)
    }

    /// The server has this password in its memory (3), or wants all of it (4), or brings its public key.
    fn prove_fully(&self, question: &[u8], is_encrypted: bool) -> Result<Option<Vec<u8>>, Fault> {
        debug_assert!(self.is_private || !is_encrypted);
        let mut password = self.password.as_bytes().to_vec();
        password.push(0);
        match question {
            [3] => Ok(None),
            [4] if self.is_private => Ok(Some(password)),
            [4] => Ok(Some(vec![2])),
            // Under a key that nobody vouches for, as every client does without TLS; never where we are private.
            key if !self.is_private => seal(password, &self.nonce, key).map(Some),
            _ => Err(Fault::new("the server sends a key that was not asked for")),
        }
    }
}

/// The password, mixed with the server's random bytes and encrypted for the server's key.
fn seal(mut password: Vec<u8>, nonce: &[u8], key: &[u8]) -> Result<Vec<u8>, Fault> {
    let strange = || Fault::new("the server's public key cannot be read");
    if password.len() > PASSWORD_MAX || nonce.is_empty() {
        return Err(Fault::new("the password is too long to be sent without TLS"));
    }
    for (byte, noise) in password.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= noise;
    }
    SubjectPublicKeyInfoDer::from_pem_slice(key).map_err(|_| strange())?;
    // The library panics where a key is well wrapped but not one, or too short.
    let sealed = std::panic::catch_unwind(|| mysql_common::crypto::encrypt(&password, key));
    sealed.map_err(|_| strange())
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
