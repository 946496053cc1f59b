//! What only a server of the MySQL family can show: logins over every way, encryption, rows of every size, locks that
//! are not had, connections that end, and many requests under way at a time.

mod support;

use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Client, Driver, DriverError, OpenOptions, mysql::Mysql};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{RoleShape, Shape, Subject, Until, measure};
use dbdyno_load::outcome::{Failure, FailureClass, Outcome};
use dbdyno_load::server::{ClientOptions, EventQueue, Server, Statements, Tls, Transaction};
use dbdyno_load::wire::mysql::control::Control;
use dbdyno_workload::rng::Seed;
use dbdyno_workload::{Action, Request, RowId};
use std::fs;
use std::path::Path;
use support::mysql_server::{MysqlServer, options_of, user};
use support::{Counting, loaded};

const SECRET: &str = r#"it's a "\secret\", longer than 32 bytes: zzzzzzzzzzzz"#;

fn open(server: Server) -> Result<Mysql, DriverError> {
    Mysql::open(&options_of(server, ClientOptions::default()))
}

fn refusal(server: Server) -> String {
    open(server).err().expect("is refused").to_string()
}

fn request(row: u64, action: Action) -> Request {
    Request { class: 0, table: 0, row, action }
}

/// The administrator of a server, with its version.
fn administrator(server: &MysqlServer) -> (Control, String) {
    // Opening makes the database.
    drop(open(server.login()).expect("opens"));
    let mut control = Control::open(&server.login(), true).expect("logs in");
    control.wait_without_limit().expect("is patient");
    let version = control.query(b"SELECT VERSION()").expect("answers").rows[0][0].clone();
    (control, String::from_utf8_lossy(&version.expect("has a version")).into_owned())
}

/// Makes users for every login method that the server has: name and password.
fn make_users(control: &mut Control, version: &str) -> Vec<(String, &'static str)> {
    let is_mysql = |major: &str| !version.contains("MariaDB") && version.starts_with(major);
    let methods: &[&str] = match () {
        () if is_mysql("9.") => &["caching_sha2_password"],
        () if is_mysql("8.") => &["caching_sha2_password", "mysql_native_password"],
        () => &["mysql_native_password"],
    };
    // Old servers come with nameless users, who would be taken for ours.
    for host in ["localhost", "127.0.0.1"] {
        let _ = control.query(format!("DROP USER ''@'{host}'").as_bytes());
    }
    let mut users = Vec::new();
    for (number, method) in methods.iter().enumerate() {
        for (kind, password) in [("empty", ""), ("secret", SECRET)] {
            let name = format!("{kind}{number}");
            let literal = password.replace('\\', "\\\\").replace('\'', "''");
            let identified = if is_mysql("8.") || is_mysql("9.") {
                format!("IDENTIFIED WITH {method} BY '{literal}'")
            } else {
                format!("IDENTIFIED BY '{literal}'")
            };
            for host in ["localhost", "%"] {
                let user = format!("'{name}'@'{host}'");
                let create = format!("CREATE USER {user} {identified}");
                control.query(create.as_bytes()).expect("makes a user");
                let grant = format!("GRANT ALL ON *.* TO {user}");
                control.query(grant.as_bytes()).expect("may do everything");
            }
            users.push((name, password));
        }
    }
    users
}

/// Logs in as each user; the first time the server cannot remember the password.
fn each_may_log_in(control: &mut Control, users: &[(String, &str)], login: &Server) {
    for (name, password) in users {
        control.query(b"FLUSH PRIVILEGES").expect("forgets passwords");
        for attempt in ["first", "second"] {
            let driver = open(user(login.clone(), name, password)).unwrap_or_else(|error| {
                panic!("{name} at {} the {attempt} time: {error}", login.address)
            });
            driver.connect(0).expect("connects");
            assert!(!driver.receipt().expect("answers").settings.is_empty());
        }
        let wrong = refusal(user(login.clone(), name, "open sesame"));
        assert!(wrong.contains("Access denied") && wrong.contains("1045"), "{wrong}");
        assert!(!wrong.contains("sesame"), "{wrong}");
    }
}

/// Every login method, with and without a password, over a socket of this host and over the network.
#[test]
fn users_log_in() {
    let server = MysqlServer::start(&[]);
    let (mut control, version) = administrator(&server);
    let users = make_users(&mut control, &version);
    for address in [server.unix(), server.tcp()] {
        each_may_log_in(&mut control, &users, &Server { address, ..server.login() });
    }
}

/// Writes a certificate for this host and its key; returns the options that give them to a server.
fn certify(directory: &Path) -> [String; 2] {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("makes a certificate");
    let (certificate, key) = (directory.join("server.pem"), directory.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("writes");
    fs::write(&key, made.signing_key.serialize_pem()).expect("writes");
    [format!("--ssl-cert={}", certificate.display()), format!("--ssl-key={}", key.display())]
}

/// Every login method over an encrypted connection; a certificate that is not trusted is refused.
#[test]
fn connections_are_encrypted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = certify(directory.path());
    let trusted = Some(directory.path().join("server.pem"));
    let server = MysqlServer::start_in(directory, &[&options[0], &options[1]]);
    let (mut control, version) = administrator(&server);
    let users = make_users(&mut control, &version);
    let encrypted =
        Server { address: server.tcp(), tls: Tls::Verified { trusted }, ..server.login() };
    each_may_log_in(&mut control, &users, &encrypted);
    let driver = open(user(encrypted.clone(), &users[0].0, users[0].1)).expect("opens");
    driver.create_tables(1).expect("makes a table");
    driver.insert_rows(0, 1..=1, &|_, filler| filler.resize(60_000, b'x')).expect("inserts");
    let mut client = driver.connect(1).expect("connects");
    for action in [Action::Read, Action::Increment, Action::Read] {
        assert_eq!(client.execute(&request(1, action)), Outcome::Acknowledged);
    }
    let client = ClientOptions { threads: 2, pipeline: 4, ..ClientOptions::default() };
    let database = "encrypted".to_owned();
    let login = Server { database, ..user(encrypted.clone(), &users[0].0, users[0].1) };
    counts_when_measured(&options_of(login, client));
    let untrusted = Server { tls: Tls::Verified { trusted: None }, ..encrypted };
    let refused = refusal(user(untrusted, &users[0].0, users[0].1));
    assert!(refused.contains("encrypt") && refused.contains("certificate"), "{refused}");
}

/// A server without TLS is not spoken to in clear by one who wants it encrypted.
#[test]
fn a_server_may_refuse_encryption() {
    let server = MysqlServer::start(&["--skip-ssl"]);
    let tls = Tls::Verified { trusted: None };
    let refused = refusal(Server { address: server.tcp(), tls, ..server.login() });
    assert!(refused.contains("the server refuses TLS"), "{refused}");
}

/// Rows of every size are loaded in statements that old servers take, and read whole.
#[test]
fn rows_of_every_size_are_kept() {
    let server = MysqlServer::start(&["--max-allowed-packet=1M"]);
    for (number, bytes) in [0, 1, 8000, 8001, 65_535].into_iter().enumerate() {
        let database = format!("size{number}");
        let options = OpenOptions {
            server: Some(Server { database, ..server.login() }),
            ..server.options(ClientOptions::default())
        };
        Mysql::create_database(&options).expect("makes a database");
        let driver = Mysql::open(&options).expect("opens");
        driver.create_tables(1).expect("makes a table");
        let odd = |row: u64, at: usize| (row as usize * 31 + at * 7) as u8;
        let fill = |row: u64| (0..bytes).map(|at| odd(row, at)).collect::<Vec<u8>>();
        driver.insert_rows(0, 1..=60, &|id, filler| *filler = fill(id.row)).expect("inserts");
        let mut client = driver.connect(1).expect("connects");
        for row in [1, 30, 60] {
            assert_eq!(client.execute(&request(row, Action::Read)), Outcome::Acknowledged);
            let kept = driver.row(0, row).expect("reads").expect("is there");
            assert!(kept.filler == fill(row), "{bytes} bytes of row {row}");
        }
    }
}

fn refused_as(class: FailureClass, code: i32) -> Outcome {
    Outcome::Refused(Failure { class, code })
}

/// A lock that is not had in time and a counter that is full refuse a request and leave nothing behind.
#[test]
fn a_refused_request_did_nothing() {
    let server = MysqlServer::start(&["--innodb-lock-wait-timeout=1"]);
    for transaction in [Transaction::Autocommit, Transaction::BeginCommit] {
        let client = ClientOptions { transaction, ..ClientOptions::default() };
        let driver = loaded::<Mysql>(&server.options(client));
        let mut client = driver.connect(1).expect("connects");
        let mut other = Control::open(&server.login(), true).expect("logs in");
        other.query(b"BEGIN").expect("begins");
        other.query(b"UPDATE t1 SET counter = 0 WHERE id = 1").expect("locks");
        let increment = request(1, Action::Increment);
        assert_eq!(client.execute(&increment), refused_as(FailureClass::LockTimeout, 1205));
        other.query(b"COMMIT").expect("commits");
        assert_eq!(client.execute(&request(1, Action::Assign(u64::MAX))), Outcome::Acknowledged);
        // Setting the same value again matches the row, although it changes nothing.
        assert_eq!(client.execute(&request(1, Action::Assign(u64::MAX))), Outcome::Acknowledged);
        assert_eq!(client.execute(&increment), refused_as(FailureClass::Other, 1690));
        assert_eq!(driver.counter_sum(0), Ok(u64::MAX));
        assert_eq!(client.execute(&request(1, Action::Assign(0))), Outcome::Acknowledged);
        assert_eq!(client.execute(&increment), Outcome::Acknowledged);
        let missing = driver.age_rows(&[RowId { table: 0, row: 99 }], 1).expect_err("is refused");
        assert!(missing.to_string().contains("row 99"), "{missing}");
        assert_eq!(driver.age_progress(), Ok(0));
    }
}

/// What is under way when a connection ends is unknown; the next request finds a new connection, or no server.
#[test]
fn connections_end() {
    let mut server = MysqlServer::start(&[]);
    let driver = loaded::<Mysql>(&server.options(ClientOptions::default()));
    let mut client = driver.connect(1).expect("connects");
    let increment = request(1, Action::Increment);
    assert_eq!(client.execute(&increment), Outcome::Acknowledged);
    let mut control = Control::open(&server.login(), true).expect("logs in");
    let others = control
        .query(b"SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()")
        .expect("lists connections");
    for other in others.rows {
        let id = String::from_utf8(other[0].clone().expect("has a number")).expect("is a number");
        // Connections of the server's own do not end.
        let _ = control.query(format!("KILL {id}").as_bytes());
    }
    let lost = |outcome| match outcome {
        Outcome::Unknown(failure) => failure.class == FailureClass::LostConnection,
        _ => false,
    };
    assert!(lost(client.execute(&increment)));
    assert_eq!(client.execute(&increment), Outcome::Acknowledged);
    assert_eq!(client.counters().reconnects, 1);
    server.child().kill().expect("ends");
    assert!(lost(client.execute(&increment)));
    assert!(matches!(client.execute(&increment), Outcome::Refused(_)));
    let refused = refusal(server.login());
    assert!(refused.contains("connect") && refused.contains("socket"), "{refused}");
}

/// Many clients of few threads, each with several requests under way: every acknowledged update is there, once.
#[test]
fn many_requests_are_under_way() {
    let server = MysqlServer::start(&[]);
    for (statements, transaction) in [
        (Statements::Prepared, Transaction::Autocommit),
        (Statements::Text, Transaction::Autocommit),
        (Statements::Prepared, Transaction::BeginCommit),
    ] {
        for event_queue in [EventQueue::Epoll, EventQueue::IoUring] {
            let client =
                ClientOptions { threads: 2, pipeline: 4, statements, transaction, event_queue };
            counts_when_measured(&server.options(client));
        }
    }
}

/// Measures increments of a row by several clients and holds them against the counters.
fn counts_when_measured(options: &OpenOptions) {
    let driver = loaded::<Mysql>(options);
    let before = driver.counter_sum(0).expect("adds up");
    let shape = Shape {
        roles: vec![RoleShape {
            clients: 6,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 0,
        until: Until::Time,
        measured_ns: SECOND / 2,
        drain_limit_ns: SECOND,
        retries_max: u32::MAX,
    };
    let measured = measure(&driver, &shape, |_| Counting::default(), &mut Totals::default());
    let streams = measured.expect("clients start").streams;
    let acknowledged: u64 = streams.iter().map(|stream| stream.acknowledged).sum();
    assert!(acknowledged > 0 && streams.iter().all(|stream| stream.unknown == 0));
    assert_eq!(driver.counter_sum(0), Ok(before + acknowledged), "{:?}", options.client);
}

/// A storage engine that the server does not have, and a name that is none, are refused by name.
#[test]
fn wrong_storage_engines_are_named() {
    let server = MysqlServer::start(&[]);
    for engine in ["tokudb", "innodb; DROP TABLE t1"] {
        let mut options = server.options(ClientOptions::default());
        options.settings.insert("table_engine".to_owned(), engine.to_owned());
        let refused = Mysql::open(&options).err().expect("is refused").to_string();
        assert!(refused.contains(engine), "{refused}");
    }
}
