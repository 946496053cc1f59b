//! What a request costs the client: CPU time per operation of dbdyno's drivers beside a loop that does the least
//! possible and beside sysbench and pgbench, on the same PostgreSQL and MariaDB, one thread or process each; and beside
//! go-ycsb (`DBDYNO_TEST_GO_YCSB` or in the path) on the same FerretDB.
//! `cargo bench -p dbdyno-load --bench wire`; METHODOLOGY.md, "Cost of the client", says how to read it.
//!
//! Programs take turns in every round, so that a host that changes its speed changes all.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod client;
mod peer;
mod server;
mod table;

use dbdyno_load::server::EventQueue;
use peer::{Program, Task, Work};
use server::{Kind, Server};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::Cell;

/// CPU time over which `--thorough` takes the user part of dbdyno and the bare loops: at a hundred samples a second,
/// 2,000 samples.
const THOROUGH_CPU_S: f64 = 20.0;
/// Rounds after which `--thorough` stops asking for more.
const THOROUGH_ROUNDS: usize = 100;
const USAGE: &str = "usage: cargo bench -p dbdyno-load --bench wire -- [--seconds N] [--rounds N] [--thorough] \
     [--clients 1,8,64,256] [--only postgres|mysql|mongodb] [--postgres-bin DIR] [--mysqld PATH] [--ferretdb PATH]";

struct Arguments {
    seconds: u64,
    rounds: usize,
    is_thorough: bool,
    clients: Vec<u32>,
    kinds: Vec<Kind>,
    postgres: Option<PathBuf>,
    mysqld: Option<PathBuf>,
    ferretdb: Option<PathBuf>,
}

impl Arguments {
    fn parse(words: Vec<String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            seconds: 5,
            rounds: 3,
            is_thorough: false,
            clients: vec![1, 8, 64, 256],
            kinds: vec![Kind::Postgres, Kind::Mysql, Kind::Mongodb],
            postgres: std::env::var_os("DBDYNO_TEST_POSTGRES").map(PathBuf::from),
            mysqld: std::env::var_os("DBDYNO_TEST_MYSQL").map(PathBuf::from),
            ferretdb: std::env::var_os("DBDYNO_TEST_FERRETDB").map(PathBuf::from),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value\n{USAGE}"));
            match word.as_str() {
                // Cargo adds this one.
                "--bench" => {}
                "--thorough" => arguments.is_thorough = true,
                "--seconds" => arguments.seconds = number(&value()?)?,
                "--rounds" => arguments.rounds = number(&value()?)? as usize,
                "--clients" => {
                    let list = value()?;
                    let counts = list.split(',').map(|count| number(count).map(|n| n as u32));
                    arguments.clients = counts.collect::<Result<_, _>>()?;
                }
                "--only" => arguments.kinds = vec![kind(&value()?)?],
                "--postgres-bin" => arguments.postgres = Some(value()?.into()),
                "--mysqld" => arguments.mysqld = Some(value()?.into()),
                "--ferretdb" => arguments.ferretdb = Some(value()?.into()),
                other => return Err(format!("{other} is not known\n{USAGE}")),
            }
        }
        Ok(arguments)
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err(format!("\"{text}\" is not a number from 1\n{USAGE}")),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "postgres" => Ok(Kind::Postgres),
        "mysql" => Ok(Kind::Mysql),
        "mongodb" => Ok(Kind::Mongodb),
        other => Err(format!("there is no server \"{other}\"\n{USAGE}")),
    }
}

/// The newest PostgreSQL where Debian puts it.
fn installed_postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest =
        versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).max()?;
    Some(PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin")))
}

fn start(kind: Kind, arguments: &Arguments) -> Result<Server, String> {
    match kind {
        Kind::Postgres => {
            let programs = arguments.postgres.clone().or_else(installed_postgres);
            let programs =
                programs.ok_or("no PostgreSQL is installed; --postgres-bin names one")?;
            Server::start_postgres(&programs)
        }
        Kind::Mysql => {
            let installed = Path::new("/usr/sbin/mariadbd");
            Server::start_mysql(arguments.mysqld.as_deref().unwrap_or(installed))
        }
        Kind::Mongodb => {
            let missing = "no FerretDB 1 is named; --ferretdb names one";
            Server::start_mongodb(arguments.ferretdb.as_deref().ok_or(missing)?)
        }
    }
}

/// All rounds of all programs with one number of clients, in turn.
fn measure(
    server: &Server,
    task: Task,
    arguments: &Arguments,
    ready: impl Fn(Program) -> Result<(), String>,
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Program::of(server.kind)
        .into_iter()
        .map(|program| Cell { program, rounds: ready(program).map(|()| Vec::new()) })
        .collect();
    for round in 0.. {
        let must_be_sure = |cell: &Cell| {
            ![Program::Sysbench, Program::Pgbench, Program::GoYcsb].contains(&cell.program)
                && cell.rounds.is_ok()
                && cell.cpu_s() < THOROUGH_CPU_S
        };
        let needs_more =
            arguments.is_thorough && round < THOROUGH_ROUNDS && cells.iter().any(must_be_sure);
        if round >= arguments.rounds && !needs_more {
            break;
        }
        for cell in &mut cells {
            let Ok(rounds) = &mut cell.rounds else { continue };
            match cell.program.run(server, task) {
                Ok(cost) => rounds.push(cost),
                Err(reason) => cell.rounds = Err(reason),
            }
        }
    }
    cells
}

fn compare(kind: Kind, arguments: &Arguments) -> Result<(), String> {
    let server = start(kind, arguments)?;
    peer::load(&server)?;
    // What a program needs beside the server and dbdyno's table.
    let special = match kind {
        Kind::Postgres | Kind::Mysql => peer::compile(kind),
        Kind::Mongodb => peer::load_go_ycsb(&server),
    };
    let ready = |program| match program {
        Program::BareEpoll | Program::BareUring | Program::GoYcsb => special.clone(),
        Program::Sysbench | Program::Pgbench | Program::Dbdyno | Program::DbdynoUring => Ok(()),
    };
    for &work in Work::of(kind) {
        table::print_head(&format!(
            "{kind}: {}; {}s by primary key of {} rows through a unix socket, {} s per round",
            server.version,
            work.name(),
            kind.rows(),
            arguments.seconds
        ));
        for &clients in &arguments.clients {
            let task = Task { clients, length_s: arguments.seconds, work };
            table::print_cells(clients, &measure(&server, task, arguments, ready));
        }
    }
    Ok(())
}

/// What a child that is dbdyno's client does: kind, socket, clients, seconds, event queue, work.
fn client_child(words: &[String]) -> Result<(), String> {
    let [kind_name, socket, clients, seconds, queue, work] = words else {
        return Err(USAGE.to_owned());
    };
    let queue = match queue.as_str() {
        "epoll" => EventQueue::Epoll,
        _ => EventQueue::IoUring,
    };
    let work = if work == Work::Update.name() { Work::Update } else { Work::Read };
    let task = Task { clients: number(clients)? as u32, length_s: number(seconds)?, work };
    let cost = client::run(kind(kind_name)?, Path::new(socket), task, queue);
    println!("{}", cost.map_err(|error| error.to_string())?.line());
    Ok(())
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--client") {
        return client_child(&words[1..]);
    }
    let arguments = Arguments::parse(words)?;
    let mut failed = Vec::new();
    for &kind in &arguments.kinds {
        if let Err(reason) = compare(kind, &arguments) {
            println!("\n{kind}: not measured: {reason}");
            failed.push(kind.name());
        }
    }
    println!(
        "\ncpu us/op is the client's CPU time, user and system; user is taken over all rounds together. The bare loops \
         and dbdyno\ncount from the first request on, the others from their start, so connections are in their numbers."
    );
    if failed.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failed.join(", "))) }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
