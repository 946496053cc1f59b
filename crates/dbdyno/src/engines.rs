//! Engines of a run that are not built in, installed before anything is measured. Servers among them are started on a
//! copy of a loaded template, asked until they
//! answer, and stopped again. What is started here is ours; a server that the user named is only spoken to.

use crate::credentials::{NamedServer, named_server};
use crate::exit_code;
use crate::failure::Failure;
use crate::fetch_progress::FetchVoice;
use crate::interrupt;
use crate::job::asked;
use crate::job::server::{BackendOrder, ServerOrder};
use crate::job::{LibraryOrder, texts};
use crate::view::text::bytes;
use dbdyno_load::driver::{Driver, OpenOptions, Receipt};
use dbdyno_load::with_driver;
use dbdyno_plan::{Backend, Plan, PlannedEngine, ServerRecipe, Source, Value};
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
    /// The processes with their engines' names, if they are ours: the one that clients use, then the one behind it.
    running: Vec<(String, RunningServer)>,
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
            let running_url = engine.server.as_ref().and_then(ServerRecipe::running_url);
            if let Some(url) = running_url {
                servers.named.insert(engine.name.clone(), named_server(&engine.name, url)?);
                continue;
            }
            for (name, package) in engine.packages() {
                if servers.installed.contains_key(name) {
                    continue;
                }
                let cache = Cache::open(cache)?;
                let mut voice = FetchVoice::new(name);
                let mut tell = |progress| voice.say(&progress);
                let installed = cache.install(name, package, offline, &mut tell);
                voice.finish();
                servers.installed.insert(name.to_owned(), installed?);
            }
        }
        Ok(servers)
    }

    /// What exactly is installed of an engine, in one line; it is part of a template's identity.
    pub fn installed_from(&self, engine: &PlannedEngine) -> String {
        let packages = engine.packages().into_iter();
        let found = packages.filter_map(|(name, _)| self.installed.get(name));
        found.map(|installed| installed.source.as_str()).collect::<Vec<_>>().join("; before ")
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
        let recipe = recipe(order.engine)?;
        let part = recipe.backend.as_deref().map_or_else(|| Part::own(order, recipe), Part::behind);
        Ok(provision::init(&self.site(order, &part, None)?)?)
    }

    /// Starts a server and waits until it answers, after the one behind it if there is one; or asks the one that the
    /// user named.
    ///
    /// # Errors
    /// If it ends, does not answer in time, or is not what the engine file promises; with the last lines of its log.
    pub fn start(&self, order: &StartOrder<'_>) -> Result<Started, Failure> {
        let (recipe, name) = (recipe(order.engine)?, &order.engine.name);
        let own = Part::own(order, recipe);
        if let Some(named) = self.named.get(name) {
            let server = named.order(recipe);
            let receipt = ask(&own, &server, order.settings)
                .map_err(|why| Failure::new(exit_code::NO_SERVER, format!("{name}: {why}")))?;
            return Ok(Started { order: server, receipt, running: Vec::new() });
        }
        let Some(backend) = recipe.backend.as_deref() else {
            let (server, receipt, running) = self.start_part(order, &own, None)?;
            let running = vec![(name.clone(), running)];
            return Ok(Started { order: server, receipt, running });
        };
        let part = Part::behind(backend);
        let (behind, _, first) = self.start_part(order, &part, None)?;
        for statement in &backend.prepare {
            let told = tell(&part, &behind, statement);
            told.map_err(|why| {
                let message = format!("{}: \"{statement}\" failed: {why}", backend.engine);
                Failure::new(exit_code::NO_SERVER, message)
            })?;
        }
        let (server, receipt, second) = self.start_part(order, &own, behind.socket.clone())?;
        let order = ServerOrder {
            processes: vec![second.pid(), first.pid()],
            backend: Some(Box::new(BackendOrder {
                engine: backend.engine.clone(),
                driver: backend.driver.clone(),
                server: behind,
            })),
            ..server
        };
        let running = vec![(name.clone(), second), (backend.engine.clone(), first)];
        Ok(Started { order, receipt, running })
    }

    /// Starts one server and waits until it answers.
    fn start_part(
        &self,
        order: &StartOrder<'_>,
        part: &Part<'_>,
        behind: Option<PathBuf>,
    ) -> Result<(ServerOrder, Receipt, RunningServer), Failure> {
        let (recipe, name) = (part.recipe, part.name);
        let mut running = provision::start(&self.site(order, part, behind)?)?;
        let server = order_of(recipe, &running);
        let ready_by = Instant::now() + Duration::from_secs(recipe.ready_limit_s);
        let receipt = loop {
            let ended = running.ended();
            let answer = ask(part, &server, order.settings);
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
        Ok((server, receipt, running))
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

    fn site(
        &self,
        order: &StartOrder<'_>,
        part: &Part<'_>,
        behind: Option<PathBuf>,
    ) -> Result<Site, Failure> {
        let installed = self.installed.get(part.name).ok_or_else(|| {
            Failure::other(format!("{} was to be started without being installed", part.name))
        })?;
        let launcher = std::env::current_exe()
            .map_err(|error| Failure::other(format!("cannot find this program again: {error}")))?;
        Ok(Site {
            name: part.name.to_owned(),
            recipe: part.recipe.clone(),
            prefix: without_links(&installed.prefix),
            directory: without_links(order.directory),
            settings: texts(order.settings),
            // What stands behind is reached by its socket only.
            with_port: order.with_port && part.is_front,
            launcher,
            open_files: OPEN_FILES,
            backend: behind,
        })
    }
}

/// One of the servers that an engine consists of.
struct Part<'a> {
    name: &'a str,
    driver: &'a str,
    recipe: &'a ServerRecipe,
    /// Whether it is the one that clients use.
    is_front: bool,
}

impl<'a> Part<'a> {
    fn own(order: &StartOrder<'a>, recipe: &'a ServerRecipe) -> Part<'a> {
        let engine = order.engine;
        Part { name: &engine.name, driver: &engine.driver, recipe, is_front: true }
    }

    fn behind(backend: &'a Backend) -> Part<'a> {
        let Backend { engine, driver, recipe, .. } = backend;
        Part { name: engine, driver, recipe, is_front: false }
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
    for (name, package) in plan.engines.iter().flat_map(PlannedEngine::packages) {
        let is_there = cache.as_ref().is_some_and(|cache| cache.installed(name, package).is_some());
        let download = package.sources.first().map_or(0, Source::bytes);
        if !is_there && download > 0 {
            missing.insert(name, download);
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
        processes: vec![running.pid()],
        backend: None,
    }
}

/// How the server's own database is opened.
fn options_of(
    server: &ServerOrder,
    settings: BTreeMap<String, String>,
) -> Result<OpenOptions, String> {
    Ok(OpenOptions {
        server: Some(server.server("own")?),
        ..OpenOptions::of_directory(PathBuf::new(), settings, 1)
    })
}

/// Opens the server's database, making it if need be, and reads version and settings back.
fn ask(
    part: &Part<'_>,
    server: &ServerOrder,
    settings: &BTreeMap<String, Value>,
) -> Result<Receipt, String> {
    let asked = asked::open(part.driver, &options_of(server, texts(settings))?);
    let receipt = asked.and_then(|asked| Ok(asked.receipt()?));
    receipt.map_err(|error| error.message)
}

/// Tells a server something in its database.
fn tell(part: &Part<'_>, server: &ServerOrder, statement: &str) -> Result<(), String> {
    let asked = asked::open(part.driver, &options_of(server, BTreeMap::new())?);
    let told = asked.and_then(|asked| Ok(asked.statement(statement)?));
    told.map(drop).map_err(|error| error.message)
}

impl Started {
    /// How one of its servers ended, with the last lines of its log, if one has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        let is_alone = self.running.len() == 1;
        self.running.iter_mut().find_map(|(name, running)| {
            let how = running.ended()?;
            Some(if is_alone { how } else { format!("{name}: {how}") })
        })
    }

    /// Stops it cleanly, the front first; what is not ours goes on.
    ///
    /// # Errors
    /// If it cannot be ended at all.
    pub fn stop(self) -> Result<(), Failure> {
        // The one behind is stopped also if the one in front cannot be.
        let stopped: Vec<_> =
            self.running.into_iter().map(|(_, running)| running.stop().map(drop)).collect();
        Ok(stopped.into_iter().collect::<Result<(), _>>()?)
    }

    /// Ends it at once.
    pub fn kill(self) {
        for (_, running) in self.running {
            running.kill();
        }
    }
}
