//! A FerretDB 1 server of a test's own, on SQLite in a temporary directory, ended by its process number.
//!
//! Its program is the one that `DBDYNO_TEST_FERRETDB` names. A machine without one fails the test and says how to get it.

use dbdyno_load::driver::OpenOptions;
use dbdyno_load::server::{Address, ClientOptions, Password, Server, Tls};
use dbdyno_load::wire::mongodb::control::Control;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Tenths of a second that a server may take to start.
const PATIENCE: u32 = 600;

/// A running server.
pub struct FerretdbServer {
    child: Child,
    port: u16,
    tls_port: u16,
    options: Vec<String>,
    directory: TempDir,
}

fn program() -> PathBuf {
    let named = std::env::var_os("DBDYNO_TEST_FERRETDB").map(PathBuf::from);
    let program = named.filter(|program| program.is_file());
    program.expect(
        "these tests need the program of FerretDB 1: `dbdyno engines fetch ferretdb-1` puts it into the cache; name it \
         in DBDYNO_TEST_FERRETDB",
    )
}

impl FerretdbServer {
    /// Starts a server with these options in addition.
    pub fn start(options: &[&str]) -> Self {
        let directory = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        FerretdbServer::start_in(directory, options)
    }

    /// The same, in a directory that holds a certificate, say.
    pub fn start_in(directory: TempDir, options: &[&str]) -> Self {
        fs::create_dir(directory.path().join("data")).expect("makes a directory");
        let (port, tls_port) = (free_port(), free_port());
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        if options.iter().any(|option| option.starts_with("--listen-tls-cert-file")) {
            options.push(format!("--listen-tls=127.0.0.1:{tls_port}"));
        }
        let child = spawn(&directory, port, &options);
        let mut server = FerretdbServer { child, port, tls_port, options, directory };
        server.wait_until_it_answers();
        server
    }

    /// Kills the server as a power cut would, without a word.
    pub fn kill(&mut self) {
        self.child.kill().expect("runs");
        self.child.wait().expect("has ended");
    }

    /// Starts the server again after [`FerretdbServer::kill`], on the same files and port.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.directory, self.port, &self.options);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        let log = || fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        for _ in 0..PATIENCE {
            if Control::open(&self.login()).is_ok() {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("can be asked") {
                panic!("the server ended with {status}: {}", log());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not answer: {}", log());
    }

    /// Where it listens, for those who have no password.
    pub fn login(&self) -> Server {
        Server {
            address: Address::Tcp { host: "127.0.0.1".to_owned(), port: self.port },
            user: String::new(),
            password: None,
            database: "dbdyno".to_owned(),
            tls: Tls::Off,
            version_query: r#"{"buildInfo": 1} | version"#.to_owned(),
            settings_query: r#"{"getParameter": "*", "$db": "admin"}"#.to_owned(),
        }
    }

    /// Where it listens for those who want encryption and trust this certificate.
    pub fn encrypted(&self, trusted: Option<PathBuf>) -> Server {
        Server {
            address: Address::Tcp { host: "127.0.0.1".to_owned(), port: self.tls_port },
            tls: Tls::Verified { trusted },
            ..self.login()
        }
    }

    /// The same place for a user with a password.
    pub fn login_as(&self, user: &str, password: &str) -> Server {
        let password = Some(Password(password.to_owned()));
        Server { user: user.to_owned(), password, ..self.login() }
    }

    /// What a driver needs to open it.
    pub fn options(&self, client: ClientOptions) -> OpenOptions {
        options_of(self.login(), client)
    }
}

/// What a driver needs to open a server with this login.
pub fn options_of(server: Server, client: ClientOptions) -> OpenOptions {
    let options = OpenOptions::of_directory(PathBuf::new(), Default::default(), 8);
    OpenOptions { server: Some(server), client, ..options }
}

fn spawn(directory: &TempDir, port: u16, options: &[String]) -> Child {
    let path = directory.path();
    let log = File::options().append(true).create(true).open(path.join("log")).expect("a log");
    Command::new(program())
        .env_clear()
        .arg(format!("--listen-addr=127.0.0.1:{port}"))
        .args(["--debug-addr=-", "--telemetry=disable", "--log-level=ERROR", "--handler=sqlite"])
        .arg(format!("--sqlite-url=file:{}/", path.join("data").display()))
        .arg(format!("--state-dir={}", path.display()))
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("starts")
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("has an address").port()
}

impl Drop for FerretdbServer {
    fn drop(&mut self) {
        // It has nothing to keep; both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
