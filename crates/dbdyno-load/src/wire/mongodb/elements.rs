//! A walk over the elements of a BSON document that allocates nothing, trusts nothing and never looks past the end.
//!
//! It knows how long each type's value is and nothing else; what a value means is for those who ask for it.

/// Type of a floating point number.
pub const DOUBLE: u8 = 0x01;
/// Type of a document.
pub const DOCUMENT: u8 = 0x03;
/// Type of an array, which is a document with numbers for names.
pub const ARRAY: u8 = 0x04;
/// Type of a truth value.
pub const BOOLEAN: u8 = 0x08;
/// Type of a number of four bytes.
pub const INT32: u8 = 0x10;
/// Type of a number of eight bytes.
pub const INT64: u8 = 0x12;

/// Bytes that are no BSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a document that cannot be read")]
pub struct Malformed;

/// One element: its type, its name, and its value as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Type.
    pub kind: u8,
    /// Name, without the zero that ends it.
    pub name: &'a [u8],
    /// Value, with its length where the type has one.
    pub value: &'a [u8],
    /// Where the value begins in the document.
    pub at: usize,
}

impl Element<'_> {
    /// The value as a whole number, if it is a number or a truth value; fractions are cut.
    #[inline]
    pub fn number(&self) -> Option<i64> {
        match self.kind {
            DOUBLE => Some(f64::from_le_bytes(self.value.try_into().ok()?) as i64),
            INT32 => Some(i32::from_le_bytes(self.value.try_into().ok()?).into()),
            INT64 => Some(i64::from_le_bytes(self.value.try_into().ok()?)),
            BOOLEAN => self.value.first().map(|&byte| i64::from(byte != 0)),
            _ => None,
        }
    }

    /// The elements of the value, if it is a document or an array.
    ///
    /// # Errors
    /// If its length is not that of the value.
    #[inline]
    pub fn inner(&self) -> Result<Option<Elements<'_>>, Malformed> {
        match self.kind {
            DOCUMENT | ARRAY => Elements::of(self.value).map(Some),
            _ => Ok(None),
        }
    }
}

/// The elements of a document, in order.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    /// The document up to the zero that ends it.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    /// Of a whole document.
    ///
    /// # Errors
    /// If the length that it begins with is not its own, or no zero ends it.
    #[inline]
    pub fn of(document: &'a [u8]) -> Result<Self, Malformed> {
        let length = length_at(document, 0)?;
        match document.split_last() {
            Some((0, bytes)) if length == document.len() && bytes.len() >= 4 => {
                Ok(Elements { bytes, at: 4 })
            }
            _ => Err(Malformed),
        }
    }

    fn read(&mut self) -> Result<Element<'a>, Malformed> {
        let kind = self.bytes[self.at];
        let name_at = self.at + 1;
        let name_end = end_of_text(self.bytes, name_at)?;
        let at = name_end + 1;
        let length = length_of(kind, self.bytes, at)?;
        let end = at.checked_add(length).ok_or(Malformed)?;
        let value = self.bytes.get(at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(Element { kind, name: &self.bytes[name_at..name_end], value, at })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let element = self.read();
        if element.is_err() {
            self.at = self.bytes.len();
        }
        Some(element)
    }
}

/// Where the text that begins at `at` has its zero.
#[inline]
fn end_of_text(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let rest = bytes.get(at..).ok_or(Malformed)?;
    rest.iter().position(|&byte| byte == 0).map(|length| at + length).ok_or(Malformed)
}

/// The length that is written at `at`, which is never negative.
#[inline]
fn length_at(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let length = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
    usize::try_from(i32::from_le_bytes(*length)).map_err(|_| Malformed)
}

/// Bytes of a value of this type that begins at `at`.
#[inline]
fn length_of(kind: u8, bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    Ok(match kind {
        // Undefined, null, the smallest and the largest key.
        0x06 | 0x0a | 0x7f | 0xff => 0,
        BOOLEAN => 1,
        INT32 => 4,
        // A moment and a timestamp.
        DOUBLE | 0x09 | 0x11 | INT64 => 8,
        // An object's id.
        0x07 => 12,
        // A decimal number.
        0x13 => 16,
        // Text, code, symbol: length and bytes.
        0x02 | 0x0d | 0x0e => 4 + length_at(bytes, at)?,
        // Documents and code with a scope count their own length.
        DOCUMENT | ARRAY | 0x0f => length_at(bytes, at)?,
        // Bytes: length, subtype, bytes.
        0x05 => 5 + length_at(bytes, at)?,
        // A pointer: text and an object's id.
        0x0c => 16 + length_at(bytes, at)?,
        // A regular expression: two texts that end with zeros.
        0x0b => {
            let first_end = end_of_text(bytes, at)?;
            end_of_text(bytes, first_end + 1)? + 1 - at
        }
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
#[path = "elements_tests.rs"]
pub(super) mod tests;
