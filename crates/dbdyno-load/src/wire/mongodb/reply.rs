//! What a measured client wants to know of an answer, found in one walk over its outermost elements.

use super::elements::{Element, Elements, Malformed};

/// An answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reply {
    /// Whether the command was done; parts of it may have failed nevertheless.
    pub is_ok: bool,
    /// The error's code if it was not done, 0 if there is none.
    pub code: i32,
    /// Documents that a write matched.
    pub matched: Option<i64>,
    /// Documents that a write changed.
    pub modified: Option<i64>,
    /// The code of the first write that failed, 0 if it has none.
    pub write_error: Option<i32>,
    /// The code of a write concern that was not met, 0 if it has none. The write itself was made.
    pub concern_error: Option<i32>,
    /// Whether a search found a document.
    pub has_row: Option<bool>,
}

impl Reply {
    /// Reads an answer.
    ///
    /// # Errors
    /// If it is no BSON document. Documents in it that do not matter here are not looked into.
    #[inline]
    pub fn read(document: &[u8]) -> Result<Reply, Malformed> {
        let mut reply = Reply::default();
        for element in Elements::of(document)? {
            let element = element?;
            match element.name {
                b"ok" => reply.is_ok = element.number().is_some_and(|number| number != 0),
                b"n" => reply.matched = element.number(),
                b"nModified" => reply.modified = element.number(),
                b"code" => reply.code = code(&element),
                b"cursor" => reply.has_row = has_row(&element)?,
                b"writeErrors" => reply.write_error = write_error(&element)?,
                b"writeConcernError" => reply.concern_error = Some(code_within(&element)?),
                _ => {}
            }
        }
        Ok(reply)
    }
}

/// A code, which is a small number unless the server has lost its mind.
fn code(element: &Element<'_>) -> i32 {
    element.number().and_then(|number| i32::try_from(number).ok()).unwrap_or(0)
}

/// Whether the first batch of a cursor has a document.
#[inline]
fn has_row(cursor: &Element<'_>) -> Result<Option<bool>, Malformed> {
    for element in cursor.inner()?.into_iter().flatten() {
        let element = element?;
        if element.name == b"firstBatch" {
            let Some(mut rows) = element.inner()? else { return Ok(None) };
            return Ok(Some(rows.next().transpose()?.is_some()));
        }
    }
    Ok(None)
}

/// The code of the first error in a list, if there is an error.
fn write_error(errors: &Element<'_>) -> Result<Option<i32>, Malformed> {
    let first = errors.inner()?.and_then(|mut errors| errors.next());
    match first {
        Some(error) => code_within(&error?).map(Some),
        None => Ok(None),
    }
}

/// The code in an error.
fn code_within(error: &Element<'_>) -> Result<i32, Malformed> {
    for element in error.inner()?.into_iter().flatten() {
        let element = element?;
        if element.name == b"code" {
            return Ok(code(&element));
        }
    }
    Ok(0)
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
