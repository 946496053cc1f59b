//! Tests of the conversation: every kind of answer has the right end, however the stream is cut, and bytes that no
//! server sends do no harm.

use super::super::message::write_message;
use super::*;
use proptest::prelude::*;

fn session() -> MongodbSession {
    let concern = doc! { "w": "majority", "j": true };
    let commands = Commands::new(2, "dbdyno", Some(&concern)).expect("are commands");
    MongodbSession::new(Arc::new(commands), 8)
}

fn request(table: u16, row: u64, action: Action) -> Request {
    Request { class: 0, table, row, action }
}

/// An answer as a server sends it to request number `answers`.
fn answer(answers: i32, document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_message(&mut bytes, 77, &document.to_vec().expect("encodes"), None);
    bytes[8..12].copy_from_slice(&answers.to_le_bytes());
    bytes
}

/// How one request ends with an answer.
fn end(action: Action, document: &Document) -> Result<Outcome, Broken> {
    let (mut session, mut out, mut end) = (session(), Vec::new(), None);
    session.encode(&request(0, 1, action), &mut out);
    let bytes = answer(1, document);
    let used = session.decode(&bytes, &mut out, &mut |outcome| end = Some(outcome))?;
    assert_eq!(used, bytes.len());
    Ok(end.expect("has ended"))
}

fn refused(class: FailureClass, code: i32) -> Outcome {
    Outcome::Refused(Failure { class, code })
}

fn unknown(class: FailureClass, code: i32) -> Outcome {
    Outcome::Unknown(Failure { class, code })
}

/// Requests become commands that the server reads as they are meant.
#[test]
fn requests_become_commands() {
    let sent = |request| {
        let mut out = Vec::new();
        session().encode(&request, &mut out);
        // An answer and a request look the same, but for the opcode that both share.
        let message = Message::first_of(&out).expect("is a message").expect("is whole");
        Document::from_reader(message.document).expect("is a document")
    };
    let read = doc! {
        "find": "t1", "filter": { "_id": 7i64 }, "projection": { "_id": 0, "k": 1, "filler": 1 },
        "limit": 1, "singleBatch": true, "$db": "dbdyno",
    };
    assert_eq!(sent(request(0, 7, Action::Read)), read);
    let update = |table: &str, row: i64, change: Document| {
        doc! {
            "update": table, "updates": [{ "q": { "_id": row }, "u": change }],
            "writeConcern": { "w": "majority", "j": true }, "$db": "dbdyno",
        }
    };
    let assign = update("t2", 3, doc! { "$set": { "k": -2i64 } });
    assert_eq!(sent(request(1, 3, Action::Assign(u64::MAX - 1))), assign);
    let increment = update("t2", 4, doc! { "$inc": { "k": 1i64 } });
    assert_eq!(sent(request(1, 4, Action::Increment)), increment);
}

/// Each answer and how the request ends with it.
#[test]
fn answers_become_outcomes() {
    let write_error = |code: i32| doc! { "n": 0, "ok": 1, "writeErrors": [{ "code": code }] };
    let failed = |code: i32| doc! { "ok": 0.0, "code": code, "errmsg": "no" };
    let (increment, assign) = (Action::Increment, Action::Assign(1));
    let no_such_row = refused(FailureClass::NoSuchRow, 0);
    let cases = [
        (increment, doc! { "n": 1, "nModified": 1, "ok": 1.0 }, Outcome::Acknowledged),
        (assign, doc! { "n": 1, "nModified": 0, "ok": 1.0 }, Outcome::Acknowledged),
        (increment, doc! { "n": 1, "nModified": 0, "ok": 1 }, unknown(FailureClass::Other, 0)),
        (increment, doc! { "n": 0, "nModified": 0, "ok": 1.0 }, no_such_row),
        (Action::Read, doc! { "cursor": { "firstBatch": [] }, "ok": 1.0 }, no_such_row),
        (Action::Read, doc! { "cursor": { "firstBatch": [{}] }, "ok": 1 }, Outcome::Acknowledged),
        (increment, write_error(112), refused(FailureClass::Serialization, 112)),
        (increment, failed(112), refused(FailureClass::Serialization, 112)),
        (increment, failed(24), refused(FailureClass::LockTimeout, 24)),
        (increment, failed(365), refused(FailureClass::Overload, 365)),
        (increment, failed(14_031), refused(FailureClass::DiskFull, 14_031)),
        (increment, failed(10_107), refused(FailureClass::Other, 10_107)),
        (increment, failed(4_711), refused(FailureClass::Other, 4_711)),
        (increment, failed(1), unknown(FailureClass::Other, 1)),
        (Action::Read, failed(1), refused(FailureClass::Other, 1)),
        (increment, doc! { "ok": 0 }, unknown(FailureClass::Other, 0)),
        (
            increment,
            doc! { "n": 1, "nModified": 1, "ok": 1, "writeConcernError": { "code": 64 } },
            unknown(FailureClass::Other, 64),
        ),
    ];
    for (action, document, expected) in cases {
        assert_eq!(end(action, &document), Ok(expected), "{action:?} {document}");
    }
    for (document, code) in [
        (failed(91), 91),
        (write_error(11_600), 11_600),
        (doc! { "n": 2, "ok": 1 }, 0),
        (doc! { "ok": 1 }, 0),
    ] {
        assert_eq!(end(increment, &document).expect_err("breaks").code, code, "{document}");
    }
}

/// Answers that nobody asked for, and other protocols, end the connection.
#[test]
fn strangers_are_not_listened_to() {
    let done = doc! { "n": 1, "ok": 1 };
    let mut wrong_opcode = answer(1, &done);
    wrong_opcode[12..16].copy_from_slice(&1i32.to_le_bytes());
    let mut more_to_come = answer(1, &done);
    more_to_come[16] = 2;
    let mut too_long = answer(1, &done);
    too_long[0..4].copy_from_slice(&100_000_000i32.to_le_bytes());
    for bytes in [answer(2, &done), wrong_opcode, more_to_come, too_long] {
        let mut session = session();
        session.encode(&request(0, 1, Action::Increment), &mut Vec::new());
        assert!(session.decode(&bytes, &mut Vec::new(), &mut |_| panic!("ended")).is_err());
    }
    let unasked = session().decode(&answer(1, &done), &mut Vec::new(), &mut |_| ());
    assert!(unasked.expect_err("breaks").message.contains("nobody asked for"));
    let mut with_checksum = answer(1, &done);
    with_checksum[16] = 1;
    with_checksum.extend_from_slice(&[9; 4]);
    let length = with_checksum.len() as i32;
    with_checksum[0..4].copy_from_slice(&length.to_le_bytes());
    let (mut session, mut ends) = (session(), 0);
    session.encode(&request(0, 1, Action::Increment), &mut Vec::new());
    let used = session.decode(&with_checksum, &mut Vec::new(), &mut |_| ends += 1);
    assert_eq!((used, ends), (Ok(with_checksum.len()), 1));
}

proptest! {
    /// However the stream is cut, the same comes out of it.
    #[test]
    fn pieces_make_no_difference(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let answers = [
            (Action::Increment, doc! { "n": 1, "nModified": 1, "ok": 1.0 }),
            (Action::Read, doc! { "cursor": { "firstBatch": [{ "k": 1, "filler": "x".repeat(300) }] }, "ok": 1 }),
            (Action::Increment, doc! { "ok": 0.0, "code": 112 }),
            (Action::Read, doc! { "cursor": { "firstBatch": [] }, "ok": 1 }),
        ];
        let mut session = session();
        let mut stream = Vec::new();
        for (number, (action, document)) in answers.iter().enumerate() {
            session.encode(&request(0, 1, *action), &mut Vec::new());
            stream.extend_from_slice(&answer(number as i32 + 1, document));
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.sort_unstable();
        let (mut waiting, mut start, mut outcomes) = (Vec::new(), 0, Vec::new());
        for cut in cuts.into_iter().chain([stream.len()]) {
            waiting.extend_from_slice(&stream[start..cut]);
            start = cut;
            let used = session.decode(&waiting, &mut Vec::new(), &mut |end| outcomes.push(end));
            waiting.drain(..used.expect("is understood"));
        }
        prop_assert_eq!(waiting.len(), 0);
        prop_assert_eq!(outcomes, [
            Outcome::Acknowledged,
            Outcome::Acknowledged,
            refused(FailureClass::Serialization, 112),
            refused(FailureClass::NoSuchRow, 0),
        ]);
    }

    /// No bytes make the session panic, take more than there is, or end more than was made.
    #[test]
    fn any_bytes_are_survived(
        junk in prop::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut damaged = answer(1, &doc! { "cursor": { "firstBatch": [{ "k": 1 }] }, "ok": 1.0 });
        damaged.extend_from_slice(&answer(2, &doc! { "n": 1, "nModified": 1, "ok": 1.0 }));
        let place = at.index(damaged.len());
        damaged[place] = byte;
        for input in [junk, damaged] {
            let mut session = session();
            session.encode(&request(0, 1, Action::Read), &mut Vec::new());
            let mut ends = 0;
            if let Ok(used) = session.decode(&input, &mut Vec::new(), &mut |_| ends += 1) {
                prop_assert!(used <= input.len());
            }
            prop_assert!(ends <= 1);
        }
    }
}
