//! An engine library in a process that is ended violently. The process is the test program again, told by its environment
//! to update the hot row or to read it; what it acknowledged is in memory that outlives it.

use super::crash::{Crashable, Loss};
use super::loop_disk::LoopDisk;
use super::{cache_directory, engine_file, force_to_disk, settings_at, workload};
use dbdyno_load::driver::{Client, Driver, OpenOptions};
use dbdyno_load::outcome::Outcome;
use dbdyno_load::with_driver;
use dbdyno_plan::Durability;
use dbdyno_provision::Cache;
use dbdyno_workload::{Action, Request, Seed};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the child is to do: `update ENGINE DURABILITY LIBRARY DATA ACCOUNT`, `load ...` or `read ...`.
const ROLE: &str = "DBDYNO_TEST_LIBRARY";
const CLIENTS: usize = 8;
/// Numbers of the account: requests begun, acknowledged, refused and of unknown end, over all clients.
const BEGUN: usize = 0;
const ACKNOWLEDGED: usize = 1;
const REFUSED: usize = 2;

/// Counters in a file's memory map, which stay when a process that counts there is killed.
struct Account(*const [AtomicU64; 3]);

// SAFETY: atomics in a shared map may be used from anywhere; the map is never undone.
unsafe impl Sync for Account {}

impl Account {
    fn open(path: &Path) -> Account {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.expect("opens the account");
        file.set_len(4096).expect("makes room");
        // SAFETY: a new shared map of an open file, checked below; it is page-aligned and longer than the counters.
        let map = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let file = file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, file, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        Account(map.cast())
    }

    fn at(&self, number: usize) -> &AtomicU64 {
        // SAFETY: the map holds that many counters, zero at first, and is never undone.
        unsafe { &(*self.0)[number] }
    }

    fn take(&self) -> [u64; 3] {
        [BEGUN, ACKNOWLEDGED, REFUSED].map(|number| self.at(number).swap(0, Ordering::SeqCst))
    }
}

/// A library with a loaded hot row.
pub struct Library {
    role: String,
    account_path: PathBuf,
    account: Account,
    /// The name of the test in which [`role`] is called.
    test: &'static str,
}

impl Library {
    /// Installs the engine if need be and loads a small table in `data`. `account` must lie where no power is cut.
    pub fn make(
        engine: &str,
        durability: Durability,
        data: &Path,
        account: &Path,
        test: &'static str,
    ) -> Library {
        let file = engine_file(engine);
        let library = file.library.as_ref().map_or(PathBuf::new(), |recipe| {
            let cache = Cache::open(cache_directory()).expect("a cache");
            let installed = cache.install(engine, recipe.package(), false, &mut |_| ());
            installed.expect("installs").prefix.join(&recipe.file)
        });
        let words = [engine, durability.name(), &library.display().to_string()];
        let role = format!("{}\n{}", words.join("\n"), data.display());
        let account_path = account.to_owned();
        let library = Library { role, account: Account::open(account), account_path, test };
        assert!(library.child("load").wait().expect("ends").success(), "{engine} loads");
        force_to_disk(data);
        library
    }

    fn child(&self, what: &str) -> Child {
        let role = format!("{what}\n{}\n{}", self.role, self.account_path.display());
        let mut command = Command::new(std::env::current_exe().expect("knows itself"));
        command.args(["--exact", self.test, "--nocapture", "--quiet"]).env(ROLE, role);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).stdin(Stdio::null());
        command.spawn().expect("starts itself")
    }

    /// The counter, read by a process that recovers the database; nothing if that process dies or is refused.
    fn counter(&self) -> Option<u64> {
        let output = self.child("read").wait_with_output().expect("ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("counter "));
        line.filter(|_| output.status.success()).map(|text| text.parse().expect("a number"))
    }
}

impl Crashable for Library {
    fn crash(&self, seed: u32, disk: Option<&LoopDisk>) -> Option<Loss> {
        let old = self.counter()?;
        self.account.take();
        let mut child = self.child("update");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let begun = lines.any(|line| line.is_ok_and(|line| line == "updating"));
        assert!(begun, "the process that updates ended before it began");
        // Some hundred milliseconds, another number each time, the same in each run of the test.
        std::thread::sleep(Duration::from_millis(100 + u64::from(seed) * 7919 % 400));
        // Only what was acknowledged before the power goes must be there. How ext4 ends a sync that is under way when it is
        // shut down is its own affair; a host without power would report nothing any more.
        let before = self.account.at(ACKNOWLEDGED).load(Ordering::SeqCst);
        disk.into_iter().for_each(LoopDisk::cut_power);
        child.kill().expect("is ours to kill");
        child.wait().expect("was killed");
        let [begun, all, refused] = self.account.take();
        let acknowledged = if disk.is_some() { before } else { all };
        disk.into_iter().for_each(LoopDisk::power_on);
        let counter = self.counter()?.wrapping_sub(old);
        Some(Loss { acknowledged, unknown: begun - acknowledged - refused, counter })
    }
}

/// What a child does; returns at once in the test program itself.
pub fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split('\n').collect();
    let [what, engine, durability, library, data, account] = words[..] else { panic!("{role}") };
    let engine = engine_file(engine);
    let durability = Durability::by_name(durability).expect("a durability");
    let settings = settings_at(&engine, durability);
    let library = (!library.is_empty()).then(|| PathBuf::from(library));
    let options = OpenOptions {
        library,
        ..OpenOptions::of_directory(PathBuf::from(data), settings, CLIENTS as u32)
    };
    let done: Result<(), dbdyno_load::driver::DriverError> = with_driver!(engine.driver.as_str(), D => Ok(play::<D>(what, &options, Path::new(account))));
    done.expect("a driver");
}

fn play<D: Driver>(what: &str, options: &OpenOptions, account: &Path) {
    let driver = D::open(options).unwrap_or_else(|error| panic!("opens: {error}"));
    match what {
        "load" => {
            let dataset = workload().dataset(Seed(1));
            dbdyno_load::dataset::load(&driver, &dataset, &mut |_| ()).expect("loads");
        }
        "read" => {
            let row = driver.row(0, 1).expect("reads").expect("is there");
            println!("counter {}", row.counter);
        }
        _ => update(&driver, &Account::open(account)),
    }
}

/// Until it is killed.
fn update<D: Driver>(driver: &D, account: &Account) {
    let clients: Vec<D::Client> =
        (0..CLIENTS).map(|_| driver.connect(1).expect("connects")).collect();
    println!("updating");
    let request = Request { class: 0, table: 0, row: 1, action: Action::Increment };
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                loop {
                    account.at(BEGUN).fetch_add(1, Ordering::SeqCst);
                    match client.execute(&request) {
                        Outcome::Acknowledged => {
                            account.at(ACKNOWLEDGED).fetch_add(1, Ordering::SeqCst);
                        }
                        Outcome::Refused(_) => {
                            account.at(REFUSED).fetch_add(1, Ordering::SeqCst);
                        }
                        Outcome::Unknown(_) => {
                            // Not counted as ended, so it stays unknown; after a power cut nothing else comes.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            });
        }
    });
}
