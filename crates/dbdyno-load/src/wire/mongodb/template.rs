//! Commands that are encoded once and sent often: only numbers of eight bytes are written into them, at places that are
//! found by their path when the template is made.

use super::Fault;
use super::elements::{DOUBLE, Elements, INT64};
use super::message::{BEFORE_DOCUMENT, write_message};
use bson::Document;

/// Where a message has the number of its request.
const REQUEST_AT: usize = 4;

/// A command as a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Box<[u8]>);

/// Where a template has a number of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(usize);

impl Template {
    /// Encodes a command, which names its database in `$db`.
    ///
    /// # Errors
    /// If the command is no BSON that can be sent.
    pub fn new(command: &Document) -> Result<Template, Fault> {
        let mut bytes = Vec::new();
        write_message(&mut bytes, 0, &encoded(command)?, None);
        Ok(Template(bytes.into()))
    }

    /// The place of the number at the end of a path: names of fields, and indexes in arrays.
    ///
    /// # Errors
    /// If there is no number of eight bytes there.
    pub fn place(&self, path: &[&str]) -> Result<Place, Fault> {
        let missing = || Fault::new(format!("a command has no number at {}", path.join(".")));
        let (mut start, mut end) = (BEFORE_DOCUMENT, self.0.len());
        let mut kind = None;
        for name in path {
            let mut elements = Elements::of(&self.0[start..end]).map_err(|_| missing())?;
            let named = elements
                .find_map(|element| element.ok().filter(|element| element.name == name.as_bytes()));
            let element = named.ok_or_else(missing)?;
            kind = Some(element.kind);
            (start, end) = (start + element.at, start + element.at + element.value.len());
        }
        matches!(kind, Some(DOUBLE | INT64)).then_some(Place(start)).ok_or_else(missing)
    }

    /// Appends the message, with its number and the values at their places. They were found in this template.
    #[inline]
    pub fn append<const N: usize>(
        &self,
        request: i32,
        values: [(Place, u64); N],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        let message = &mut out[start..];
        message[REQUEST_AT..REQUEST_AT + 4].copy_from_slice(&request.to_le_bytes());
        for (Place(at), value) in values {
            message[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// A document as bytes.
///
/// # Errors
/// If it holds what BSON cannot, such as a name with a zero in it.
pub fn encoded(document: &Document) -> Result<Vec<u8>, Fault> {
    document.to_vec().map_err(|error| Fault::new(format!("encode a command: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;
    use proptest::prelude::*;

    proptest! {
        /// A template with numbers written into it is what encoding those numbers would have given.
        #[test]
        fn templates_are_what_they_stand_for(request: i32, row: i64, value: i64) {
            let command = |row: i64, value: i64| doc! {
                "update": "t1",
                "updates": [{ "q": { "_id": row }, "u": { "$set": { "k": value } }, "multi": false }],
                "$db": "dbdyno",
            };
            let template = Template::new(&command(0, 0)).expect("encodes");
            let row_at = template.place(&["updates", "0", "q", "_id"]).expect("is there");
            let value_at = template.place(&["updates", "0", "u", "$set", "k"]).expect("is there");
            let mut patched = Vec::new();
            template.append(request, [(row_at, row as u64), (value_at, value as u64)], &mut patched);
            let mut expected = Vec::new();
            let encoded = encoded(&command(row, value)).expect("encodes");
            write_message(&mut expected, request, &encoded, None);
            prop_assert_eq!(patched, expected);
        }
    }

    /// Places that are not there, or hold no number of eight bytes, are refused by their path.
    #[test]
    fn wrong_places_are_named() {
        let template = Template::new(&doc! { "find": "t1", "limit": 1i32 }).expect("encodes");
        for path in [&["filter", "_id"][..], &["limit"], &["find"], &["find", "x"], &[]] {
            let fault = template.place(path).expect_err("is refused");
            assert!(fault.message.contains(&path.join(".")), "{fault}");
        }
    }
}
