//! Commands that run servers, in a place of their own, and what they leave on the host: looked at before and after.
//!
//! Not a test itself. A command's records of servers and its home lie in the place too, so that whatever it leaves is
//! found. Tests of one file take turns ([`Turn`]), so that none sees what another one does just now.

use super::{Ended, Place};
use dbdyno_host::process_tree::{all_processes, descendants};
use dbdyno_load::driver::{Driver, OpenOptions};
use dbdyno_load::server::{Address, Server, Tls};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a test waits for something that must come before it gives up.
const PATIENCE: Duration = Duration::from_secs(120);

static TURNS: Mutex<()> = Mutex::new(());

/// One experiment of one cell, measured once: about a second on a server that is loaded.
pub const ONE_CELL: &str = "\
name = 'tiny'
question = 'Do servers keep the promises of libraries?'
workload = 'hot_row'
engines = ['postgres-18']
[vary]
dop = [2]
[hold]
rows = 200
dataset_tables = 1
warmup_s = 0.1
measured_s = 0.3
device_profile = false
";

/// A place for commands that run servers, and the turn of its test.
pub struct Turn {
    /// Where commands run.
    pub place: Place,
    cache: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    /// On disk, with `tiny.toml` that says this.
    pub fn with(experiment: &str) -> Turn {
        Turn::at(|| Place::on_disk(experiment))
    }

    /// At another place.
    pub fn at(make: impl FnOnce() -> Place) -> Turn {
        // A test that failed says so itself; the next one begins in a place of its own.
        let turn = TURNS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = make();
        for name in ["home", "runtime"] {
            let directory = place.path().join(name);
            fs::create_dir(&directory).expect("makes");
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&directory, mode).expect("closes it to others");
        }
        // Servers by hand are noted in the cache: with a directory of its own, a test sees only its own.
        let cache = place.path().join("cache");
        fs::create_dir(&cache).expect("makes");
        for name in ["engines", "stores", "downloads"] {
            let real = cache_directory().join(name);
            fs::create_dir_all(&real).expect("makes");
            symlink(real, cache.join(name)).expect("links");
        }
        Turn { place, cache, _turn: turn }
    }

    /// The command with arguments separated by blanks, not started yet.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = self.place.command(arguments);
        let path = self.place.path();
        command.env("DBDYNO_CACHE", &self.cache).env("HOME", path.join("home"));
        command.env("XDG_RUNTIME_DIR", path.join("runtime")).env_remove("DBDYNO_PASSWORD");
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &str) -> Ended {
        Ended::of(self.command(arguments).output().expect("the command starts"))
    }

    /// The text of a run's list of trials.
    pub fn trials(&self, run: &str) -> String {
        fs::read_to_string(self.place.results().join(run).join("trials.jsonl")).expect("a run")
    }

    /// The only run's trials, first to last: how each ended, with the reason, and its restart number.
    pub fn ends(&self) -> Vec<(String, String, u64)> {
        let run = self.place.only_run();
        let text = self.trials(&run);
        let lines = text.lines().map(|line| -> serde_json::Value {
            serde_json::from_str(line).expect("lines are JSON")
        });
        let trials = lines.filter(|line| line["trial"].is_object());
        let end = |line: serde_json::Value| {
            let (end, restart) = (&line["trial"]["end"], line["trial"]["restart"].as_u64());
            let (name, reason) = match end.as_object().and_then(|object| object.iter().next()) {
                Some((name, of)) => (name.clone(), of["reason"].as_str().unwrap_or("").to_owned()),
                None => (end.as_str().unwrap_or_default().to_owned(), String::new()),
            };
            (name, reason, restart.unwrap_or(0))
        };
        trials.map(end).collect()
    }
}

/// The cache that the command uses, so that tests download nothing that is there.
pub fn cache_directory() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let of_user = || variable("XDG_CACHE_HOME").map(|cache| cache.join("dbdyno"));
    let of_home = || variable("HOME").map(|home| home.join(".cache/dbdyno"));
    variable("DBDYNO_CACHE").or_else(of_user).or_else(of_home).expect("a cache directory")
}

/// Waits until something is there.
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process of a test.
pub fn signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("process ids are small");
    // SAFETY: kill touches no memory. The callers' processes are children of this one that were not waited for, or
    // children of those, so their ids belong to no other process.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "process {pid} is gone");
}

/// The process of this name among the children of another one.
pub fn child_named(parent: u32, name: &str) -> Option<u32> {
    let all = all_processes().into_iter();
    let is_it = |process: &dbdyno_host::process_tree::ProcessEntry| {
        process.parent == parent && process.name == name && process.state != 'Z'
    };
    all.into_iter().find(is_it).map(|process| process.pid)
}

/// The arguments of a process and of all that it started.
pub fn arguments_of(root: u32) -> Vec<String> {
    let all = all_processes();
    let pids = descendants(&all, root).into_iter().map(|process| process.pid);
    let words = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let texts = std::iter::once(root).chain(pids).map(words);
    texts.map(|text| String::from_utf8_lossy(&text).replace('\0', " ")).collect()
}

/// Waits until a command measures on a server: its program runs, and so does a job after the dataset was loaded.
pub fn wait_for_trial(turn: &Turn, command: &Child, program: &str) -> u32 {
    let work = turn.place.results().join(".work");
    wait_for("a trial on a server", || {
        let server = child_named(command.id(), program)?;
        let has_copy =
            fs::read_dir(&work).ok()?.flatten().any(|run| run.path().join("server/data").is_dir());
        (has_copy && job_of(command).is_some()).then_some(server)
    })
}

/// The process in which a command loads or measures just now.
pub fn job_of(command: &Child) -> Option<u32> {
    let is_job = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).nth(1) == Some(b"job")
    };
    let all = all_processes();
    descendants(&all, command.id()).into_iter().map(|process| process.pid).find(is_job)
}

/// What a host holds that a server could leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    things: BTreeSet<String>,
    /// Notes of servers that run, for the sweep of what is left of a killed dbdyno.
    records: BTreeSet<PathBuf>,
}

fn records_of_servers(directory: &Path) -> BTreeSet<PathBuf> {
    let records = fs::read_dir(directory.join("runtime/dbdyno")).into_iter().flatten().flatten();
    records.map(|record| record.path()).collect()
}

impl Host {
    /// As it is now. Processes and what is mounted count if they have to do with the directory.
    pub fn now(directory: &Path) -> Host {
        let mut things = BTreeSet::new();
        let about = directory.display().to_string();
        for process in all_processes() {
            let of = |name: &str| fs::read_link(format!("/proc/{}/{name}", process.pid));
            let lies_in = |path: PathBuf| path.starts_with(directory);
            let words = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            let is_named = String::from_utf8_lossy(&words).contains(&about);
            if of("cwd").is_ok_and(lies_in) || of("exe").is_ok_and(lies_in) || is_named {
                things.insert(format!("process {} {}", process.pid, process.name));
            }
        }
        let mut lines = |kind: &str, file: &str, of: &dyn Fn(&str) -> Option<String>| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let found = text.lines().skip(1).filter_map(of);
            things.extend(found.map(|found| format!("{kind} {found}")));
        };
        let field =
            |line: &str, number: usize| line.split_whitespace().nth(number).map(str::to_owned);
        // What a process is attached to is that process's, and counts with it.
        let is_left = |line: &str| field(line, 6).as_deref() == Some("0");
        lines("segment", "/proc/sysvipc/shm", &|line| field(line, 1).filter(|_| is_left(line)));
        lines("semaphores", "/proc/sysvipc/sem", &|line| field(line, 1));
        // What covers a place for a server is an empty file system in memory.
        let is_like_ours = |line: &str| line.contains(&about) || line.starts_with("tmpfs ");
        lines("mount", "/proc/mounts", &|line| is_like_ours(line).then(|| line.to_owned()));
        lines("socket", "/proc/net/unix", &|line| {
            let name = field(line, 7)?;
            (name.contains(&about) || name.starts_with('@')).then_some(name)
        });
        // 0A is the state of a socket that listens.
        let listening = |line: &str| {
            let is_listening = field(line, 3).as_deref() == Some("0A");
            is_listening.then(|| Some(format!("{} {}", field(line, 1)?, field(line, 9)?)))?
        };
        lines("port", "/proc/net/tcp", &listening);
        lines("port", "/proc/net/tcp6", &listening);
        for place in ["/dev/shm", "/tmp", "/run", "/var/tmp"] {
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            let names = entries.filter(may_be_of_a_server).map(|entry| entry.path());
            things.extend(names.map(|path| format!("file {}", path.display())));
        }
        Host { things, records: records_of_servers(directory) }
    }

    /// Fails the test if something is there in the end that was not there. Others work on the host too, so what goes
    /// away by itself within some time does not count.
    pub fn assert_is_as_before(&self, turn: &Turn) {
        let path = turn.place.path();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let now = Host::now(&path);
            let new = now.things.difference(&self.things);
            let left: Vec<&String> = new.filter(|thing| !is_held(thing)).collect();
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "left on the host: {left:#?}");
            sleep(Duration::from_millis(100));
        }
        let records = records_of_servers(&path);
        let left: Vec<_> = records.difference(&self.records).collect();
        assert!(left.is_empty(), "records of servers are left: {left:?}");
        let home = fs::read_dir(path.join("home")).expect("a home").count();
        assert_eq!(home, 0, "something was written into the user's home");
        let work = fs::read_dir(turn.place.results().join(".work"));
        let work: Vec<_> = work.into_iter().flatten().flatten().collect();
        assert!(work.is_empty(), "the working directory was not swept: {work:?}");
    }
}

/// Whether a living process holds a file or a port: then it is that process's, and counts with it if that is ours.
fn is_held(thing: &str) -> bool {
    let mut words = thing.split(' ');
    let (kind, name, inode) = (words.next(), words.next(), words.next());
    let holds = |pid: u32| {
        let of = |part: &str| PathBuf::from(format!("/proc/{pid}/{part}"));
        let name = name.unwrap_or_default();
        let says = |part: &str| {
            let bytes = fs::read(of(part)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(name)
        };
        match kind {
            Some("file") => {
                let works_in = fs::read_link(of("cwd")).is_ok_and(|path| path.starts_with(name));
                works_in || says("cmdline") || says("maps")
            }
            Some("port") => {
                let socket = format!("socket:[{}]", inode.unwrap_or_default());
                let mut open = fs::read_dir(of("fd")).into_iter().flatten().flatten();
                open.any(|entry| {
                    fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(&socket))
                })
            }
            _ => false,
        }
    };
    all_processes().into_iter().any(|process| holds(process.pid))
}

/// A file where everybody may make some that has the server's user or one of the names that servers and dbdyno use:
/// others work on the host too.
fn may_be_of_a_server(entry: &fs::DirEntry) -> bool {
    /// `nobody`, who servers run as if the command runs as root.
    const NOBODY: u32 = 65_534;
    let name = entry.file_name().to_string_lossy().into_owned();
    let names = ["dbdyno-0", "PostgreSQL.", "mysql", "ib", "#sql"];
    entry.metadata().is_ok_and(|facts| facts.uid() == NOBODY)
        || names.iter().any(|begin| name.starts_with(begin))
}

/// A server by hand: `engines up`, and what it said.
pub struct Up {
    /// The command that owns it.
    pub child: Child,
    label: String,
    /// What it printed, by the first word of each line.
    pub said: BTreeMap<String, String>,
}

impl Up {
    /// Starts it and waits for its lines.
    pub fn start(turn: &Turn, label: &str, more: &str) -> Up {
        let mut command = turn.command(&format!("engines up {label} --port {more}"));
        let mut child = command.spawn().expect("the command starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut text = String::new();
        while !text.contains("stop it with") {
            let mut bytes = [0; 512];
            let read = out.read(&mut bytes).expect("reads");
            if read == 0 {
                let mut words = String::new();
                let _ = child.stderr.take().expect("a pipe").read_to_string(&mut words);
                panic!("{label} is not up: {text}{words}");
            }
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        let words = text.lines().filter_map(|line| line.split_once(' '));
        let said = words.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        child.stdout = Some(out);
        Up { child, label: label.to_owned(), said }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        let port = self.said["port"].rsplit(':').next().expect("an address");
        port.parse().expect("a port")
    }

    /// A driver on one of its databases, as its own user, by its socket.
    pub fn sql<D: Driver>(&self, database: &str) -> D {
        let user = self.said["user"].split(',').next().expect("a user").to_owned();
        let server = Server {
            address: Address::Unix(PathBuf::from(&self.said["socket"])),
            user,
            password: None,
            database: database.to_owned(),
            tls: Tls::Off,
            version_query: "SELECT 1".to_owned(),
            settings_query: "SELECT 1, 1".to_owned(),
        };
        let settings = [("table_engine".to_owned(), "innodb".to_owned())].into();
        let options = OpenOptions {
            server: Some(server),
            ..OpenOptions::of_directory(PathBuf::new(), settings, 1)
        };
        D::open(&options).expect("the server answers")
    }

    /// Stops it as a user does.
    pub fn down(mut self, turn: &Turn) {
        turn.run(&format!("engines down {}", self.label)).expect(0, "down");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{} did not end well", self.label);
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // After a test that failed; the kernel ends the server with its owner.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
