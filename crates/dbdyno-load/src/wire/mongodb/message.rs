//! OP_MSG messages: a header (length, request number, number of the request that is answered, opcode), flags, and
//! sections. Pure, and takes whatever bytes come.

use crate::wire::Broken;

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Bytes before the first section's document: header, flags, and the section's kind.
pub const BEFORE_DOCUMENT: usize = HEADER + 4 + 1;
/// The longest message that a server takes or sends.
pub const MESSAGE_MAX: usize = 48_000_000;

/// The only opcode that is spoken here.
const OP_MSG: i32 = 2013;
/// The flag of a message that ends with a checksum of four bytes.
const HAS_CHECKSUM: u32 = 1;
/// The flags that a receiver must understand; there are others that it may pass over.
const MUST_UNDERSTAND: u32 = 0xffff;
/// The shortest document: its length and a zero.
const DOCUMENT_MIN: usize = 5;

/// Documents that belong to a command and are sent beside it, which saves building an array of them.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// The command's field that they stand for: `documents` or `updates`.
    pub name: &'a str,
    /// The documents, one behind the other.
    pub documents: &'a [u8],
}

/// Appends a message with one command.
pub fn write_message(
    out: &mut Vec<u8>,
    request: i32,
    command: &[u8],
    sequence: Option<Sequence<'_>>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for number in [request, 0, OP_MSG, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(0);
    out.extend_from_slice(command);
    if let Some(Sequence { name, documents }) = sequence {
        out.push(1);
        let length = 4 + name.len() + 1 + documents.len();
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(documents);
    }
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// An answer at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The number of the request that it answers.
    pub answers: i32,
    /// What it says: a document.
    pub document: &'a [u8],
    /// Bytes of the whole message.
    pub length: usize,
}

/// The length of the message that begins with this header.
///
/// # Errors
/// If no answer to us has this length or opcode.
#[inline]
pub fn read_header(header: &[u8; HEADER]) -> Result<usize, Broken> {
    let number = |at: usize| {
        i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let opcode = number(12);
    if opcode != OP_MSG {
        return Err(broken(format!(
            "the server answers with opcode {opcode}: it is no MongoDB 3.6 or later, nor speaks like one"
        )));
    }
    let length = usize::try_from(number(0)).unwrap_or(0);
    if !(BEFORE_DOCUMENT + DOCUMENT_MIN..=MESSAGE_MAX).contains(&length) {
        return Err(broken("the server sent a message with an impossible length"));
    }
    Ok(length)
}

impl<'a> Message<'a> {
    /// The answer at the beginning of `bytes`, if all of it is there.
    ///
    /// # Errors
    /// If it is no answer of one document.
    #[inline]
    pub fn first_of(bytes: &'a [u8]) -> Result<Option<Self>, Broken> {
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let length = read_header(header)?;
        let Some(message) = bytes.get(..length) else { return Ok(None) };
        let answers = i32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let flags = u32::from_le_bytes([message[16], message[17], message[18], message[19]]);
        if flags & MUST_UNDERSTAND & !HAS_CHECKSUM != 0 {
            return Err(broken("the server sent a message with flags that nobody asked for"));
        }
        let checksum = if flags & HAS_CHECKSUM != 0 { 4 } else { 0 };
        let document = message.get(BEFORE_DOCUMENT..length - checksum).unwrap_or_default();
        if message[BEFORE_DOCUMENT - 1] != 0 {
            return Err(broken("the server sent a message that does not begin with a document"));
        }
        Ok(Some(Message { answers, document, length }))
    }
}

/// Why a connection cannot go on, where the server did not say.
pub(super) fn broken(message: impl Into<String>) -> Broken {
    Broken { message: message.into(), code: 0 }
}
