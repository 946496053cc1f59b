//! Tests of the walk: documents of the `bson` crate come out as they went in, and no bytes make it panic or go past
//! the end.

use super::*;
use bson::{Bson, Document, doc};
use proptest::prelude::*;

/// Any value, with documents and arrays in it.
pub(in crate::wire::mongodb) fn any_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        any::<f64>().prop_map(Bson::Double),
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        Just(Bson::MinKey),
        ".{0,20}".prop_map(Bson::String),
        ".{0,20}".prop_map(Bson::JavaScriptCode),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(bson::oid::ObjectId::from_bytes(id))),
        any::<i64>().prop_map(|ms| Bson::DateTime(bson::DateTime::from_millis(ms))),
        any::<[u8; 16]>().prop_map(|it| Bson::Decimal128(bson::Decimal128::from_bytes(it))),
        (any::<u32>(), any::<u32>())
            .prop_map(|(time, increment)| Bson::Timestamp(bson::Timestamp { time, increment })),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| {
            Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })
        }),
        ("[a-z]{0,5}", "[ims]{0,1}").prop_map(|(pattern, options)| {
            let text = |text: String| text.try_into().expect("has no zero");
            Bson::RegularExpression(bson::Regex { pattern: text(pattern), options: text(options) })
        }),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec(("[a-zA-Z]{1,6}", inner), 0..4)
                .prop_map(|pairs| Bson::Document(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    /// The walk finds the same names, types and lengths as the crate that made the document.
    #[test]
    fn documents_come_out_as_they_went_in(
        pairs in prop::collection::vec(("[a-zA-Z]{0,6}", any_value()), 0..6),
    ) {
        let document: Document = pairs.into_iter().collect();
        let bytes = document.to_vec().expect("encodes");
        let elements: Vec<Element<'_>> =
            Elements::of(&bytes).expect("is one").collect::<Result<_, _>>().expect("can be read");
        prop_assert_eq!(elements.len(), document.len());
        for (element, (name, value)) in elements.iter().zip(&document) {
            prop_assert_eq!(element.name, name.as_bytes());
            prop_assert_eq!(element.kind, value.element_type() as u8);
            let alone = doc! { "": value.clone() }.to_vec().expect("encodes");
            // Alone it stands behind a length, a type and an empty name, and before a zero.
            prop_assert_eq!(element.value, &alone[6..alone.len() - 1]);
            prop_assert_eq!(&bytes[element.at..element.at + element.value.len()], element.value);
        }
    }

    /// Bytes that are no document, or a document with one byte changed, end the walk.
    #[test]
    fn any_bytes_are_survived(
        junk in prop::collection::vec(any::<u8>(), 0..80),
        value in any_value(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut damaged = doc! { "a": value, "b": 1 }.to_vec().expect("encodes");
        let place = at.index(damaged.len());
        damaged[place] = byte;
        let mut framed = ((junk.len() + 5) as u32).to_le_bytes().to_vec();
        framed.extend_from_slice(&junk);
        framed.push(0);
        for bytes in [&junk, &damaged, &framed] {
            let Ok(elements) = Elements::of(bytes) else { continue };
            for element in elements.take(bytes.len()) {
                let Ok(element) = element else { break };
                prop_assert!(element.at + element.value.len() < bytes.len());
                let _ = element.number();
                let _ = element.inner().map(|inner| inner.map(Iterator::count));
            }
        }
    }
}
