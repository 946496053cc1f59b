//! Tests of reading answers: they say what the `bson` crate finds in the same documents, and no bytes make them panic.

use super::super::elements::tests::any_value;
use super::*;
use bson::{Bson, Document, doc};
use proptest::prelude::*;

/// The same answer, read by way of the crate.
fn expected(document: &Document) -> Reply {
    let number = |value: &Bson| match *value {
        Bson::Double(number) => Some(number as i64),
        Bson::Int32(number) => Some(i64::from(number)),
        Bson::Int64(number) => Some(number),
        Bson::Boolean(flag) => Some(i64::from(flag)),
        _ => None,
    };
    let code = |document: &Document| {
        let code = document.get("code").and_then(number);
        code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0)
    };
    let values = |value: &Bson| match value {
        Bson::Array(values) => Some(values.clone()),
        Bson::Document(document) => Some(document.values().cloned().collect()),
        _ => None,
    };
    let code_within = |value: &Bson| value.as_document().map_or(0, code);
    let batch = match document.get("cursor") {
        Some(Bson::Document(cursor)) => cursor.get("firstBatch").and_then(values),
        _ => None,
    };
    let errors = document.get("writeErrors").and_then(values);
    Reply {
        is_ok: document.get("ok").and_then(number).is_some_and(|ok| ok != 0),
        code: code(document),
        matched: document.get("n").and_then(number),
        modified: document.get("nModified").and_then(number),
        write_error: errors.and_then(|errors| errors.first().map(code_within)),
        concern_error: document.get("writeConcernError").map(code_within),
        has_row: batch.map(|batch| !batch.is_empty()),
    }
}

const NAMES: [&str; 7] =
    ["ok", "n", "nModified", "code", "cursor", "writeErrors", "writeConcernError"];

/// Names that matter, and others.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(&NAMES[..]).prop_map(str::to_owned), "[a-z]{0,4}"]
}

/// Values as servers send them at those names, and others.
fn any_answer_value() -> impl Strategy<Value = Bson> {
    let error =
        any_value().prop_map(|code| doc! { "index": 0, "code": code, "errmsg": "no" }).boxed();
    prop_oneof![
        any_value(),
        any_value().prop_map(|batch| Bson::Document(doc! { "id": 0i64, "firstBatch": batch })),
        error.clone().prop_map(Bson::Document),
        prop::collection::vec(error.prop_map(Bson::Document), 0..3).prop_map(Bson::Array),
    ]
}

proptest! {
    /// Whatever document the crate produces, both read the same in it.
    #[test]
    fn answers_are_read_as_the_crate_reads_them(
        pairs in prop::collection::vec((any_name(), any_answer_value()), 0..8),
    ) {
        let document: Document = pairs.into_iter().collect();
        let bytes = document.to_vec().expect("encodes");
        prop_assert_eq!(Reply::read(&bytes), Ok(expected(&document)));
    }

    /// No bytes make it panic, also if most of them are an answer.
    #[test]
    fn any_bytes_are_survived(
        junk in prop::collection::vec(any::<u8>(), 0..100),
        name in any_name(),
        value in any_answer_value(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let _ = Reply::read(&junk);
        let mut bytes = doc! { name: value, "ok": 1.0 }.to_vec().expect("encodes");
        let place = at.index(bytes.len());
        bytes[place] = byte;
        let _ = Reply::read(&bytes);
    }
}

/// Answers as servers give them.
#[test]
fn known_answers_are_read() {
    let read = |document: Document| Reply::read(&document.to_vec().expect("encodes"));
    let ok = Reply { is_ok: true, ..Reply::default() };
    let row = doc! { "k": 5i64, "filler": "abc" };
    let cursor = |batch: Vec<Document>| doc! { "firstBatch": batch, "id": 0i64, "ns": "d.t1" };
    let cases = [
        (doc! { "cursor": cursor(vec![row]), "ok": 1.0 }, Reply { has_row: Some(true), ..ok }),
        (doc! { "cursor": cursor(vec![]), "ok": 1.0 }, Reply { has_row: Some(false), ..ok }),
        (
            doc! { "n": 1, "nModified": 1, "ok": 1.0 },
            Reply { matched: Some(1), modified: Some(1), ..ok },
        ),
        (
            doc! { "n": 0, "writeErrors": [{ "index": 0, "code": 112, "errmsg": "x" }], "ok": 1.0 },
            Reply { matched: Some(0), write_error: Some(112), ..ok },
        ),
        (
            doc! { "n": 1, "writeConcernError": { "code": 64, "errmsg": "x" }, "ok": 1.0 },
            Reply { matched: Some(1), concern_error: Some(64), ..ok },
        ),
        (
            doc! { "ok": 0.0, "errmsg": "x", "code": 59, "codeName": "CommandNotFound" },
            Reply { code: 59, ..Reply::default() },
        ),
    ];
    for (document, expected) in cases {
        assert_eq!(read(document.clone()), Ok(expected), "{document}");
    }
}
