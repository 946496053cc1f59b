//! A PostgreSQL server for one test: its own directory, socket and logins, gone when the test ends.

use dbdyno_load::driver::{Driver, OpenOptions, postgres::Postgres};
use dbdyno_load::server::{Address, ClientOptions, Password, Server, Tls};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The server refuses to run as root, so it runs as nobody.
const NOBODY: u32 = 65_534;
/// The password of the logins `md5` and `scram`.
pub const PASSWORD: &str = "open sesame";

/// A running server.
pub struct PostgresServer {
    directory: tempfile::TempDir,
    process: Child,
    /// Port of its TCP listener and name of its socket; free on this host.
    pub port: u16,
}

/// The directory of the server's programs, which must be there: a test that is left out in silence shows nothing.
fn programs() -> PathBuf {
    if let Some(directory) = std::env::var_os("DBDYNO_TEST_POSTGRES") {
        return PathBuf::from(directory);
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = installed
        .map(|version| version.path().join("bin"))
        .filter(|directory| directory.join("postgres").exists())
        .collect();
    found.sort();
    found.pop().expect(
        "these tests need a PostgreSQL server: install the package postgresql, or name the directory of its programs \
         in DBDYNO_TEST_POSTGRES",
    )
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.stdin(Stdio::null()).current_dir("/tmp");
    command
}

fn give_away(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changes the mode");
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("gives it to nobody");
    }
}

impl PostgresServer {
    /// Starts a server on a Unix socket and a TCP port, without syncs. The login `tester` needs no password on the
    /// socket; `md5` and `scram` are asked for theirs everywhere. TLS is on if a certificate and a key are given.
    pub fn start(certificate: Option<(&str, &str)>) -> Self {
        let bin = programs();
        let directory = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        give_away(directory.path(), 0o755);
        let data = directory.path().join("data");
        let made = as_nobody(&bin.join("initdb"))
            .args(["-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .expect("runs initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let logins = "local all tester trust\nlocal all cleartext password\nlocal all md5 md5\n\
            local all scram scram-sha-256\nhost all md5 127.0.0.1/32 md5\n\
            host all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), logins).expect("writes who may log in");
        if let Some((certificate, key)) = certificate {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                fs::write(data.join(name), text).expect("writes");
                give_away(&data.join(name), 0o600);
            }
        }
        let port = free_port();
        let socket_directory = directory.path().display().to_string();
        let log = fs::File::create(directory.path().join("log")).expect("a log");
        let process = as_nobody(&bin.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-k", &socket_directory, "-h", "127.0.0.1", "-p", &port.to_string()])
            .args(["-c", "fsync=off", "-c", "max_connections=100", "-c", "shared_buffers=16MB"])
            .args(["-c", if certificate.is_some() { "ssl=on" } else { "ssl=off" }])
            .stderr(log)
            .spawn()
            .expect("starts the server");
        let server = PostgresServer { directory, process, port };
        server.wait_until_ready();
        Postgres::create_database(&server.options()).expect("a database");
        for (login, method) in [("md5", "md5"), ("scram", "scram-sha-256"), ("cleartext", "md5")] {
            server.psql(&format!(
                "SET password_encryption = '{method}'; \
                 CREATE ROLE {login} LOGIN SUPERUSER PASSWORD '{PASSWORD}'"
            ));
        }
        server
    }

    fn wait_until_ready(&self) {
        let is_ready = || {
            let status = as_nobody(&programs().join("pg_isready"))
                .args(["-q", "-h", &self.directory.path().display().to_string()])
                .args(["-p", &self.port.to_string()])
                .status();
            status.expect("runs pg_isready").success()
        };
        for _ in 0..300 {
            if is_ready() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        panic!("the server does not start: {log}");
    }

    /// Runs statements, parted by "; ", with the server's own client and returns what it prints.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in("postgres", sql)
    }

    /// The same, in another database.
    pub fn psql_in(&self, database: &str, sql: &str) -> String {
        let mut psql = as_nobody(&programs().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-U", "tester", "-v", "ON_ERROR_STOP=1"])
            .args(["-h", &self.directory.path().display().to_string()])
            .args(["-p", &self.port.to_string()]);
        for statement in sql.split("; ") {
            psql.args(["-c", statement]);
        }
        let output = psql.arg(database).output().expect("runs psql");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Where the server listens, for the login without a password.
    pub fn server(&self) -> Server {
        Server {
            address: Address::Unix(self.directory.path().join(format!(".s.PGSQL.{}", self.port))),
            user: "tester".to_owned(),
            password: None,
            database: "dbdyno".to_owned(),
            tls: Tls::Off,
            version_query: "SHOW server_version".to_owned(),
            settings_query: "SELECT name, setting FROM pg_settings".to_owned(),
        }
    }

    /// The server as a login sees it that is asked for a password.
    pub fn server_as(&self, login: &str, password: &str) -> Server {
        let password = Some(Password(password.to_owned()));
        Server { user: login.to_owned(), password, ..self.server() }
    }

    /// How a driver opens the server's database.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            server: Some(self.server()),
            ..OpenOptions::of_directory(PathBuf::new(), Default::default(), 8)
        }
    }

    /// The same, and how clients speak.
    pub fn options_with(&self, client: ClientOptions) -> OpenOptions {
        OpenOptions { client, ..self.options() }
    }

    /// A file in the server's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends a signal to the server and all its processes.
    pub fn signal_all(&self, signal: i32) {
        // The first process last, so that it sees none of the others change state.
        for process in self.children().into_iter().chain([self.process.id()]) {
            // SAFETY: kill takes numbers only; the processes are this server's.
            unsafe { libc::kill(process as libc::pid_t, signal) };
        }
    }

    fn children(&self) -> Vec<u32> {
        let is_child = |process: &u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or("").to_owned();
            after_name.split(' ').nth(1) == Some(&self.process.id().to_string())
        };
        let entries = fs::read_dir("/proc").expect("lists processes").flatten();
        entries
            .filter_map(|entry| OsStr::to_str(&entry.file_name())?.parse().ok())
            .filter(is_child)
            .collect()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.signal_all(libc::SIGCONT);
        // SAFETY: kill takes numbers only; the process is our child and not yet waited for.
        unsafe { libc::kill(self.process.id() as libc::pid_t, libc::SIGINT) };
        let _ = self.process.wait();
    }
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("has an address").port()
}
