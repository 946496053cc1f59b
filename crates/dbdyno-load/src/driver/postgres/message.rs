//! Messages of the PostgreSQL protocol (version 3): how they are framed, and what an error says.

use crate::driver::DriverError;
use crate::outcome::{Failure, FailureClass};

/// SQLSTATE of a disk without room.
const DISK_FULL: [u8; 5] = *b"53100";
/// Longest message of the server that can be true: its own limit is one gigabyte.
const LENGTH_MAX: usize = 1 << 30;

/// Appends a message: its kind, its length, and what `body` appends.
pub(super) fn append(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    append_untyped(out, body);
}

/// Appends a message without a kind, as the first ones of a connection are.
pub(super) fn append_untyped(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text with the zero that ends it.
pub(super) fn append_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends a simple query.
pub(super) fn append_query(out: &mut Vec<u8>, sql: &str) {
    append(out, b'Q', |out| append_text(out, sql));
}

/// Bytes before a message's body: kind and length.
pub(super) const HEADER_BYTES: usize = 5;

/// Kind and length of the body, from a message's first bytes; `None` if the length cannot be true.
#[inline]
pub(super) fn header(bytes: [u8; HEADER_BYTES]) -> Option<(u8, usize)> {
    let [kind, length @ ..] = bytes;
    let body = (u32::from_be_bytes(length) as usize).checked_sub(4)?;
    (body <= LENGTH_MAX).then_some((kind, body))
}

/// What an error message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerError<'a> {
    /// Five characters.
    pub code: [u8; 5],
    /// The server's sentence.
    pub message: &'a [u8],
    /// Whether the server closes the connection now.
    pub is_fatal: bool,
}

impl<'a> ServerError<'a> {
    /// Reads the body of an error message. Fields that are missing stay empty.
    pub fn parse(body: &'a [u8]) -> Self {
        let mut error = ServerError { code: *b"XX000", message: b"", is_fatal: false };
        for field in body.split(|&byte| byte == 0) {
            match field {
                [b'C', code @ ..] => error.code = code.try_into().unwrap_or(error.code),
                [b'M', message @ ..] => error.message = message,
                // V is the severity in English; servers before 9.6 send only S, in their language.
                [b'V' | b'S', severity @ ..] => {
                    error.is_fatal |= severity == b"FATAL" || severity == b"PANIC";
                }
                _ => {}
            }
        }
        error
    }

    /// The sentence with its code.
    pub fn text(&self) -> String {
        let code = String::from_utf8_lossy(&self.code);
        format!("{} (SQLSTATE {code})", String::from_utf8_lossy(self.message))
    }

    /// As an error of the control plane; `what` was being done.
    pub fn into_driver_error(self, what: &str) -> DriverError {
        let text = format!("postgres: {what}: {}", self.text());
        DriverError { is_disk_full: self.code == DISK_FULL, ..DriverError::new(text) }
    }

    /// As the failure of a request.
    pub fn failure(&self) -> Failure {
        Failure { class: class_of(&self.code), code: number_of(&self.code) }
    }
}

fn class_of(code: &[u8; 5]) -> FailureClass {
    match code {
        b"40P01" => FailureClass::Deadlock,
        b"40001" => FailureClass::Serialization,
        b"55P03" | b"57014" => FailureClass::LockTimeout,
        b"53100" => FailureClass::DiskFull,
        b"57P01" | b"57P02" | b"57P03" | [b'0', b'8', ..] => FailureClass::LostConnection,
        [b'5', b'3', ..] => FailureClass::Overload,
        _ => FailureClass::Other,
    }
}

/// A SQLSTATE as a number: its five characters are digits and capital letters, so base 36 keeps them apart.
pub(super) fn number_of(code: &[u8; 5]) -> i32 {
    code.iter()
        .fold(0, |number, &digit| number * 36 + char::from(digit).to_digit(36).unwrap_or(0) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error codes keep their class and can be told apart by number.
    #[test]
    fn errors_are_classified() {
        // Taken from a server: a statement that waited too long for a lock.
        let body = b"SERROR\0VERROR\0C55P03\0Mcanceling statement due to lock timeout\0\
            Fpostgres.c\0L3386\0RProcessInterrupts\0\0";
        let error = ServerError::parse(body);
        assert_eq!(error.failure().class, FailureClass::LockTimeout);
        assert_eq!(error.text(), "canceling statement due to lock timeout (SQLSTATE 55P03)");
        assert!(!error.is_fatal);
        let classes = [
            (b"40P01", FailureClass::Deadlock),
            (b"40001", FailureClass::Serialization),
            (b"57014", FailureClass::LockTimeout),
            (b"53100", FailureClass::DiskFull),
            (b"53300", FailureClass::Overload),
            (b"57P01", FailureClass::LostConnection),
            (b"08006", FailureClass::LostConnection),
            (b"42P01", FailureClass::Other),
        ];
        for (code, class) in classes {
            assert_eq!(class_of(code), class);
        }
        assert_eq!(number_of(b"00010"), 36);
        assert_eq!(number_of(b"ZZZZZ"), 36i32.pow(5) - 1);
    }

    /// Lengths that cannot be true are refused.
    #[test]
    fn headers_are_checked() {
        assert_eq!(header([b'Z', 0, 0, 0, 5]), Some((b'Z', 1)));
        assert_eq!(header([b'Z', 0, 0, 0, 3]), None);
        assert_eq!(header([b'D', 255, 255, 255, 255]), None);
    }
}
