//! Sessions against bytes that real servers sent (MariaDB 10.11.19), and against bytes that none would send.

use super::*;
use proptest::prelude::*;

const COLUMNS: &str = "01000001022b000002036465660363617002743102743107636f756e74657207636f756e7465720c3f00140000\
    000821100000002900000303646566036361700274310274310666696c6c65720666696c6c65720c3f00401f0000fd81100000000500\
    0004fe00000200";
const READ: &str = "180000050000feffffffffffffff0d66696c6c6572206f6620302f3705000006fe00000200";
const READ_AS_TEXT: &str = "230000051431383434363734343037333730393535313631350d66696c6c6572206f6620302f37050000\
    06fe00000200";
const READ_NOTHING: &str = "05000005fe00000200";
const MATCHED: &str = "300000010001000200000028526f7773206d6174636865643a203120204368616e6765643a203020205761\
    726e696e67733a2030";
const MATCHED_NOTHING: &str = "300000010000000200000028526f7773206d6174636865643a203020204368616e6765643a2030202\
    05761726e696e67733a2030";
const OUT_OF_RANGE: &str = "4c000001ff9a06233232303033424947494e5420554e5349474e45442076616c7565206973206f7574206f\
    662072616e676520696e202760636170602e607431602e60636f756e74657260202b203127";
const BEGUN: &str = "0700000100000003000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|digit| (digit as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// An error as servers send it.
fn error(sequence: u8, code: u16) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write_packet(&mut out, sequence, |out| {
        out.push(packet::ERROR);
        out.extend_from_slice(&code.to_le_bytes());
        out.extend_from_slice(b"#HY000in the server's words");
    });
    out
}

fn request(action: Action) -> Request {
    Request { class: 0, table: 0, row: 7, action }
}

fn session(transaction: Transaction) -> MysqlSession {
    let statements = TableStatements { read: 1, increment: 2, assign: 3 };
    MysqlSession::new(Speech::Prepared(vec![statements]), transaction, 8)
}

/// A session with these requests under way.
fn asked(transaction: Transaction, actions: &[Action]) -> MysqlSession {
    let mut session = session(transaction);
    actions.iter().for_each(|&action| session.encode(&request(action), &mut Vec::new()));
    session
}

/// What a session makes of bytes that come in these pieces.
fn outcomes(mut session: MysqlSession, pieces: &[&[u8]]) -> Result<Vec<Outcome>, Broken> {
    let (mut ended, mut partial) = (Vec::new(), Vec::new());
    for piece in pieces {
        partial.extend_from_slice(piece);
        let done = session.decode(&partial, &mut Vec::new(), &mut |outcome| ended.push(outcome))?;
        partial.drain(..done);
    }
    Ok(ended)
}

fn refused_as(class: FailureClass, code: i32) -> Outcome {
    Outcome::Refused(Failure { class, code })
}

/// Executions have the form that the protocol prescribes, byte for byte.
#[test]
fn executions_have_their_form() {
    let mut out = Vec::new();
    let mut session = session(Transaction::Autocommit);
    session.encode(&request(Action::Increment), &mut out);
    assert_eq!(out, bytes("16000000 17 02000000 00 01000000 00 01 0880 0700000000000000"));
    out.clear();
    session.encode(&request(Action::Assign(u64::MAX)), &mut out);
    let expected =
        "20000000 17 03000000 00 01000000 00 01 0880 0880 ffffffffffffffff 0700000000000000";
    assert_eq!(out, bytes(expected));
}

/// Text is a query with the table's name and digits.
#[test]
fn text_is_a_query() {
    let mut session = MysqlSession::new(Speech::Text, Transaction::Autocommit, 1);
    for (action, text) in [
        (Action::Read, "SELECT counter, filler FROM t1 WHERE id = 7"),
        (Action::Increment, "UPDATE t1 SET counter = counter + 1 WHERE id = 7"),
        (Action::Assign(u64::MAX), "UPDATE t1 SET counter = 18446744073709551615 WHERE id = 7"),
    ] {
        let mut out = Vec::new();
        session.encode(&request(action), &mut out);
        assert_eq!(
            out,
            [&[text.len() as u8 + 1, 0, 0, 0, packet::QUERY], text.as_bytes()].concat()
        );
    }
}

/// Answers of a real server to requests that were under way together.
fn stream() -> (Vec<Action>, Vec<u8>, Vec<Outcome>) {
    let answers = [
        (Action::Read, [COLUMNS, READ].concat(), Outcome::Acknowledged),
        (Action::Increment, MATCHED.to_owned(), Outcome::Acknowledged),
        (Action::Read, [COLUMNS, READ_NOTHING].concat(), refused_as(FailureClass::NoSuchRow, 0)),
        (Action::Assign(1), MATCHED_NOTHING.to_owned(), refused_as(FailureClass::NoSuchRow, 0)),
        (Action::Increment, OUT_OF_RANGE.to_owned(), refused_as(FailureClass::Other, 1690)),
        (Action::Read, [COLUMNS, READ_AS_TEXT].concat(), Outcome::Acknowledged),
    ];
    let actions = answers.iter().map(|answer| answer.0).collect();
    let stream = answers.iter().flat_map(|answer| bytes(&answer.1)).collect();
    (actions, stream, answers.iter().map(|answer| answer.2).collect())
}

/// What a real server answered is understood.
#[test]
fn answers_become_outcomes() {
    let (actions, stream, expected) = stream();
    let session = asked(Transaction::Autocommit, &actions);
    assert_eq!(outcomes(session, &[&stream]), Ok(expected));
}

/// Errors have the class that engines are compared by; those that end a connection end the session.
#[test]
fn errors_have_their_class() {
    for (code, class) in [
        (1205, FailureClass::LockTimeout),
        (1213, FailureClass::Deadlock),
        (1020, FailureClass::Serialization),
        (1226, FailureClass::Overload),
        (1114, FailureClass::Full),
        (1021, FailureClass::DiskFull),
        (1064, FailureClass::Other),
    ] {
        let session = asked(Transaction::Autocommit, &[Action::Increment]);
        let expected = Ok(vec![refused_as(class, i32::from(code))]);
        assert_eq!(outcomes(session, &[&error(1, code)]), expected);
    }
    for code in [1053, 1927, 2013] {
        let session = asked(Transaction::Autocommit, &[Action::Increment]);
        let broken = outcomes(session, &[&error(1, code)]).expect_err("is the end");
        assert_eq!(broken.code, i32::from(code));
        assert!(broken.message.contains("in the server's words"), "{broken}");
        assert_eq!(class_of(code), FailureClass::LostConnection);
    }
    let session = asked(Transaction::Autocommit, &[Action::Increment]);
    let unknown = Outcome::Unknown(Failure { class: FailureClass::Other, code: 1180 });
    assert_eq!(outcomes(session, &[&error(1, 1180)]), Ok(vec![unknown]));
}

/// What nobody asked for ends the session, with the server's words if there are some.
#[test]
fn the_unasked_is_the_end() {
    let unasked = outcomes(session(Transaction::Autocommit), &[&error(0, 1053)]);
    assert_eq!(unasked.expect_err("is the end").code, 1053);
    assert!(outcomes(session(Transaction::Autocommit), &[&bytes(MATCHED)]).is_err());
    let wrong_number = asked(Transaction::Autocommit, &[Action::Increment]);
    assert!(outcomes(wrong_number, &[&bytes("07000002 00 0100 0200 0000")]).is_err());
}

/// Gives a transaction one answer after another; returns the commands that it sent and how it ended.
fn transaction(action: Action, answers: &[Vec<u8>]) -> (Vec<String>, Vec<Outcome>) {
    let mut session = MysqlSession::new(Speech::Text, Transaction::BeginCommit, 2);
    let (mut sent, mut ended) = (Vec::new(), Vec::new());
    let mut out = Vec::new();
    session.encode(&request(action), &mut out);
    for answer in answers {
        sent.push(String::from_utf8_lossy(&out[HEADER + 1..]).into_owned());
        out.clear();
        let done = session.decode(answer, &mut out, &mut |outcome| ended.push(outcome));
        assert_eq!(done, Ok(answer.len()));
    }
    assert!(out.is_empty());
    (sent, ended)
}

/// A transaction is begun, done and committed; after a failure it is undone before that is said.
#[test]
fn transactions_end_before_their_request() {
    let (begun, matched) = (bytes(BEGUN), bytes(MATCHED));
    let update = "UPDATE t1 SET counter = counter + 1 WHERE id = 7";
    let whole = transaction(Action::Increment, &[begun.clone(), matched.clone(), begun.clone()]);
    assert_eq!(whole.0, ["BEGIN", update, "COMMIT"]);
    assert_eq!(whole.1, [Outcome::Acknowledged]);
    let failed = transaction(Action::Increment, &[begun.clone(), error(1, 1205), begun.clone()]);
    assert_eq!(failed.0, ["BEGIN", update, "ROLLBACK"]);
    assert_eq!(failed.1, [refused_as(FailureClass::LockTimeout, 1205)]);
    let missing =
        transaction(Action::Increment, &[begun.clone(), bytes(MATCHED_NOTHING), begun.clone()]);
    assert_eq!(missing.1, [refused_as(FailureClass::NoSuchRow, 0)]);
    for (code, outcome) in [
        (1213, refused_as(FailureClass::Deadlock, 1213)),
        (1180, Outcome::Unknown(Failure { class: FailureClass::Other, code: 1180 })),
    ] {
        let answers = [begun.clone(), matched.clone(), error(1, code), begun.clone()];
        let at_commit = transaction(Action::Increment, &answers);
        assert_eq!(at_commit.0, ["BEGIN", update, "COMMIT", "ROLLBACK"]);
        assert_eq!(at_commit.1, [outcome]);
    }
    let not_begun = transaction(Action::Increment, &[error(1, 1226)]);
    assert_eq!(not_begun.1, [refused_as(FailureClass::Overload, 1226)]);
}

/// Transactions on one connection wait for each other.
#[test]
fn transactions_take_turns() {
    let mut session = session(Transaction::BeginCommit);
    let (mut out, mut ended) = (Vec::new(), 0);
    session.encode(&request(Action::Increment), &mut out);
    let begin = out.len();
    session.encode(&request(Action::Increment), &mut out);
    assert_eq!(out.len(), begin);
    for answer in [BEGUN, MATCHED, BEGUN, BEGUN, MATCHED, BEGUN] {
        out.clear();
        session.decode(&bytes(answer), &mut out, &mut |_| ended += 1).expect("is understood");
    }
    assert_eq!((ended, out.len()), (2, 0));
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        Just(Action::Read),
        Just(Action::Increment),
        any::<u64>().prop_map(Action::Assign)
    ];
    prop::collection::vec(action, 0..8)
}

proptest! {
    /// Whatever a server sends, the session says something and does not panic.
    #[test]
    fn any_bytes_are_survived(
        actions in actions(),
        packets in prop::collection::vec((0..8u8, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        in_transactions: bool,
    ) {
        let transaction =
            if in_transactions { Transaction::BeginCommit } else { Transaction::Autocommit };
        let _ = outcomes(asked(transaction, &actions), &[&noise]);
        let mut framed = Vec::new();
        for (sequence, payload) in packets {
            packet::write_packet(&mut framed, sequence, |out| out.extend_from_slice(&payload));
        }
        let _ = outcomes(asked(transaction, &actions), &[&framed, &noise]);
    }

    /// However the network cuts an answer, it means the same.
    #[test]
    fn any_split_means_the_same(mut cuts in prop::collection::vec(0..usize::MAX, 0..40)) {
        let (actions, stream, expected) = stream();
        cuts.iter_mut().for_each(|cut| *cut %= stream.len());
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        prop_assert_eq!(outcomes(asked(Transaction::Autocommit, &actions), &pieces), Ok(expected));
    }
}
