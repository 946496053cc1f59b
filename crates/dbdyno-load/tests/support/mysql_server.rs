//! A MySQL or MariaDB server of a test's own: made in a temporary directory, ended by its process number.
//!
//! Its binary is the one that `DBDYNO_TEST_MYSQL` names, or MariaDB as Debian installs it. A machine without one fails
//! the test and says what to install.

use dbdyno_load::driver::{Driver, OpenOptions, mysql::Mysql};
use dbdyno_load::server::{Address, ClientOptions, Password, Server, Tls};
use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const NOBODY: u32 = 65534;
/// Tenths of a second that a server may take to start; MariaDB with TLS makes a key first.
const PATIENCE: u32 = 600;

/// A running server.
pub struct MysqlServer {
    child: Child,
    port: u16,
    directory: TempDir,
}

fn binary() -> PathBuf {
    let named = std::env::var_os("DBDYNO_TEST_MYSQL").map(PathBuf::from);
    let binary = named.unwrap_or_else(|| PathBuf::from("/usr/sbin/mariadbd"));
    assert!(
        binary.is_file(),
        "there is no {}: install a server with `apt-get install mariadb-server`, or name the binary of one in \
         DBDYNO_TEST_MYSQL",
        binary.display()
    );
    binary
}

/// A command that runs as nobody where we may say so: servers of this family refuse to run as root.
fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: takes no argument and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn give_to_nobody(path: &Path) {
    // SAFETY: takes no argument and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("gives it to nobody");
    }
}

/// What kind of server a binary is, and where the rest of it lies.
struct Installation {
    binary: PathBuf,
    base: PathBuf,
    share: PathBuf,
    version: String,
}

impl Installation {
    fn find() -> Installation {
        let binary = binary();
        let base = binary.parent().and_then(Path::parent).expect("lies in a prefix").to_owned();
        let output = as_nobody(&binary).arg("--version").output().expect("says its version");
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let share = ["share/mysql", "share/mariadb", "share"].map(|share| base.join(share));
        let share = share.into_iter().find(|share| share.join("english").is_dir());
        Installation { binary, base, share: share.expect("has its messages"), version }
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = as_nobody(&self.binary);
        command
            .arg("--no-defaults")
            .arg(format!("--basedir={}", self.base.display()))
            .arg(format!("--datadir={}", directory.join("data").display()))
            .arg(format!("--lc-messages-dir={}", self.share.display()))
            // Servers that share one remove each other's temporary tables when they start.
            .arg(format!("--tmpdir={}", directory.join("tmp").display()))
            .stdout(Stdio::null())
            .stderr(File::options().append(true).create(true).open(directory.join("log")).unwrap());
        command
    }

    fn make_data(&self, directory: &Path) {
        let is_new_mysql = !self.version.contains("MariaDB")
            && ["Ver 8.", "Ver 9."].iter().any(|version| self.version.contains(version));
        let mut command = self.command(directory);
        if is_new_mysql {
            command.arg("--initialize-insecure").stdin(Stdio::null());
        } else {
            fs::create_dir(directory.join("data/mysql")).expect("makes a directory");
            give_to_nobody(&directory.join("data/mysql"));
            let statements = directory.join("bootstrap.sql");
            fs::write(&statements, self.bootstrap()).expect("writes a file");
            command.arg("--bootstrap").stdin(File::open(statements).expect("was just written"));
            command.arg("--max-allowed-packet=8M");
        }
        let status = command.status().expect("runs");
        assert!(status.success(), "the server makes its data: {}", log(directory));
    }

    fn bootstrap(&self) -> String {
        let mut statements =
            String::from("use mysql;\nset @auth_root_socket=NULL;\nset @skip_auth_anonymous=1;\n");
        for name in ["system_tables", "performance_tables", "system_tables_data"] {
            let paths =
                ["mysql", "mariadb"].map(|family| self.share.join(format!("{family}_{name}.sql")));
            if let Some(path) = paths.iter().find(|path| path.is_file()) {
                statements += &fs::read_to_string(path).expect("can be read");
            }
        }
        statements
    }
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_default()
}

/// Whether a server says something: some listen before they serve, and then drop who came too early.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("is no zero");
    stream.read_exact(&mut [0]).is_ok()
}

impl MysqlServer {
    /// Starts a server with these options in addition.
    pub fn start(options: &[&str]) -> MysqlServer {
        let directory = tempfile::tempdir().expect("a temporary directory");
        MysqlServer::start_in(directory, options)
    }

    /// Starts a server in a directory that holds certificates, say.
    pub fn start_in(directory: TempDir, options: &[&str]) -> MysqlServer {
        let installation = Installation::find();
        let path = directory.path();
        give_to_nobody(path);
        for name in ["data", "tmp"] {
            fs::create_dir(path.join(name)).expect("makes a directory");
            give_to_nobody(&path.join(name));
        }
        installation.make_data(path);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("has an address").port();
        drop(listener);
        let mut command = installation.command(path);
        if installation.version.contains("Ver 8.") || installation.version.contains("Ver 9.") {
            command.arg("--mysqlx=OFF");
        }
        let child = command
            .arg(format!("--socket={}", path.join("socket").display()))
            .arg(format!("--pid-file={}", path.join("pid").display()))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--port={port}"))
            .args(options)
            .stdin(Stdio::null())
            .spawn()
            .expect("starts");
        let mut server = MysqlServer { child, port, directory };
        server.wait_until_it_listens();
        Mysql::create_database(&server.options(ClientOptions::default())).expect("a database");
        server
    }

    fn wait_until_it_listens(&mut self) {
        for _ in 0..PATIENCE {
            if greets(&self.directory.path().join("socket")) {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("can be asked") {
                panic!("the server ended with {status}: {}", log(self.directory.path()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not listen: {}", log(self.directory.path()));
    }

    /// Where it can be reached within this host.
    pub fn unix(&self) -> Address {
        Address::Unix(self.directory.path().join("socket"))
    }

    /// Where it can be reached over the network.
    pub fn tcp(&self) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port: self.port }
    }

    /// Its user who may do everything, without a password and without encryption.
    pub fn login(&self) -> Server {
        Server {
            address: self.unix(),
            user: "root".to_owned(),
            password: None,
            database: "dbdyno".to_owned(),
            tls: Tls::Off,
            version_query: "SELECT VERSION()".to_owned(),
            settings_query: "SHOW GLOBAL VARIABLES".to_owned(),
        }
    }

    /// What a driver needs to open it.
    pub fn options(&self, client: ClientOptions) -> OpenOptions {
        options_of(self.login(), client)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill takes numbers only; the process is our child and not yet waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// The process, to end it at a bad moment.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

/// What a driver needs to open a server with this login.
pub fn options_of(server: Server, client: ClientOptions) -> OpenOptions {
    let directory = PathBuf::from("not used by a server's clients");
    let options = OpenOptions::of_directory(directory, Default::default(), 8);
    OpenOptions { server: Some(server), client, ..options }
}

/// The login of another user.
pub fn user(server: Server, name: &str, password: &str) -> Server {
    let password = (!password.is_empty()).then(|| Password(password.to_owned()));
    Server { user: name.to_owned(), password, ..server }
}

impl Drop for MysqlServer {
    fn drop(&mut self) {
        // It has nothing to keep; both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
