//! Packets of the MySQL protocol: four bytes of header (length, number in the conversation), then what is meant.
//!
//! Everything here is pure and takes whatever bytes come. Packets of 16 MiB, which the protocol splits, are not needed
//! for rows of 64 KiB and count as a broken connection.

use crate::wire::Broken;
use std::borrow::Cow;

/// Bytes of a packet's header.
pub const HEADER: usize = 4;
/// The length that says that the next packet belongs to this one.
const SPLIT: usize = 0xff_ffff;

/// First byte of a packet that says: done.
pub const OK: u8 = 0x00;
/// First byte of a packet that asks for more of the login, or brings it.
pub const MORE: u8 = 0x01;
/// First byte of a short packet that ends columns or rows, and of one that changes the login's method.
pub const END: u8 = 0xfe;
/// First byte of a packet that brings an error.
pub const ERROR: u8 = 0xff;

/// Command: one statement as text.
pub const QUERY: u8 = 0x03;
/// Command: prepare a statement.
pub const PREPARE: u8 = 0x16;
/// Command: execute a prepared statement.
pub const EXECUTE: u8 = 0x17;

/// A whole packet at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the conversation that one command opens.
    pub sequence: u8,
    /// What it says; never empty.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet at the beginning of `bytes`, if all of it is there.
    ///
    /// # Errors
    /// If its length is none that the server may send here.
    pub fn first_of(bytes: &'a [u8]) -> Result<Option<Self>, Broken> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let (length, sequence) = read_header(*header)?;
        let payload = rest.get(..length);
        Ok(payload.map(|payload| Packet { sequence, payload }))
    }

    /// Bytes with the header.
    pub fn length(&self) -> usize {
        HEADER + self.payload.len()
    }
}

/// Length of what follows, and the packet's number.
///
/// # Errors
/// If the length is none that the server may send here.
pub fn read_header([a, b, c, sequence]: [u8; HEADER]) -> Result<(usize, u8), Broken> {
    match u32::from_le_bytes([a, b, c, 0]) as usize {
        0 => Err(broken("the server sent a packet with nothing in it")),
        SPLIT => Err(broken("the server sent a packet of 16 MiB or more")),
        length => Ok((length, sequence)),
    }
}

/// A connection that broke for a reason of ours.
pub fn broken(message: &str) -> Broken {
    Broken { message: format!("mysql: {message}"), code: 0 }
}

/// Appends a packet whose payload `write` appends. The payload must be shorter than 16 MiB.
pub fn write_packet(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(out);
    let length = out.len() - start - HEADER;
    debug_assert!(length < SPLIT, "a packet of {length} bytes would have to be split");
    out[start..start + HEADER].copy_from_slice(&header(length, sequence));
}

/// The header of a packet with so many bytes behind it.
pub const fn header(length: usize, sequence: u8) -> [u8; HEADER] {
    let [a, b, c, ..] = length.to_le_bytes();
    [a, b, c, sequence]
}

/// Whether this payload ends a list of columns or rows.
pub fn is_end(payload: &[u8]) -> bool {
    // A row whose first value is longer than 16 MiB begins with the same byte, but is longer.
    payload.first() == Some(&END) && payload.len() < 9
}

/// An error as the server sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerError<'a> {
    /// The server's number.
    pub code: u16,
    text: &'a [u8],
}

impl<'a> ServerError<'a> {
    /// The error in a payload, if it is one.
    pub fn from(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(payload.strip_prefix(&[ERROR])?);
        let code = fields.u16().unwrap_or(0);
        // The five letters of the SQL state are missing where the server has not read our abilities yet.
        let text = match fields.0 {
            [b'#', _, _, _, _, _, text @ ..] => text,
            text => text,
        };
        Some(ServerError { code, text })
    }

    /// The server's words.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    /// The end of a connection, in the server's words.
    pub fn broken(&self) -> Broken {
        let message = format!("mysql: {} (error {})", self.text(), self.code);
        Broken { message, code: i32::from(self.code) }
    }
}

/// What is still to be read of a payload. Each method returns `None` where the payload is too short.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Bytes up to a zero, which is left out; all bytes if there is none.
    pub fn up_to_zero(&mut self) -> &'a [u8] {
        let mut parts = self.0.splitn(2, |&byte| byte == 0);
        let (taken, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.0 = rest;
        taken
    }

    /// A number whose first byte says how long it is.
    pub fn number(&mut self) -> Option<u64> {
        let length = match self.u8()? {
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            0xfb | 0xff => return None,
            small => return Some(u64::from(small)),
        };
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(self.take(length)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// A value of a row in text form: bytes after their length, or NULL.
    pub fn value(&mut self) -> Option<Option<&'a [u8]>> {
        if let Some(rest) = self.0.strip_prefix(&[0xfb]) {
            self.0 = rest;
            return Some(None);
        }
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length).map(Some)
    }
}
