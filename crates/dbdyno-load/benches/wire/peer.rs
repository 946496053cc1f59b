//! The programs that are compared: how each is started, and what it says and costs.

use crate::client::{self, seconds};
use crate::server::{Kind, NAME, ROWS, Server, finish};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How much longer than it should a program may run before it is ended.
const PATIENCE_S: u64 = 30;

/// How often a second it is looked whether a program has ended.
const LOOKS_PER_S: u64 = 20;

/// What one run did and cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub operations: u64,
    pub user_s: f64,
    pub system_s: f64,
    pub wall_s: f64,
}

impl Cost {
    /// CPU time per operation.
    pub fn cpu_us(&self) -> f64 {
        (self.user_s + self.system_s) * 1e6 / self.operations.max(1) as f64
    }

    /// Throughput.
    pub fn per_s(&self) -> f64 {
        self.operations as f64 / self.wall_s
    }

    /// The line that the bare loops and dbdyno's child print.
    pub fn line(&self) -> String {
        format!(
            "operations {} user {:.6} system {:.6} wall {:.6}",
            self.operations, self.user_s, self.system_s, self.wall_s
        )
    }

    fn from_line(text: &str) -> Option<Cost> {
        let line = text.lines().find(|line| line.starts_with("operations "))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<f64>().ok();
        let operations = words.get(1)?.parse().ok()?;
        Some(Cost { operations, user_s: number(3)?, system_s: number(5)?, wall_s: number(7)? })
    }
}

/// What every request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Read,
    Update,
}

impl Work {
    /// What is measured on this server. Updates are compared where the other programs have them too.
    pub fn of(kind: Kind) -> &'static [Work] {
        match kind {
            Kind::Postgres | Kind::Mysql => &[Work::Read],
            Kind::Mongodb => &[Work::Read, Work::Update],
        }
    }

    /// The word that a child is told.
    pub fn name(self) -> &'static str {
        match self {
            Work::Read => "read",
            Work::Update => "update",
        }
    }
}

/// One run of a program.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub clients: u32,
    pub length_s: u64,
    pub work: Work,
}

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    BareEpoll,
    BareUring,
    /// With the benchmark's own script: the statement that all others run, and no work in Lua beside it.
    Sysbench,
    /// With the script that comes with it, `oltp_point_select`, on a table that it has prepared itself.
    SysbenchStock,
    Pgbench,
    GoYcsb,
    Dbdyno,
    DbdynoUring,
}

impl Program {
    /// Those that speak to this server, in the order in which they take turns.
    pub fn of(kind: Kind) -> Vec<Program> {
        let all = [
            Program::BareEpoll,
            Program::BareUring,
            Program::Sysbench,
            Program::SysbenchStock,
            Program::Pgbench,
            Program::GoYcsb,
            Program::Dbdyno,
            Program::DbdynoUring,
        ];
        let speaks = |program: &Program| match (program, kind) {
            (Program::Dbdyno | Program::DbdynoUring, _) => true,
            (Program::GoYcsb, kind) => kind == Kind::Mongodb,
            (Program::Pgbench, kind) => kind == Kind::Postgres,
            (_, kind) => kind != Kind::Mongodb,
        };
        all.into_iter().filter(speaks).collect()
    }

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Program::BareEpoll => "bare epoll",
            Program::BareUring => "bare io_uring",
            Program::Sysbench => "sysbench",
            Program::SysbenchStock => "sysbench stock",
            Program::Pgbench => "pgbench",
            Program::GoYcsb => "go-ycsb",
            Program::Dbdyno => "dbdyno",
            Program::DbdynoUring => "dbdyno uring",
        }
    }

    /// Runs it once.
    pub fn run(self, server: &Server, task: Task) -> Result<Cost, String> {
        let mut command = self.command(server, task)?;
        let length = task.length_s;
        // It knows no length of time, only a number of requests; interrupted, it ends as if that had come.
        let interrupt_s = (self == Program::GoYcsb).then_some(length);
        let ended = run(&mut command, server.directory(), length + PATIENCE_S, interrupt_s)?;
        let unreadable = || format!("it printed something else: {}", last_line(&ended.text));
        if !ended.status.success() {
            return Err(format!("it failed ({}): {}", ended.status, last_line(&ended.text)));
        }
        let label = match self {
            Program::BareEpoll | Program::BareUring | Program::Dbdyno | Program::DbdynoUring => {
                return Cost::from_line(&ended.text).ok_or_else(unreadable);
            }
            Program::Sysbench | Program::SysbenchStock => "total number of events:",
            Program::Pgbench => "number of transactions actually processed:",
            Program::GoYcsb => "Count: ",
        };
        // go-ycsb counts those that its interruption cut off apart, under the same name and a suffix.
        let done = format!("{} ", task.work.name().to_uppercase());
        let is_done = |line: &&str| self != Program::GoYcsb || line.starts_with(&done);
        // The last is the sum where there are several.
        let lines = ended.text.lines().filter(is_done);
        let line = lines.filter_map(|line| line.split_once(label)).next_back();
        let line = line.map(|(_, rest)| rest.split(',').next().unwrap_or(rest));
        let operations = line.and_then(|rest| rest.trim().parse().ok()).ok_or_else(unreadable)?;
        let (user_s, system_s) = (ended.user_s, ended.system_s);
        Ok(Cost { operations, user_s, system_s, wall_s: length as f64 })
    }

    fn command(self, server: &Server, task: Task) -> Result<Command, String> {
        let (clients, length) = (task.clients.to_string(), task.length_s.to_string());
        let mut command;
        match self {
            Program::BareEpoll | Program::BareUring => {
                command = Command::new(compiled(server.kind));
                command.arg(if self == Program::BareEpoll { "epoll" } else { "uring" });
                command.arg(&server.socket).args([clients, length]);
            }
            Program::Dbdyno | Program::DbdynoUring => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                command = Command::new(own);
                command.args(["--client", server.kind.name()]).arg(&server.socket);
                command.args([clients, length]);
                command.arg(if self == Program::Dbdyno { "epoll" } else { "uring" });
                command.arg(task.work.name());
            }
            Program::Pgbench => {
                command = Command::new(server.programs.join("pgbench"));
                command.args(["-n", "-M", "prepared", "-j", "1", "-U", NAME, "-h"]);
                command.arg(server.directory()).args(["-c", &clients, "-T", &length, "-f"]);
                command.arg(source("point_select.pgbench")).arg(NAME);
            }
            Program::GoYcsb => {
                command = go_ycsb("run", server);
                let (reads, updates) = if task.work == Work::Read { (1, 0) } else { (0, 1) };
                command.args(["-p", &format!("readproportion={reads}")]);
                command.args(["-p", &format!("updateproportion={updates}")]);
                command.args(["-p", &format!("operationcount={}", i32::MAX)]);
                command.args(["--threads", &clients]);
            }
            Program::Sysbench => {
                command = sysbench(server, &source("point_select.lua").display().to_string());
                command.args([format!("--threads={clients}"), format!("--time={length}")]);
                command.args(["--events=0", "--db-ps-mode=auto", "run"]);
            }
            Program::SysbenchStock => {
                command = sysbench(server, STOCK_SCRIPT);
                command.args([
                    format!("--table-size={}", server.kind.rows()),
                    "--rand-type=uniform".to_owned(),
                ]);
                command.args([format!("--threads={clients}"), format!("--time={length}")]);
                command.args(["--events=0", "--db-ps-mode=auto", "run"]);
            }
        }
        Ok(command)
    }
}

/// The script of sysbench's own that selects by primary key, which sysbench finds by its name.
const STOCK_SCRIPT: &str = "oltp_point_select";

/// sysbench with a script, on this server.
fn sysbench(server: &Server, script: &str) -> Command {
    let (driver, place) = match server.kind {
        Kind::Postgres => ("pgsql", format!("host={}", server.directory().display())),
        Kind::Mysql | Kind::Mongodb => ("mysql", format!("socket={}", server.socket.display())),
    };
    let mut command = Command::new("sysbench");
    command.arg(script).arg(format!("--db-driver={driver}")).arg(format!("--{driver}-{place}"));
    command.args([format!("--{driver}-user={NAME}"), format!("--{driver}-password=")]);
    command.arg(format!("--{driver}-db={NAME}"));
    command
}

/// Has sysbench make the table that its own script reads.
pub fn prepare_stock(server: &Server) -> Result<(), String> {
    let mut command = sysbench(server, STOCK_SCRIPT);
    finish(command.args([format!("--table-size={}", server.kind.rows()), "prepare".to_owned()]))
}

/// go-ycsb with a table like dbdyno's: the same number of rows, one value of 100 bytes each.
fn go_ycsb(what: &str, server: &Server) -> Command {
    let program = std::env::var_os("DBDYNO_TEST_GO_YCSB").unwrap_or_else(|| "go-ycsb".into());
    let mut command = Command::new(program);
    let socket = server.socket.display().to_string().replace('/', "%2F");
    command.args([what, "mongodb", "-p", &format!("mongodb.url=mongodb://{socket}/ycsb?w=1")]);
    command.args(["-p", &format!("recordcount={}", server.kind.rows())]);
    let alike = ["workload=core", "requestdistribution=uniform", "fieldcount=1", "fieldlength=100"];
    for property in alike {
        command.args(["-p", property]);
    }
    command
}

/// Makes go-ycsb's own table.
pub fn load_go_ycsb(server: &Server) -> Result<(), String> {
    finish(&mut go_ycsb("load", server))
}

/// Makes the bare loops out of their source.
pub fn compile(kind: Kind) -> Result<(), String> {
    let name = format!("{}_loop.c", kind.name());
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-o"]).arg(compiled(kind)).arg(source(&name));
    finish(&mut compiler).map_err(|error| format!("the bare loop needs a C compiler: {error}"))
}

fn compiled(kind: Kind) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_loop", kind.name()))
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/wire").join(name)
}

/// Makes the table: through the driver, or where this dbdyno has none for the server, through the server's own client.
pub fn load(server: &Server) -> Result<(), String> {
    match client::load(server.kind, &server.socket) {
        Err(error) if error.to_string().contains("has no driver") => {}
        done => return done.map_err(|error| format!("loading the table: {error}")),
    }
    let mut command;
    match server.kind {
        Kind::Postgres => {
            command = Command::new(server.programs.join("psql"));
            command.args(["-q", "-U", NAME, "-h"]).arg(server.directory()).args(["-c"]);
            command.arg(format!(
                "CREATE TABLE t1 (id BIGINT PRIMARY KEY, counter BIGINT NOT NULL, filler BYTEA NOT NULL); \
                 INSERT INTO t1 SELECT id, 0, repeat('f', 100)::BYTEA FROM generate_series(1, {ROWS}) id"
            ));
            command.arg(NAME);
        }
        Kind::Mysql => {
            command = Command::new("mariadb");
            command.args(["--no-defaults", "-u", NAME, "-S"]).arg(&server.socket).arg("-e");
            command.arg(format!(
                "CREATE TABLE t1 (id BIGINT PRIMARY KEY, counter BIGINT NOT NULL, \
                 filler VARBINARY(2000) NOT NULL) ENGINE = InnoDB; \
                 INSERT INTO t1 SELECT seq, 0, REPEAT('f', 100) FROM seq_1_to_{ROWS}"
            ));
            command.arg(NAME);
        }
        Kind::Mongodb => return Err("only dbdyno's driver loads it".to_owned()),
    }
    finish(&mut command)
}

/// A process that has ended.
struct Ended {
    status: ExitStatus,
    user_s: f64,
    system_s: f64,
    /// All it printed.
    text: String,
}

/// Runs a program to its end and takes its CPU time from the kernel's account of it.
fn run(
    command: &mut Command,
    directory: &Path,
    limit_s: u64,
    interrupt_s: Option<u64>,
) -> Result<Ended, String> {
    let path = directory.join("printed");
    let printed = File::create(&path).map_err(|error| error.to_string())?;
    let again = printed.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(printed).stderr(again);
    // SAFETY: prctl is a plain system call, safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
            Ok(())
        });
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let id = child.id() as libc::pid_t;
    for look in 0..limit_s * LOOKS_PER_S {
        if interrupt_s.is_some_and(|second| second * LOOKS_PER_S == look) {
            // SAFETY: kill takes numbers only, and the child has not been waited for.
            unsafe { libc::kill(id, libc::SIGINT) };
        }
        let mut status = 0;
        // SAFETY: zero bytes are a valid rusage, the pointers are live, and nobody else waits for this child.
        let (ended, usage) = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            (libc::wait4(id, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if ended == id {
            let text = std::fs::read(&path).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let (user_s, system_s) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
            return Ok(Ended { status: ExitStatus::from_raw(status), user_s, system_s, text });
        }
        sleep(Duration::from_millis(1000 / LOOKS_PER_S));
    }
    // It has not been waited for, so its number is still its own.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{program} did not end within {limit_s} s"))
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing")
}
