//! On a server that the user names, `--drop` removes dbdyno's own database and no other, and a database of its name that
//! somebody else made is refused, be it empty.

mod common;

use common::host::{Host, ONE_CELL, Turn, Up};
use dbdyno_load::driver::{Driver, mysql::Mysql, postgres::Postgres};
use std::fs;

/// A server of one family, and how it is asked whether it has a database named dbdyno.
struct Family {
    engine: &'static str,
    scheme: &'static str,
    count_own: &'static str,
}

/// A user's server and the user's connection to a database of theirs, with something in it.
struct Shop<D> {
    turn: Turn,
    up: Up,
    family: Family,
    users: D,
}

impl<D: Driver> Shop<D> {
    fn open(family: Family) -> Shop<D> {
        let turn = Turn::with(ONE_CELL);
        let up = Up::start(&turn, family.engine, "");
        let first: D = up.sql("dbdyno");
        first.statement("CREATE DATABASE shop").expect("makes");
        drop(first);
        let users: D = up.sql("shop");
        users.statement("CREATE TABLE precious AS SELECT 42 AS value").expect("makes");
        users.statement("DROP DATABASE dbdyno").expect("drops what `engines up` made");
        Shop { turn, up, family, users }
    }

    fn number(&self, sql: &str) -> Option<u64> {
        self.users.statement(sql).expect("answers")
    }

    /// How many databases are dbdyno's by name: none or one.
    fn own(&self) -> u64 {
        self.number(self.family.count_own).expect("a number")
    }

    fn run(&self, more: &str, code: u8) -> String {
        let user = self.up.said["user"].split(',').next().expect("a user");
        let (scheme, port) = (self.family.scheme, self.up.port());
        let engine = format!("mine=url:{scheme}://{user}@127.0.0.1:{port}/");
        let ended = self.turn.run(&format!("run ./tiny.toml --quiet --engine {engine} {more}"));
        let ended = ended.expect(code, more);
        let run = self.turn.place.only_run();
        fs::remove_dir_all(self.turn.place.results().join(run)).expect("removes");
        ended.stderr
    }

    /// What is the user's own is as it was made.
    fn close(self) {
        assert_eq!(self.number("SELECT value FROM precious"), Some(42));
        let Shop { turn, up, users, .. } = self;
        drop(users);
        up.down(&turn);
    }
}

fn drop_leaves_the_users_databases<D: Driver>(family: Family) {
    let shop = Shop::<D>::open(family);
    let before = Host::now(&shop.turn.place.path());
    assert_eq!(shop.own(), 0);
    shop.run("", 0);
    assert_eq!(shop.own(), 1, "without --drop it stays");
    shop.run("--drop", 0);
    assert_eq!(shop.own(), 0, "with --drop it goes");
    shop.run("--drop", 0);
    assert_eq!(shop.own(), 0, "and again, where the same run made it");
    before.assert_is_as_before(&shop.turn);
    shop.close();
}

fn an_empty_database_is_somebodys<D: Driver>(family: Family) {
    let shop = Shop::<D>::open(family);
    shop.number("CREATE DATABASE dbdyno");
    // Twice: had the first one taken it over, the second one would be let in.
    for more in ["", "--drop"] {
        let said = shop.run(more, 11);
        let port = shop.up.port().to_string();
        for words in
            [&port, "a database \"dbdyno\" that dbdyno did not make", "drop it yourself", "empty"]
        {
            assert!(said.contains(words), "it should say {words}: {said}");
        }
        assert_eq!(shop.own(), 1, "somebody's database was dropped");
    }
    shop.number("DROP DATABASE dbdyno");
    shop.run("--drop", 0);
    assert_eq!(shop.own(), 0);
    shop.close();
}

const POSTGRES: Family = Family {
    engine: "postgres-18",
    scheme: "postgres",
    count_own: "SELECT count(*) FROM pg_database WHERE datname = 'dbdyno'",
};

const MARIADB: Family = Family {
    engine: "mariadb-10.11",
    scheme: "mysql",
    count_own: "SELECT count(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'dbdyno'",
};

/// `--drop` removes the database dbdyno after the run, and a user's database beside it is as it was.
#[test]
fn drop_removes_the_database_of_dbdyno_and_no_other() {
    drop_leaves_the_users_databases::<Postgres>(POSTGRES);
    drop_leaves_the_users_databases::<Mysql>(MARIADB);
}

/// An empty database named dbdyno that dbdyno did not make is not taken over, nor dropped.
#[test]
fn an_empty_database_of_somebody_else_is_refused() {
    an_empty_database_is_somebodys::<Postgres>(POSTGRES);
    an_empty_database_is_somebodys::<Mysql>(MARIADB);
}
