//! A server of a shipped engine for tests that end it violently: made, loaded, updated by a few clients, and counted.
//!
//! Not a test itself. Engines come from the same cache as the command's (`DBDYNO_CACHE`, or the user's own).

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod crash;
pub mod library;
pub mod loop_disk;

use crash::{Crashable, Loss};
use dbdyno_load::arrival::ArrivalPlan;
use dbdyno_load::clock::SECOND;
use dbdyno_load::driver::{Driver, OpenOptions, mysql::Mysql, postgres::Postgres};
use dbdyno_load::instrument::Totals;
use dbdyno_load::measure::{ClientId, Measured, RoleShape, Shape, Subject, Until, measure};
use dbdyno_load::server::{Address, ClientOptions, Server, Tls};
use dbdyno_plan::{Durability, DurabilityMapping, ENGINES, EngineFile};
use dbdyno_provision::{Cache, RunningServer, Site, init, start};
use dbdyno_workload::hot_row::HotRowStream;
use dbdyno_workload::{Dataset, HotRow, Seed, Settings};
use loop_disk::LoopDisk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether the tests run as root.
pub fn root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The cache that the command uses too.
pub fn cache_directory() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let own = variable("DBDYNO_CACHE");
    let of_user = || variable("XDG_CACHE_HOME").map(|cache| cache.join("dbdyno"));
    let of_home = || variable("HOME").map(|home| home.join(".cache/dbdyno"));
    own.or_else(of_user).or_else(of_home).expect("a cache directory")
}

/// The engine file of a shipped engine.
pub fn engine_file(name: &str) -> EngineFile {
    let shipped = ENGINES.iter().find(|engine| engine.name == name).expect("a shipped engine");
    EngineFile::parse(shipped.file, shipped.text).expect("parses")
}

/// An engine's settings at a durability, the rest at their defaults.
pub fn settings_at(engine: &EngineFile, durability: Durability) -> BTreeMap<String, String> {
    let DurabilityMapping::Supported(promise) = &engine.durability[&durability] else {
        panic!("{} has no durability {}", engine.name, durability.name());
    };
    let defaults = engine.settings.iter().map(|(name, setting)| (name, &setting.default));
    let all = defaults.chain(&promise.settings);
    all.map(|(name, value)| (name.clone(), value.to_string())).collect()
}

/// A server with a loaded hot row, started anew for every crash.
pub struct Cluster {
    engine: EngineFile,
    site: Site,
}

const CLIENTS: u32 = 8;

impl Cluster {
    /// Installs the engine, makes a data directory in `directory`, loads a small table and stops cleanly.
    pub fn make(engine: &str, durability: Durability, directory: &Path) -> Cluster {
        let engine = engine_file(engine);
        let recipe = engine.server.clone().expect("a server");
        let cache = Cache::open(cache_directory()).expect("a cache");
        let installed =
            cache.install(&engine.name, recipe.package(), false, &mut |_| ()).expect("installs");
        let settings = settings_at(&engine, durability);
        let site = Site {
            name: engine.name.clone(),
            recipe,
            prefix: installed.prefix,
            directory: directory.to_owned(),
            settings,
            with_port: false,
            launcher: PathBuf::from(env!("CARGO_BIN_EXE_dbdyno")),
            open_files: 4096,
            backend: None,
        };
        std::fs::create_dir_all(directory).expect("makes");
        init(&site).unwrap_or_else(|error| panic!("{}: {error}", engine.name));
        let cluster = Cluster { engine, site };
        let running = cluster.started().expect("starts");
        match cluster.engine.driver.as_str() {
            "postgres" => cluster.load::<Postgres>(),
            _ => cluster.load::<Mysql>(),
        }
        running.stop().expect("stops");
        force_to_disk(directory);
        cluster
    }

    fn dataset(&self) -> Dataset {
        workload().dataset(Seed(1))
    }

    /// Starts the server and waits until it answers; nothing if it ends instead.
    pub fn started(&self) -> Option<RunningServer> {
        let mut running = start(&self.site).expect("can be started");
        let by = Instant::now() + Duration::from_secs(60);
        loop {
            let answers = match self.engine.driver.as_str() {
                "postgres" => Postgres::create_database(&self.options()).is_ok(),
                _ => Mysql::create_database(&self.options()).is_ok(),
            };
            if answers {
                return Some(running);
            }
            if let Some(how) = running.ended() {
                println!("{} ended: {how}", self.engine.name);
                return None;
            }
            assert!(Instant::now() < by, "{}: {}", self.engine.name, running.log_tail(20));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How a driver opens it.
    pub fn options(&self) -> OpenOptions {
        let recipe = &self.site.recipe;
        OpenOptions {
            server: Some(Server {
                address: Address::Unix(self.site.socket()),
                user: recipe.user.clone(),
                password: None,
                database: "dbdyno".to_owned(),
                tls: Tls::Off,
                version_query: recipe.version_query.clone(),
                settings_query: recipe.settings_query.clone(),
            }),
            client: ClientOptions::default(),
            ..OpenOptions::of_directory(PathBuf::new(), self.site.settings.clone(), CLIENTS)
        }
    }

    fn load<D: Driver>(&self) {
        let driver = D::open(&self.options()).expect("opens");
        dbdyno_load::dataset::load(&driver, &self.dataset(), &mut |_| ()).expect("loads");
    }

    fn crash_of<D: Driver>(&self, seed: u32, disk: Option<&LoopDisk>) -> Option<Loss> {
        let running = self.started()?;
        let driver = D::open(&self.options()).expect("opens");
        let old = driver.row(0, 1).expect("reads").expect("is there").counter;
        // Some hundred milliseconds, another number each time, the same in each run of the test.
        let moment = Duration::from_millis(150 + u64::from(seed) * 7919 % 500);
        let (sender, receiver) = std::sync::mpsc::channel();
        let options = self.options();
        let clients = std::thread::spawn(move || {
            let driver = D::open(&options).expect("opens");
            // Everything is connected once the first requests run; the moment is counted from about here.
            sender.send(()).expect("the test waits");
            update(&driver)
        });
        receiver.recv().expect("clients start");
        std::thread::sleep(moment);
        disk.into_iter().for_each(LoopDisk::cut_power);
        running.kill();
        let measured = clients.join().expect("clients do not panic");
        drop(driver);
        let ledgers = measured.streams.into_iter().map(HotRowStream::into_ledger);
        let (mut acknowledged, mut unknown) = (0, 0);
        for ledger in ledgers {
            acknowledged += ledger.acknowledged_total();
            unknown += ledger.unknown_total();
        }
        disk.into_iter().for_each(LoopDisk::power_on);
        let running = self.started()?;
        let driver = D::open(&self.options()).expect("opens");
        let new = driver.row(0, 1).expect("reads").expect("is there").counter;
        drop(driver);
        running.stop().expect("stops");
        Some(Loss { acknowledged, unknown, counter: new.wrapping_sub(old) })
    }
}

impl Crashable for Cluster {
    fn crash(&self, seed: u32, disk: Option<&LoopDisk>) -> Option<Loss> {
        match self.engine.driver.as_str() {
            "postgres" => self.crash_of::<Postgres>(seed, disk),
            _ => self.crash_of::<Mysql>(seed, disk),
        }
    }
}

/// As a run does with a template: some servers make a data directory without forcing it.
fn force_to_disk(directory: &Path) {
    use std::os::fd::AsRawFd;
    let directory = std::fs::File::open(directory).expect("opens");
    // SAFETY: the call takes an open descriptor and no memory.
    assert_eq!(unsafe { libc::syncfs(directory.as_raw_fd()) }, 0);
}

fn workload() -> HotRow {
    let number = |value| dbdyno_workload::Setting::Integer(value);
    let settings: Settings =
        [("rows".to_owned(), number(200)), ("dataset_tables".to_owned(), number(1))].into();
    HotRow::from_settings(&settings).expect("fits together")
}

/// Eight clients in a closed loop for a second; they give up soon after the server is gone.
fn update<D: Driver>(driver: &D) -> Measured<HotRowStream> {
    let shape = Shape {
        roles: vec![RoleShape {
            clients: CLIENTS,
            arrival: ArrivalPlan::closed(),
            classes: 0..1,
            seed: Seed(1),
        }],
        subject: Subject::Counters(1),
        warmup_ns: 0,
        until: Until::Time,
        measured_ns: SECOND,
        drain_limit_ns: SECOND / 10,
        retries_max: u32::MAX,
    };
    let workload = workload();
    measure(
        driver,
        &shape,
        |id: ClientId| workload.stream(Seed(1), id.client),
        &mut Totals::default(),
    )
    .expect("clients connect")
}

/// Runs the command and returns what it printed; it must end with this code.
pub fn expect_code(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().expect("the command starts");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    (out, err)
}
