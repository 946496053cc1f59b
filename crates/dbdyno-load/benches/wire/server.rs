//! A server of our own for the length of the benchmark: made in a temporary directory, reached through a socket there,
//! ended and removed when it is dropped.

use dbdyno_load::server as target;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// The number of user and group "nobody": PostgreSQL does not run as root.
const NOBODY: u32 = 65_534;
/// Checks, a tenth of a second apart, until a server that has not started or ended is given up.
const PATIENCE: u32 = 300;
/// More than the most clients that a program of this benchmark opens.
const CONNECTIONS: u32 = 600;
/// Rows of the table in SQL; the C loops and scripts know the same number.
pub const ROWS: u64 = 100_000;
/// User and database, in all servers.
pub const NAME: &str = "dbdyno";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mysql,
    /// FerretDB, which speaks MongoDB's protocol.
    Mongodb,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Kind {
    /// The name of dbdyno's driver.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Mysql => "mysql",
            Kind::Mongodb => "mongodb",
        }
    }

    /// Rows of the table. FerretDB 1 has no index that finds whole numbers and looks at every row.
    pub fn rows(self) -> u64 {
        match self {
            Kind::Postgres | Kind::Mysql => ROWS,
            Kind::Mongodb => 100,
        }
    }

    /// The signal that ends a server of this kind without waiting for its clients. PostgreSQL then makes no checkpoint:
    /// nothing of it is kept.
    fn end_signal(self) -> i32 {
        match self {
            Kind::Postgres => libc::SIGQUIT,
            Kind::Mysql | Kind::Mongodb => libc::SIGTERM,
        }
    }

    /// How dbdyno reaches a server of this kind at a socket.
    pub fn target(self, socket: &Path) -> target::Server {
        let (version_query, settings_query) = match self {
            Kind::Postgres => ("SHOW server_version", "SELECT name, setting FROM pg_settings"),
            Kind::Mysql => ("SELECT VERSION()", "SHOW GLOBAL VARIABLES"),
            Kind::Mongodb => (r#"{"buildInfo": 1} | version"#, r#"{"buildInfo": 1}"#),
        };
        target::Server {
            address: target::Address::Unix(socket.to_owned()),
            user: NAME.to_owned(),
            password: None,
            database: NAME.to_owned(),
            tls: target::Tls::Off,
            version_query: version_query.to_owned(),
            settings_query: settings_query.to_owned(),
        }
    }
}

/// A server that runs.
pub struct Server {
    pub kind: Kind,
    /// Its socket.
    pub socket: PathBuf,
    /// Where its programs are, and its clients' too.
    pub programs: PathBuf,
    /// What it says of its version.
    pub version: String,
    child: Child,
    directory: TempDir,
}

impl Server {
    /// A temporary directory's room for other files of the benchmark.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// PostgreSQL, from the directory with its programs.
    pub fn start_postgres(programs: &Path) -> Result<Server, String> {
        let directory = directory()?;
        let data = directory.path().join("data");
        let mut init = as_nobody(&programs.join("initdb"), directory.path());
        init.arg("-D").arg(&data);
        init.args(["-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        finish(&mut init)?;
        let mut serve = as_nobody(&programs.join("postgres"), directory.path());
        serve.arg("-D").arg(&data).arg("-k").arg(directory.path());
        let connections = format!("max_connections={CONNECTIONS}");
        let settings = ["listen_addresses=", "shared_buffers=256MB", "fsync=off", "autovacuum=off"];
        for setting in settings.into_iter().chain([connections.as_str()]) {
            serve.args(["-c", setting]);
        }
        let socket = directory.path().join(".s.PGSQL.5432");
        let version = version_of(&programs.join("postgres"))?;
        let child = spawn_server(&mut serve, directory.path(), Kind::Postgres)?;
        let kind = Kind::Postgres;
        let mut server =
            Server { kind, socket, programs: programs.to_owned(), version, child, directory };
        server.await_socket()?;
        let mut create = as_nobody(&programs.join("createdb"), server.directory());
        create.arg("-h").arg(server.directory()).args(["-U", NAME, NAME]);
        // The socket is there a moment before the server lets anyone in.
        for _ in 0..PATIENCE {
            match finish(&mut create) {
                Ok(()) => return Ok(server),
                Err(error) if error.contains("starting up") => sleep(Duration::from_millis(100)),
                Err(error) => return Err(error),
            }
        }
        Err("PostgreSQL does not finish starting up".to_owned())
    }

    /// MariaDB or MySQL, from the path of its server program.
    pub fn start_mysql(program: &Path) -> Result<Server, String> {
        let directory = directory()?;
        let data = directory.path().join("data");
        let version = version_of(program)?;
        let programs = program.parent().unwrap_or(Path::new("/")).to_owned();
        let base = programs.parent().unwrap_or(Path::new("/"));
        let base_argument = format!("--basedir={}", base.display());
        let mut init = if version.contains("MariaDB") {
            // Debian has it in bin, MariaDB's own archives in scripts.
            let places =
                ["bin", "scripts"].map(|place| base.join(place).join("mariadb-install-db"));
            let script = places.iter().find(|path| path.is_file()).unwrap_or(&places[0]);
            let mut init = as_nobody(script, directory.path());
            init.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            init.arg("--skip-test-db");
            init
        } else {
            let mut init = as_nobody(program, directory.path());
            init.args(["--no-defaults", "--initialize-insecure"]);
            init
        };
        finish(init.arg(&base_argument).arg(format!("--datadir={}", data.display())))?;
        let socket = directory.path().join("socket");
        let login = directory.path().join("login.sql");
        let statements = format!(
            "CREATE DATABASE {NAME};\nCREATE USER {NAME}@localhost IDENTIFIED BY '';\n\
             GRANT ALL ON *.* TO {NAME}@localhost;\n"
        );
        std::fs::write(&login, statements).map_err(|error| error.to_string())?;
        let mut serve = as_nobody(program, directory.path());
        serve.args([
            "--no-defaults",
            &base_argument,
            "--skip-networking",
            "--innodb-buffer-pool-size=256M",
        ]);
        serve.args(["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]);
        for (setting, path) in [("datadir", &data), ("socket", &socket), ("init-file", &login)] {
            serve.arg(format!("--{setting}={}", path.display()));
        }
        serve.arg(format!("--pid-file={}", directory.path().join("pid").display()));
        serve.arg(format!("--max-connections={CONNECTIONS}"));
        let child = spawn_server(&mut serve, directory.path(), Kind::Mysql)?;
        let mut server = Server { kind: Kind::Mysql, socket, programs, version, child, directory };
        server.await_socket()?;
        Ok(server)
    }

    /// FerretDB 1 on SQLite, from the path of its program.
    pub fn start_mongodb(program: &Path) -> Result<Server, String> {
        let directory = directory()?;
        let kind = Kind::Mongodb;
        // Its other lines are about how it was built.
        let version = version_of(program)?.lines().next().unwrap_or_default().to_owned();
        let version = format!("FerretDB on SQLite, {version}");
        let (data, socket) =
            (directory.path().join("data"), directory.path().join("ferretdb.sock"));
        std::fs::create_dir(&data).map_err(|error| error.to_string())?;
        if is_root() {
            chown(&data, Some(NOBODY), Some(NOBODY)).map_err(|error| error.to_string())?;
        }
        let mut serve = as_nobody(&within_reach(program, directory.path())?, directory.path());
        serve.args([
            "--listen-addr=",
            "--debug-addr=-",
            "--telemetry=disable",
            "--log-level=ERROR",
        ]);
        serve.arg("--handler=sqlite").arg(format!("--sqlite-url=file:{}/", data.display()));
        serve.arg(format!("--state-dir={}", directory.path().display()));
        serve.arg(format!("--listen-unix={}", socket.display()));
        let child = spawn_server(&mut serve, directory.path(), kind)?;
        let programs = program.parent().unwrap_or(Path::new("/")).to_owned();
        let mut server = Server { kind, socket, programs, version, child, directory };
        server.await_socket()?;
        Ok(server)
    }

    fn await_socket(&mut self) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if std::os::unix::net::UnixStream::connect(&self.socket).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended ({status}): {}", self.last_words()));
            }
            sleep(Duration::from_millis(100));
        }
        Err(format!("the server does not open its socket: {}", self.last_words()))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.directory().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: the child has not been waited for, so its number is still its own.
            unsafe { libc::kill(self.child.id() as libc::pid_t, self.kind.end_signal()) };
        }
        for _ in 0..PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        // Whatever these say, there is nothing left to try.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory() -> Result<TempDir, String> {
    // Without capitals: the library that go-ycsb connects with turns them into small letters in a socket's path.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("dbdyno-wire-{}-{number}", std::process::id());
    let directory = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in("/tmp");
    let directory = directory.map_err(|error| format!("a directory in /tmp: {error}"))?;
    if is_root() {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).map_err(|error| error.to_string())?;
    }
    Ok(directory)
}

fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A command that runs in the server's directory as a user without rights; as ourselves if we have none either.
fn as_nobody(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).env("HOME", directory);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Where a user without rights can start a program that needs nothing beside it: its own place may lie below a home
/// directory that is closed to others.
fn within_reach(program: &Path, directory: &Path) -> Result<PathBuf, String> {
    if !is_root() {
        return Ok(program.to_owned());
    }
    let copy = directory.join("program");
    std::fs::copy(program, &copy).map_err(|error| format!("{}: {error}", program.display()))?;
    chown(&copy, Some(NOBODY), Some(NOBODY)).map_err(|error| error.to_string())?;
    Ok(copy)
}

/// Starts a server that writes into `log` and that the kernel ends with us, whatever happens to us.
fn spawn_server(command: &mut Command, directory: &Path, kind: Kind) -> Result<Child, String> {
    let log = File::create(directory.join("log")).map_err(|error| error.to_string())?;
    let again = log.try_clone().map_err(|error| error.to_string())?;
    command.stdout(log).stderr(again).process_group(0);
    // SAFETY: prctl is a plain system call, safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, kind.end_signal() as libc::c_ulong);
            Ok(())
        });
    }
    command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))
}

fn version_of(program: &Path) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // MySQL and MariaDB begin with the program's path.
    Ok(text.strip_prefix(&*program.to_string_lossy()).unwrap_or(&text).trim().to_owned())
}

/// Runs a command to its end; an error carries what it said.
pub fn finish(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{program}: {}", String::from_utf8_lossy(&said).trim()))
}
