//! RocksDB's errors: a text that the library allocates, and what its beginning says about a request.
//!
//! The C API hands over no codes, so the words are told apart by which `Status` makes them (`util/status.cc`), and the
//! code of a failure here is that status's number in `include/rocksdb/status.h`.

use super::api::Api;
use crate::driver::DriverError;
use crate::outcome::{Failure, FailureClass, Outcome};
use std::ffi::{CStr, c_char};
use std::ptr;

/// Not an error text: no such key.
const NOT_FOUND: i32 = 1;
const CORRUPTION: i32 = 2;
const IO_ERROR: i32 = 5;

/// Beginnings of texts, the number of their status, and what they mean for a request. The first that fits counts.
const TEXTS: &[(&[u8], i32, FailureClass)] = &[
    (b"Resource busy: Deadlock", 11, FailureClass::Deadlock),
    (b"Resource busy: Failed to acquire lock due to max_num_locks", 11, FailureClass::Overload),
    (b"Resource busy: ", 11, FailureClass::Serialization),
    (b"Operation timed out: ", 9, FailureClass::LockTimeout),
    (b"Operation expired: ", 12, FailureClass::LockTimeout),
    (b"Operation failed. Try again.: ", 13, FailureClass::Serialization),
    (b"Operation aborted: ", 10, FailureClass::Other),
    (b"NotFound: ", NOT_FOUND, FailureClass::NoSuchRow),
    (b"Corruption: ", CORRUPTION, FailureClass::Other),
    (b"Not implemented: ", 3, FailureClass::Other),
    (b"Invalid argument: ", 4, FailureClass::Other),
    (b"IO error: ", IO_ERROR, FailureClass::Other),
    (b"Shutdown in progress: ", 8, FailureClass::Other),
];

/// What the kernel says when there is no room, on the disk, for a user, or below a limit on the size of files.
const DISK_FULL: [&[u8]; 3] = [b"No space left", b"Disk quota exceeded", b"File too large"];

/// The place for an error text of one call, freed at its end.
pub(super) struct Fault<'api> {
    api: &'api Api,
    text: *mut c_char,
}

impl<'api> Fault<'api> {
    pub(super) fn new(api: &'api Api) -> Self {
        Fault { api, text: ptr::null_mut() }
    }

    /// Where the library is to put its text.
    pub(super) fn place(&mut self) -> *mut *mut c_char {
        &mut self.text
    }

    pub(super) fn is_set(&self) -> bool {
        !self.text.is_null()
    }

    fn text(&self) -> &[u8] {
        if self.text.is_null() {
            return &[];
        }
        // SAFETY: the library put a C string there, which is freed when this is dropped.
        unsafe { CStr::from_ptr(self.text) }.to_bytes()
    }

    /// What it means for a request.
    #[cold]
    pub(super) fn failure(&self) -> Failure {
        classify(self.text())
    }

    /// As an error, if one was set.
    pub(super) fn check(&self, doing: &str) -> Result<(), DriverError> {
        if !self.is_set() {
            return Ok(());
        }
        let text = self.text();
        let words = String::from_utf8_lossy(text);
        let is_disk_full = classify(text).class == FailureClass::DiskFull;
        Err(DriverError { is_disk_full, ..DriverError::new(format!("rocksdb: {doing}: {words}")) })
    }
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        if self.is_set() {
            // SAFETY: the library allocated the text and nobody refers to it any more.
            unsafe { (self.api.free)(self.text.cast()) };
        }
    }
}

fn classify(text: &[u8]) -> Failure {
    let holds = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let found = TEXTS.iter().find(|(begin, ..)| text.starts_with(begin));
    let (code, class) = found.map_or((0, FailureClass::Other), |&(_, code, class)| (code, class));
    match code {
        IO_ERROR if DISK_FULL.into_iter().any(holds) => {
            Failure { class: FailureClass::DiskFull, code }
        }
        _ => Failure { class, code },
    }
}

/// A key that is not there.
pub(super) fn no_such_row() -> Outcome {
    Outcome::Refused(Failure { class: FailureClass::NoSuchRow, code: NOT_FOUND })
}

/// A value that cannot be what was loaded.
pub(super) fn damaged() -> Outcome {
    Outcome::Refused(Failure { class: FailureClass::Other, code: CORRUPTION })
}

/// A commit that fails in vain was not made if it failed over locks or order, which are looked at before anything is
/// written; after any other failure nobody knows.
#[cold]
pub(super) fn uncommitted(fault: &Fault<'_>) -> Outcome {
    let failure = fault.failure();
    match failure.class.is_passing() {
        true => Outcome::Refused(failure),
        false => Outcome::Unknown(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_text_says_what_happened() {
        let check = |text: &str, class: FailureClass, code: i32| {
            assert_eq!(classify(text.as_bytes()), Failure { class, code }, "{text}");
        };
        check("Operation timed out: Timeout waiting to lock key", FailureClass::LockTimeout, 9);
        check("Resource busy: Deadlock", FailureClass::Deadlock, 11);
        check("Resource busy: ", FailureClass::Serialization, 11);
        check("Operation failed. Try again.: Transaction", FailureClass::Serialization, 13);
        let full = "IO error: No space left on device: While appending to file: 000012.log";
        check(full, FailureClass::DiskFull, 5);
        check(
            "IO error: While appending to file: 1.log: File too large",
            FailureClass::DiskFull,
            5,
        );
        check("IO error: While open a file", FailureClass::Other, 5);
        check("words that nobody foresaw", FailureClass::Other, 0);
    }
}
