//! Tests of the conversation with bytes captured from PostgreSQL 15.18's own answers, whole and in pieces, and with
//! bytes that no server sends.

use super::*;
use proptest::prelude::*;

/// Row 7 with counter -2 and filler "abc", read with the prepared statement.
const READ: &str = "32000000044400000019000200000008fffffffffffffffe00000003616263430000000d53454c45\
    43542031005a0000000549";
const UPDATED: &str = "3200000004430000000d5550444154452031005a0000000549";
const UPDATED_NONE: &str = "3200000004430000000d5550444154452030005a0000000549";
const READ_NONE: &str = "3200000004430000000d53454c4543542030005a0000000549";
/// The same row read as text.
const READ_TEXT: &str = "54000000390002636f756e74657200000040000002000000140008ffffffff000066696c6c6572000000400000\
    0300000011ffffffffffff000044000000180002000000022d31000000085c783631363236334300\
    00000d53454c4543542031005a0000000549";
const BEGUN: &str = "430000000a424547494e005a0000000554";
const UPDATED_IN_TRANSACTION: &str = "430000000d5550444154452031005a0000000554";
const COMMITTED: &str = "430000000b434f4d4d4954005a0000000549";
const ROLLED_BACK: &str = "430000000d524f4c4c4241434b005a0000000549";
/// The counter's type has no room for the new value.
const ERROR_IN_TRANSACTION: &str = "4500000045534552524f5200564552524f5200433232303033004d626967696e74206f7574206f6620\
    72616e67650046696e74382e63004c3931330052696e743834706c00005a0000000545";
const NOTICE: &str = "4e0000006f534e4f5449434500564e4f5449434500433432503037004d72656c6174696f6e20227431222061\
    6c7265616479206578697374732c20736b697070696e67004670617273655f7574696c636d642e63\
    004c32303700527472616e73666f726d43726561746553746d740000";
const SETTING_CHANGED: &str = "53000000176170706c69636174696f6e5f6e616d65007800";
const SHUT_DOWN: &str = "450000007453464154414c0056464154414c00433537503031004d7465726d696e6174696e6720636f6e6e65\
    6374696f6e2064756520746f2061646d696e6973747261746f7220636f6d6d616e640046706f7374\
    677265732e63004c33323131005250726f63657373496e74657272757074730000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16);
    digits.chunks(2).map(|digits| pair(digits).expect("hex")).collect()
}

fn session(statements: Statements, transaction: Transaction) -> PostgresSession {
    PostgresSession::new(Arc::new(Phrases::new(2, statements, transaction)), 8)
}

fn request(table: u16, row: u64, action: Action) -> Request {
    Request { class: 0, table, row, action }
}

/// What came out: outcomes, what was sent, and why it broke if it did.
type Took = (Vec<Outcome>, Vec<u8>, Option<Broken>);

/// Passes `input` to the session in pieces that end at `cuts`, as a connection does.
fn take(session: &mut PostgresSession, input: &[u8], cuts: &[usize]) -> Took {
    let (mut outcomes, mut out, mut waiting, mut start) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for &cut in cuts.iter().chain([&input.len()]) {
        waiting.extend_from_slice(&input[start..cut.max(start)]);
        start = cut.max(start);
        match session.decode(&waiting, &mut out, &mut |outcome| outcomes.push(outcome)) {
            Ok(used) => drop(waiting.drain(..used)),
            Err(broken) => return (outcomes, out, Some(broken)),
        }
    }
    (outcomes, out, None)
}

fn class_of(outcome: Outcome) -> Option<FailureClass> {
    match outcome {
        Outcome::Refused(failure) => Some(failure.class),
        _ => None,
    }
}

/// Requests become the bytes that the server understood when its answers were captured.
#[test]
fn requests_become_bytes() {
    let mut out = Vec::new();
    session(Statements::Prepared, Transaction::Autocommit)
        .encode(&request(0, 7, Action::Read), &mut out);
    let expected =
        b"B\0\0\0\x21\0read1\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01\
        E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    assert_eq!(out, expected);
    let text = |request| {
        let mut out = Vec::new();
        session(Statements::Text, Transaction::Autocommit).encode(&request, &mut out);
        assert_eq!(out.len(), 1 + u32::from_be_bytes([out[1], out[2], out[3], out[4]]) as usize);
        String::from_utf8(out[5..].to_vec()).expect("text")
    };
    let assigned = text(request(1, 10, Action::Assign(u64::MAX - 1)));
    assert_eq!(assigned, "UPDATE t2 SET counter = -2 WHERE id = 10\0");
    let smallest = text(request(0, 0, Action::Assign(1 << 63)));
    assert_eq!(smallest, "UPDATE t1 SET counter = -9223372036854775808 WHERE id = 0\0");
    assert_eq!(
        text(request(0, 123, Action::Increment)),
        "UPDATE t1 SET counter = counter + 1 WHERE id = 123\0"
    );
}

/// Answers become outcomes, among messages that come at any time.
#[test]
fn answers_become_outcomes() {
    let mut session = session(Statements::Prepared, Transaction::Autocommit);
    let parts = [READ, NOTICE, UPDATED, SETTING_CHANGED, UPDATED_NONE, READ_NONE, READ_TEXT];
    for _ in 0..5 {
        session.encode(&request(0, 7, Action::Read), &mut Vec::new());
    }
    let (outcomes, out, broken) = take(&mut session, &bytes(&parts.concat()), &[]);
    assert_eq!((out.len(), broken), (0, None));
    assert_eq!(outcomes[..2], [Outcome::Acknowledged; 2]);
    assert_eq!(class_of(outcomes[2]), Some(FailureClass::NoSuchRow));
    assert_eq!(class_of(outcomes[3]), Some(FailureClass::NoSuchRow));
    assert_eq!(outcomes[4..], [Outcome::Acknowledged]);
    // What the server says when it ends the connection is why it is broken.
    let broken = take(&mut session, &bytes(SHUT_DOWN), &[]).2.expect("is broken");
    assert!(broken.message.contains("administrator command"), "{broken}");
    assert_eq!(broken.code, super::super::message::number_of(b"57P01"));
    let unasked = take(&mut session, &bytes(UPDATED), &[]).2.expect("is broken");
    assert!(unasked.message.contains("not made"));
}

/// A transaction's statements follow each other; one that fails is rolled back before the request ends.
#[test]
fn transactions_go_step_by_step() {
    let mut session = session(Statements::Text, Transaction::BeginCommit);
    let mut out = Vec::new();
    session.encode(&request(0, 7, Action::Assign(3)), &mut out);
    session.encode(&request(0, 8, Action::Increment), &mut out);
    assert_eq!(out, b"Q\0\0\0\x0aBEGIN\0", "the second request waits for the first one's end");
    let mut steps = Vec::new();
    for answer in
        [BEGUN, UPDATED_IN_TRANSACTION, COMMITTED, BEGUN, ERROR_IN_TRANSACTION, ROLLED_BACK]
    {
        let (outcomes, out, broken) = take(&mut session, &bytes(answer), &[]);
        assert_eq!(broken, None);
        let sent = String::from_utf8(out.get(5..).unwrap_or(b"\0").to_vec()).expect("text");
        steps.push((sent.trim_end_matches('\0').to_owned(), outcomes));
    }
    let sent: Vec<&str> = steps.iter().map(|(sent, _)| sent.as_str()).collect();
    let statements = ["UPDATE t1 SET counter = 3 WHERE id = 7", "COMMIT", "BEGIN"];
    assert_eq!(sent[..3], statements);
    assert_eq!(sent[3..], ["UPDATE t1 SET counter = counter + 1 WHERE id = 8", "ROLLBACK", ""]);
    let ends: Vec<Outcome> = steps.into_iter().flat_map(|(_, outcomes)| outcomes).collect();
    let refused =
        Failure { class: FailureClass::Other, code: super::super::message::number_of(b"22003") };
    assert_eq!(ends, [Outcome::Acknowledged, Outcome::Refused(refused)]);
}

proptest! {
    /// However the stream is cut, the same comes out of it.
    #[test]
    fn pieces_make_no_difference(
        mut cuts in prop::collection::vec(0usize..520, 0..40),
        is_transaction: bool,
    ) {
        let parts: &[&str] = match is_transaction {
            false => &[READ, NOTICE, UPDATED, SETTING_CHANGED, UPDATED_NONE, READ_TEXT, SHUT_DOWN],
            true => &[BEGUN, NOTICE, UPDATED_IN_TRANSACTION, COMMITTED, BEGUN, SETTING_CHANGED,
                ERROR_IN_TRANSACTION, ROLLED_BACK, SHUT_DOWN],
        };
        let input = bytes(&parts.concat());
        cuts.sort_unstable();
        cuts.retain(|&cut| cut < input.len());
        let outcomes_with = |cuts: &[usize]| {
            let transaction =
                if is_transaction { Transaction::BeginCommit } else { Transaction::Autocommit };
            let mut session = session(Statements::Prepared, transaction);
            for row in 0..4 {
                session.encode(&request(0, row, Action::Increment), &mut Vec::new());
            }
            take(&mut session, &input, cuts)
        };
        let whole = outcomes_with(&[]);
        prop_assert_eq!(whole.0.len(), if is_transaction { 2 } else { 4 });
        prop_assert_eq!(outcomes_with(&cuts), whole);
    }

    /// No bytes make the session panic, go round in circles, take more than there is, or end more than was made.
    #[test]
    fn any_bytes_are_survived(
        junk in prop::collection::vec(any::<u8>(), 0..200),
        is_transaction: bool,
        at in 0usize..400,
        byte: u8,
    ) {
        let mut damaged = bytes(&[READ, UPDATED, READ_TEXT, ERROR_IN_TRANSACTION].concat());
        let place = at % damaged.len();
        damaged[place] = byte;
        for input in [junk, damaged] {
            let transaction =
                if is_transaction { Transaction::BeginCommit } else { Transaction::Autocommit };
            let mut session = session(Statements::Prepared, transaction);
            session.encode(&request(0, 1, Action::Read), &mut Vec::new());
            let (mut ended, mut out) = (0, Vec::new());
            if let Ok(used) = session.decode(&input, &mut out, &mut |_| ended += 1) {
                prop_assert!(used <= input.len());
            }
            prop_assert!(ended <= 1);
        }
    }
}
