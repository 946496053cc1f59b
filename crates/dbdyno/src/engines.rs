//! Engines of a run that are not built in, installed before anything is measured. Servers among them are started on a
//! copy of a loaded template, asked until they
//! answer, and stopped again. What is started here is ours; a server that the user named is only spoken to.

use crate::credentials::{NamedServer, named_server};
use crate::exit_code;
use crate::failure::Failure;
use crate::fetch_progress::FetchVoice;
use crate::interrupt;
use crate::job::server::ServerOrder;
use crate::job::{LibraryOrder, texts};
use crate::view::text::bytes;
use dbdyno_load::driver::{Driver, OpenOptions, Receipt};
use dbdyno_load::with_driver;
use dbdyno_plan::{Plan, PlannedEngine, ServerRecipe, Source, Value};
use dbdyno_provision::{self as provision, Cache, Installed, RunningServer, Site};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two questions whether a server answers.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Descriptors that a server may have open: files of many tables and a thousand connections.
const OPEN_FILES: u64 = 65_536;
/// Lines of a server's log that a message carries.
const LOG_LINES: usize = 12;

/// The engines of a plan, installed.
#[derive(Default)]
pub struct Engines {
    installed: BTreeMap<String, Installed>,
    named: BTreeMap<String, NamedServer>,
}

/// What one start of a server needs to know.
pub struct StartOrder<'a> {
    /// The engine, with its recipe.
    pub engine: &'a PlannedEngine,
    /// All its settings.
    pub settings: &'a BTreeMap<String, Value>,
    /// Its own directory; the data directory is in it.
    pub directory: &'a Path,
    /// Whether it must listen on a loopback port.
    pub with_port: bool,
}

/// A server that answers.
pub struct Started {
    /// How to speak to it.
    pub order: ServerOrder,
    /// What it says of itself.
    pub receipt: Receipt,
    /// The process, if it is ours.
    running: Option<RunningServer>,
}

impl Engines {
    /// Makes this process the one that servers belong to, and removes what a killed dbdyno left. One sentence each.
    ///
    /// # Errors
    /// If leftovers cannot be removed.
    pub fn prepare_process() -> Result<Vec<String>, Failure> {
        provision::adopt_orphans()?;
        Ok(provision::sweep_leftovers(&provision::state_directory()?)?)
    }

    /// Installs what the plan needs and is not installed yet, and says on standard error what is fetched.
    ///
    /// # Errors
    /// If an engine cannot be had on this host.
    pub fn install(plan: &Plan, cache: &Path, offline: bool) -> Result<Engines, Failure> {
        let mut servers = Engines::default();
        say_what_is_fetched(plan, cache)?;
        let is_run = |engine: &&PlannedEngine| {
            plan.trials_to_run().any(|trial| trial.engine == engine.label)
        };
        for engine in plan.engines.iter().filter(is_run) {
            let Some(package) = engine.package() else { continue };
            let running_url = engine.server.as_ref().and_then(ServerRecipe::running_url);
            if let Some(url) = running_url {
                servers.named.insert(engine.name.clone(), named_server(&engine.name, url)?);
            } else if !servers.installed.contains_key(&engine.name) {
                let cache = Cache::open(cache)?;
                let mut voice = FetchVoice::new(&engine.name);
                let mut tell = |progress| voice.say(&progress);
                let installed = cache.install(&engine.name, package, offline, &mut tell);
                voice.finish();
                let installed = installed?;
                servers.installed.insert(engine.name.clone(), installed);
            }
        }
        Ok(servers)
    }

    /// What exactly is installed of an engine, in one line; it is part of a template's identity.
    pub fn installed_from(&self, engine: &PlannedEngine) -> String {
        self.installed.get(&engine.name).map_or(String::new(), |found| found.source.clone())
    }

    /// The shared object to open, if the engine is a library that is opened at run time.
    pub fn library(&self, engine: &PlannedEngine) -> Option<LibraryOrder> {
        let recipe = engine.library.as_ref()?;
        let file = self.installed.get(&engine.name)?.prefix.join(&recipe.file);
        Some(LibraryOrder { file, series: recipe.series.clone() })
    }

    /// Makes an empty data directory below `order.directory`.
    ///
    /// # Errors
    /// If the engine's own program fails, with its last words.
    pub fn init(&self, order: &StartOrder<'_>) -> Result<(), Failure> {
        Ok(provision::init(&self.site(order)?)?)
    }

    /// Starts a server and waits until it answers, or asks the one that the user named.
    ///
    /// # Errors
    /// If it ends, does not answer in time, or is not what the engine file promises; with the last lines of its log.
    pub fn start(&self, order: &StartOrder<'_>) -> Result<Started, Failure> {
        let (recipe, name) = (recipe(order.engine)?, &order.engine.name);
        if let Some(named) = self.named.get(name) {
            let server = named.order(recipe);
            let receipt = ask(order.engine, &server, order.settings)
                .map_err(|why| Failure::new(exit_code::NO_SERVER, format!("{name}: {why}")))?;
            return Ok(Started { order: server, receipt, running: None });
        }
        let site = self.site(order)?;
        let mut running = provision::start(&site)?;
        let server = order_of(recipe, &running);
        let ready_by = Instant::now() + Duration::from_secs(recipe.ready_limit_s);
        let receipt = loop {
            let ended = running.ended();
            let answer = ask(order.engine, &server, order.settings);
            let why = match (ended, answer) {
                (Some(how), _) => how,
                (None, Ok(receipt)) => break receipt,
                (None, Err(_)) if Instant::now() < ready_by => {
                    // Dropped, the server is killed: nobody waits for one that may take minutes to recover.
                    interrupt::check()?;
                    std::thread::sleep(ASK_EVERY);
                    continue;
                }
                (None, Err(why)) => {
                    let (limit, log) = (recipe.ready_limit_s, running.log_tail(LOG_LINES));
                    format!("it did not answer within {limit} s: {why}; its log ends:\n{log}")
                }
            };
            running.kill();
            let message = format!("{name}: the server could not be started: {why}");
            return Err(Failure::new(exit_code::NO_SERVER, message));
        };
        if !receipt.version.starts_with(&recipe.series) {
            running.kill();
            let message = format!(
                "{name} promises version {}..., but the server says {}: correct the engine file, or fetch it again",
                recipe.series, receipt.version
            );
            return Err(Failure::new(exit_code::NO_SERVER, message));
        }
        // Without root nothing else proves later whose shared memory a killed server left.
        running.note_shared_memory()?;
        Ok(Started { order: server, receipt, running: Some(running) })
    }

    /// Removes the database dbdyno from the servers that the user named.
    ///
    /// # Errors
    /// If one refuses.
    pub fn drop_named_databases(&self, plan: &Plan) -> Result<(), Failure> {
        for engine in plan.engines.iter().filter(|engine| self.named.contains_key(&engine.name)) {
            let Some(named) = self.named.get(&engine.name) else { continue };
            let server = named.order(recipe(engine)?).server("own").map_err(Failure::other)?;
            let options = OpenOptions {
                server: Some(server),
                ..OpenOptions::of_directory(PathBuf::new(), BTreeMap::new(), 1)
            };
            let dropped = with_driver!(engine.driver.as_str(), D => D::drop_database(&options));
            dropped.map_err(|error: dbdyno_load::driver::DriverError| {
                Failure::new(exit_code::NO_SERVER, format!("{}: {error}", engine.name))
            })?;
        }
        Ok(())
    }

    fn site(&self, order: &StartOrder<'_>) -> Result<Site, Failure> {
        let (engine, recipe) = (order.engine, recipe(order.engine)?);
        let installed = self.installed.get(&engine.name).ok_or_else(|| {
            Failure::other(format!("{} was to be started without being installed", engine.name))
        })?;
        let launcher = std::env::current_exe()
            .map_err(|error| Failure::other(format!("cannot find this program again: {error}")))?;
        Ok(Site {
            name: engine.name.clone(),
            recipe: recipe.clone(),
            prefix: without_links(&installed.prefix),
            directory: without_links(order.directory),
            settings: texts(order.settings),
            with_port: order.with_port,
            launcher,
            open_files: OPEN_FILES,
        })
    }
}

/// A path as the kernel knows it. A link may lead through directories that the server's user may not pass, which are
/// covered for it; the link itself says nothing of them.
fn without_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Says how much is going to be downloaded, before it is.
fn say_what_is_fetched(plan: &Plan, cache: &Path) -> Result<(), Failure> {
    let cache = cache.is_dir().then(|| Cache::open(cache)).transpose()?;
    let mut missing: BTreeMap<&str, u64> = BTreeMap::new();
    for engine in &plan.engines {
        let Some(package) = engine.package() else { continue };
        let is_there =
            cache.as_ref().is_some_and(|cache| cache.installed(&engine.name, package).is_some());
        let download = package.sources.first().map_or(0, Source::bytes);
        if !is_there && download > 0 {
            missing.insert(&engine.name, download);
        }
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.keys().copied().collect();
        let total = bytes(missing.values().sum::<u64>() as f64);
        eprintln!("to fetch: {}, about {total} to download", names.join(", "));
    }
    Ok(())
}

fn recipe(engine: &PlannedEngine) -> Result<&ServerRecipe, Failure> {
    let missing = || Failure::other(format!("{} is no server", engine.name));
    engine.server.as_ref().ok_or_else(missing)
}

/// How to speak to a server that we started.
fn order_of(recipe: &ServerRecipe, running: &RunningServer) -> ServerOrder {
    ServerOrder {
        socket: Some(running.socket().to_owned()),
        host_and_port: running.port().map(|port| ("127.0.0.1".to_owned(), port)),
        user: recipe.user.clone(),
        password: None,
        encrypted: false,
        trusted: None,
        version_query: recipe.version_query.clone(),
        settings_query: recipe.settings_query.clone(),
        log_syncs_query: recipe.log_syncs_query.clone(),
        settle: recipe.settle.clone(),
        is_named: false,
        process: Some(running.pid()),
    }
}

/// Opens the server's database, making it if need be, and reads version and settings back.
fn ask(
    engine: &PlannedEngine,
    server: &ServerOrder,
    settings: &BTreeMap<String, Value>,
) -> Result<Receipt, String> {
    let options = OpenOptions {
        server: Some(server.server("own")?),
        ..OpenOptions::of_directory(PathBuf::new(), texts(settings), 1)
    };
    with_driver!(engine.driver.as_str(), D => receipt_of::<D>(&options))
        .map_err(|error: Failure| error.message)
}

fn receipt_of<D: Driver>(options: &OpenOptions) -> Result<Receipt, Failure> {
    D::create_database(options)?;
    Ok(D::open(options)?.receipt()?)
}

impl Started {
    /// How the server ended, with the last lines of its log, if it has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        self.running.as_mut().and_then(RunningServer::ended)
    }

    /// Stops it cleanly; what is not ours goes on.
    ///
    /// # Errors
    /// If it cannot be ended at all.
    pub fn stop(self) -> Result<(), Failure> {
        if let Some(running) = self.running {
            running.stop()?;
        }
        Ok(())
    }

    /// Ends it at once.
    pub fn kill(self) {
        if let Some(running) = self.running {
            running.kill();
        }
    }
}
