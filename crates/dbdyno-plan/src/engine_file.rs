//! An engine as written: engines/NAME/engine.toml says what it can do, what it promises and what can be set.
//!
//! Adding an engine that has a driver costs such a file and a line in `shipped`. What a chosen durability and a
//! configuration come to for one cell is worked out in `resolve`, what is missing for a workload in `matching`.

use std::collections::BTreeMap;

use dbdyno_workload::Setting;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, take_backend};
use crate::harness;
use crate::input_error::InputError;
use crate::library_recipe::LibraryRecipe;
use crate::package::Package;
use crate::server_recipe::{PassedAs, ServerRecipe};
use crate::shipped::{ENGINES, FAMILIES, NamedText};
use crate::toml_reader::{Entry, Table};
use crate::value::{Raw, Wanted};

/// How long an acknowledged commit is promised to last. An experiment chooses one by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing is promised.
    None,
    /// Lost within a stated time even if only the process dies.
    Delayed,
    /// Survives the death of the process, but not of the host.
    CommitWritten,
    /// Survives both.
    CommitSync,
}

impl Durability {
    /// All of them, weakest first.
    pub const ALL: [Durability; 4] =
        [Durability::None, Durability::Delayed, Durability::CommitWritten, Durability::CommitSync];
    /// Their names, in the same order.
    pub const NAMES: &'static [&'static str] =
        &["none", "delayed", "commit-written", "commit-sync"];

    /// The name that experiments and engine files use.
    pub fn name(self) -> &'static str {
        Durability::NAMES[self as usize]
    }

    /// The durability of that name.
    pub fn by_name(name: &str) -> Option<Durability> {
        Durability::ALL.into_iter().find(|durability| durability.name() == name)
    }
}

/// How often an engine forces its log at a durability, if it does what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogSyncs {
    /// Not at all.
    Never,
    /// At checkpoints or by a timer: far fewer than commits.
    CheckpointsOnly,
    /// For every commit, where commits that wait together may share one.
    EachCommitGroup,
}

/// More syncs than this share of commits cannot be checkpoints only.
const CHECKPOINT_SYNCS_PER_COMMIT_MAX: f64 = 0.1;
/// Syncs that a timer or the end of an interval may add however few commits there were.
const STRAY_SYNCS_MAX: u64 = 16;
/// Commits of one group: each client has at most one; the two ends of an interval may cut a group.
const CUT_GROUPS: u64 = 2;

impl LogSyncs {
    const NAMES: &'static [&'static str] = &["never", "checkpoints-only", "each-commit-group"];

    /// What contradicts the promise in the syncs seen during a trial, if anything does.
    pub fn contradiction(self, seen: SyncsSeen) -> Option<String> {
        let SyncsSeen { log_syncs, commits, dop } = seen;
        let few = (commits as f64 * CHECKPOINT_SYNCS_PER_COMMIT_MAX) as u64 + STRAY_SYNCS_MAX;
        let groups = (commits / u64::from(dop.max(1))).saturating_sub(CUT_GROUPS);
        let (broken, promise) = match self {
            LogSyncs::Never => (log_syncs > 0, "none".to_string()),
            LogSyncs::CheckpointsOnly => (log_syncs > few, format!("at most {few}")),
            LogSyncs::EachCommitGroup => (log_syncs < groups, format!("at least {groups}")),
        };
        broken.then(|| {
            format!("{log_syncs} log syncs for {commits} commits at DOP {dop}, expected {promise}")
        })
    }
}

/// What a trial counted, to hold against [`LogSyncs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncsSeen {
    /// Log syncs of the engine.
    pub log_syncs: u64,
    /// Acknowledged commits in the same interval.
    pub commits: u64,
    /// Concurrent clients.
    pub dop: u32,
}

/// What an engine does for one durability.
#[derive(Debug, Clone, PartialEq)]
pub enum DurabilityMapping {
    /// It can give it.
    Supported(Promise),
    /// It cannot, for this reason.
    Unsupported(String),
}

/// A durability that an engine can give.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    /// How it is reached.
    pub about: String,
    /// What happens to acknowledged commits when the process dies.
    pub process_death: String,
    /// What happens to acknowledged commits when the host dies.
    pub host_death: String,
    /// How often the log is forced.
    pub log_syncs: LogSyncs,
    /// Engine settings that bring it about; an experiment cannot set these directly.
    pub settings: BTreeMap<String, Setting>,
}

/// What an engine setting takes.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingKind {
    /// One of these words.
    Choice(Vec<String>),
    /// A whole number within bounds.
    Integer {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
        /// Whether only powers of two are allowed.
        power_of_two: bool,
    },
    /// Yes or no.
    Flag,
    /// Any text, for what only the server can judge.
    Text,
}

impl SettingKind {
    /// The same as what a value reader wants.
    pub fn wanted(&self) -> Wanted<'_> {
        match self {
            SettingKind::Choice(words) => {
                Wanted::Choice(words.iter().map(String::as_str).collect())
            }
            &SettingKind::Integer { min, max, power_of_two } => {
                Wanted::Integer { min, max, power_of_two }
            }
            SettingKind::Flag => Wanted::Flag,
            SettingKind::Text => Wanted::Text,
        }
    }
}

/// One setting of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSetting {
    /// What values it takes.
    pub kind: SettingKind,
    /// Value when nothing else is said.
    pub default: Setting,
    /// One sentence.
    pub about: String,
    /// Whether a loaded dataset is good for one value of it only.
    pub shapes_dataset: bool,
    /// The parameter of the experiment that it has its value from, unless it is set itself.
    pub follows: Option<String>,
}

/// A named set of settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// One sentence.
    pub about: String,
    /// What differs from the defaults.
    pub settings: BTreeMap<String, Setting>,
}

/// Rough speeds and sizes, for the expected cost of a plan only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineEstimates {
    /// Rows loaded per second.
    pub load_rows_per_s: f64,
    /// Updates per second while a dataset is aged.
    pub aging_updates_per_s: f64,
    /// Bytes on disk for each byte that the workload counts.
    pub disk_bytes_per_dataset_byte: f64,
}

/// An engine as written.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineFile {
    /// Name, also of its directory.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Driver that speaks to it.
    pub driver: String,
    /// How to get, start and stop it, if it is a server.
    pub server: Option<ServerRecipe>,
    /// How to get and open it, if it is a library that is opened at run time.
    pub library: Option<LibraryRecipe>,
    /// Whether it is a library inside the trial process.
    pub in_process: bool,
    /// What one update locks: `row`, `table` or `database`.
    pub lock_scope: String,
    /// What it is measured in place of, and in what respect, where the engine that was meant cannot be had.
    pub stands_in_for: Option<String>,
    /// Whether it keeps what it acknowledges; if not, checks are not run.
    pub keeps_rows: bool,
    /// Whether experiments that name no engines use it.
    pub default_for_experiments: bool,
    /// What it can do, in the words of `matching`.
    pub capabilities: Vec<String>,
    /// Rough speeds and sizes.
    pub estimates: EngineEstimates,
    /// What it does for each durability.
    pub durability: BTreeMap<Durability, DurabilityMapping>,
    /// Its settings.
    pub settings: BTreeMap<String, EngineSetting>,
    /// Its configurations; `base` is always there.
    pub configurations: BTreeMap<String, Configuration>,
}

/// Configuration that is used when none is named.
pub const BASE_CONFIGURATION: &str = "base";
const LOCK_SCOPES: &[&str] = &["row", "table", "database"];

impl EngineFile {
    /// Reads an engine file. `file` is the name that messages use. A file with `family = "NAME"` is put over that
    /// family's file, one with `like = "NAME"` over that engine's: it says only what is different. One with `[backend]`
    /// has that engine's promises and settings.
    pub fn parse(file: &str, text: &str) -> Result<EngineFile, InputError> {
        let root = over_bases(Table::parse(file, text)?)?;
        let (mut root, backend) = take_backend(root)?;
        let (settings, passed_as) = read_settings(root.table("settings")?)?;
        let durability = read_durabilities(root.table("durability")?, &settings)?;
        let reserved = reserved_settings(&durability);
        let configurations = read_configurations(
            root.required("configurations")?.into_table()?,
            &settings,
            &reserved,
        )?;
        let estimates = read_estimates(root.required("estimates")?.into_table()?)?;
        let capabilities = root.required("capabilities")?.texts()?;
        let default_for_experiments =
            root.optional("default_for_experiments").map_or(Ok(false), |entry| entry.flag())?;
        let (server, library) = read_recipe(&mut root, passed_as, backend)?;
        let engine = EngineFile {
            server,
            library,
            name: root.required("name")?.name()?,
            about: root.required("about")?.text()?,
            driver: root.required("driver")?.name()?,
            in_process: root.required("in_process")?.flag()?,
            stands_in_for: root.optional("stands_in_for").map(|entry| entry.text()).transpose()?,
            lock_scope: root.required("lock_scope")?.word(LOCK_SCOPES)?,
            keeps_rows: root.required("keeps_rows")?.flag()?,
            default_for_experiments,
            capabilities: capabilities.into_iter().map(|(word, _)| word).collect(),
            estimates,
            durability,
            settings,
            configurations,
        };
        root.finish()?;
        Ok(engine)
    }

    /// What is to be installed for it, with the names it is installed under; nothing, if it is built into the program.
    pub fn packages(&self) -> Vec<(&str, Package<'_>)> {
        packages(&self.name, self.server.as_ref(), self.library.as_ref())
    }

    /// Whether a setting belongs to durability and so cannot be set directly.
    pub fn is_reserved(&self, setting: &str) -> bool {
        reserved_settings(&self.durability).contains(&setting)
    }
}

/// What a server or a library needs installed, its own part first.
pub(crate) fn packages<'a>(
    name: &'a str,
    server: Option<&'a ServerRecipe>,
    library: Option<&'a LibraryRecipe>,
) -> Vec<(&'a str, Package<'a>)> {
    let library = library.map(|library| (name, library.package()));
    server.map_or_else(|| library.into_iter().collect(), |server| server.packages(name))
}

/// `[server]` or `[library]`, whichever there is, with the `[[source]]` that it needs.
fn read_recipe(
    root: &mut Table,
    mut passed_as: BTreeMap<String, PassedAs>,
    backend: Option<Backend>,
) -> Result<(Option<ServerRecipe>, Option<LibraryRecipe>), InputError> {
    let sources = root.optional("source");
    match (root.optional("server"), root.optional("library"), sources) {
        (Some(server), None, Some(sources)) => {
            let recipe = ServerRecipe::read(&sources, server.into_table()?)?;
            if let Some(backend) = &backend {
                passed_as.retain(|name, _| !backend.recipe.settings.contains_key(name));
            }
            let backend = backend.map(Box::new);
            Ok((Some(ServerRecipe { settings: passed_as, backend, ..recipe }), None))
        }
        (None, Some(library), Some(sources)) => {
            Ok((None, Some(LibraryRecipe::read(&sources, library.into_table()?)?)))
        }
        (Some(_), Some(library), _) => Err(library.wrong("cannot stand beside [server]")),
        (Some(only), None, None) | (None, Some(only), None) => {
            Err(only.wrong("needs a [[source]] beside it"))
        }
        (None, None, Some(only)) => Err(only.wrong("needs a [server] or [library] beside it")),
        (None, None, None) => Ok((None, None)),
    }
}

fn reserved_settings(durability: &BTreeMap<Durability, DurabilityMapping>) -> Vec<&str> {
    let promises = durability.values().filter_map(|mapping| match mapping {
        DurabilityMapping::Supported(promise) => Some(promise),
        DurabilityMapping::Unsupported(_) => None,
    });
    promises.flat_map(|promise| promise.settings.keys().map(String::as_str)).collect()
}

/// The table over the engine's and the family's file that it names.
pub(crate) fn over_bases(root: Table) -> Result<Table, InputError> {
    put_over(put_over(root, "like", ENGINES)?, "family", FAMILIES)
}

/// The table over the text that its key `key` names, or as it is without that key.
fn put_over(mut root: Table, key: &str, known: &[NamedText<'static>]) -> Result<Table, InputError> {
    let Some(entry) = root.optional(key) else { return Ok(root) };
    let names: Vec<&str> = known.iter().map(|known| known.name).collect();
    let word = entry.word(&names)?;
    let below = known.iter().find(|known| known.name == word);
    below.map_or(Ok(root.clone()), |below| Ok(root.over(Table::parse(below.file, below.text)?)))
}

type Declared = (BTreeMap<String, EngineSetting>, BTreeMap<String, PassedAs>);

fn read_settings(mut table: Table) -> Result<Declared, InputError> {
    let (mut settings, mut passed_as) = (BTreeMap::new(), BTreeMap::new());
    for entry in table.rest() {
        let name = entry.key.clone();
        let mut table = entry.into_table()?;
        if table.optional("absent").map_or(Ok(false), |entry| entry.flag())? {
            // A setting of the family that this version does not know: what the family says of it is dropped.
            continue;
        }
        let kind = read_kind(&mut table)?;
        let shapes_dataset =
            table.optional("shapes_dataset").map_or(Ok(false), |entry| entry.flag())?;
        if let Some(entry) = table.optional("passed_as") {
            passed_as.insert(name.clone(), read_passed_as(entry)?);
        }
        let follows = table.optional("follows");
        let default = match &follows {
            Some(follows) => followed_default(follows)?.read(&kind.wanted())?,
            None => table.required("default")?.read(&kind.wanted())?,
        };
        let follows = follows.map(|entry| entry.text()).transpose()?;
        let about = table.required("about")?.text()?;
        table.finish()?;
        settings.insert(name, EngineSetting { default, about, kind, shapes_dataset, follows });
    }
    Ok((settings, passed_as))
}

fn read_kind(table: &mut Table) -> Result<SettingKind, InputError> {
    let kinds = ["choice", "integer", "flag", "text"];
    Ok(match table.required("kind")?.word(&kinds)?.as_str() {
        "choice" => SettingKind::Choice(
            table.required("choices")?.texts()?.into_iter().map(|(word, _)| word).collect(),
        ),
        "integer" => {
            let min = table.required("min")?.integer(0..=u64::MAX)?;
            let max = table.required("max")?.integer(min..=u64::MAX)?;
            let power_of_two =
                table.optional("power_of_two").map_or(Ok(false), |entry| entry.flag())?;
            SettingKind::Integer { min, max, power_of_two }
        }
        "flag" => SettingKind::Flag,
        _ => SettingKind::Text,
    })
}

/// The default of the parameter that a setting follows, as if it were written in the setting's place.
fn followed_default(follows: &Entry) -> Result<Entry, InputError> {
    let names: Vec<&str> = harness::PARAMETERS.iter().map(|known| known.name).collect();
    let word = follows.word(&names)?;
    let parameter = harness::PARAMETERS.iter().find(|known| known.name == word);
    let default = parameter.map_or("", |known| known.default);
    Ok(Entry { value: Raw::Word(default.to_owned()), ..follows.clone() })
}

/// A text or list of texts with `{value}` in it, or a table of such for each value.
fn read_passed_as(entry: Entry) -> Result<PassedAs, InputError> {
    let arguments = |entry: &Entry| match &entry.value {
        Raw::List(_) => entry.items()?.iter().map(Entry::text).collect(),
        _ => Ok(vec![entry.text()?]),
    };
    if !matches!(entry.value, Raw::Table(_)) {
        return Ok(PassedAs::Argument(arguments(&entry)?));
    }
    let by_value = entry.into_table()?.rest().into_iter();
    let by_value = by_value.map(|entry| Ok((entry.key.clone(), arguments(&entry)?)));
    Ok(PassedAs::ByValue(by_value.collect::<Result<_, _>>()?))
}

/// Values for declared settings, with the kinds that they were declared with.
fn read_values(
    entries: Vec<Entry>,
    settings: &BTreeMap<String, EngineSetting>,
) -> Result<BTreeMap<String, Setting>, InputError> {
    let mut values = BTreeMap::new();
    for entry in entries {
        let known = settings.keys().map(String::as_str);
        let setting = settings.get(&entry.key).ok_or_else(|| entry.unknown(known))?;
        values.insert(entry.key.clone(), entry.read(&setting.kind.wanted())?);
    }
    Ok(values)
}

fn read_durabilities(
    mut table: Table,
    settings: &BTreeMap<String, EngineSetting>,
) -> Result<BTreeMap<Durability, DurabilityMapping>, InputError> {
    let mut mappings = BTreeMap::new();
    for durability in Durability::ALL {
        let mut one = table.required(durability.name())?.into_table()?;
        let mapping = match one.optional("unsupported") {
            Some(reason) => DurabilityMapping::Unsupported(reason.text()?),
            None => {
                let log_syncs = one.required("log_syncs")?.word(LogSyncs::NAMES)?;
                DurabilityMapping::Supported(Promise {
                    about: one.required("about")?.text()?,
                    process_death: one.required("process_death")?.text()?,
                    host_death: one.required("host_death")?.text()?,
                    log_syncs: match log_syncs.as_str() {
                        "never" => LogSyncs::Never,
                        "checkpoints-only" => LogSyncs::CheckpointsOnly,
                        _ => LogSyncs::EachCommitGroup,
                    },
                    settings: read_values(one.table("settings")?.rest(), settings)?,
                })
            }
        };
        one.finish()?;
        mappings.insert(durability, mapping);
    }
    table.finish()?;
    Ok(mappings)
}

fn read_configurations(
    mut table: Table,
    settings: &BTreeMap<String, EngineSetting>,
    reserved: &[&str],
) -> Result<BTreeMap<String, Configuration>, InputError> {
    let mut configurations = BTreeMap::new();
    let mut entries = vec![table.required(BASE_CONFIGURATION)?];
    entries.extend(table.rest());
    for entry in entries {
        let name = entry.key.clone();
        let mut table = entry.into_table()?;
        let about = table.required("about")?.text()?;
        let values = table.table("settings")?.rest();
        if let Some(entry) = values.iter().find(|entry| reserved.contains(&entry.key.as_str())) {
            return Err(entry.wrong("belongs to [durability]; leave it out here"));
        }
        let settings = read_values(values, settings)?;
        table.finish()?;
        configurations.insert(name, Configuration { about, settings });
    }
    Ok(configurations)
}

fn read_estimates(mut table: Table) -> Result<EngineEstimates, InputError> {
    let estimates = EngineEstimates {
        load_rows_per_s: table.required("load_rows_per_s")?.number(1.0..=1e12)?,
        aging_updates_per_s: table.required("aging_updates_per_s")?.number(1.0..=1e12)?,
        disk_bytes_per_dataset_byte: table
            .required("disk_bytes_per_dataset_byte")?
            .number(0.0..=1000.0)?,
    };
    table.finish()?;
    Ok(estimates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    #[test]
    fn shipped_engines_map_durability_as_documented() {
        let check = |engine: &str, durability: Durability, expected: &str| {
            let shipped = shipped::ENGINES.iter().find(|shipped| shipped.name == engine).unwrap();
            let file = EngineFile::parse(shipped.file, shipped.text).unwrap();
            assert_eq!(file.name, engine);
            let shown = match &file.durability[&durability] {
                DurabilityMapping::Supported(promise) => {
                    format!("{:?} {:?}", promise.log_syncs, promise.settings)
                }
                DurabilityMapping::Unsupported(_) => "unsupported".to_string(),
            };
            assert_eq!(shown, expected, "{engine} {durability:?}");
        };
        use Durability::{CommitSync, CommitWritten, Delayed, None};
        check("sqlite", None, r#"Never {"synchronous": Text("off")}"#);
        check("sqlite", Delayed, "unsupported");
        check("sqlite", CommitWritten, r#"CheckpointsOnly {"synchronous": Text("normal")}"#);
        check("sqlite", CommitSync, r#"EachCommitGroup {"synchronous": Text("full")}"#);
        check("lmdb", None, r#"Never {"no_sync": Flag(true), "write_map": Flag(true)}"#);
        check("lmdb", CommitWritten, r#"Never {"no_sync": Flag(true), "write_map": Flag(false)}"#);
        check(
            "lmdb",
            CommitSync,
            r#"EachCommitGroup {"no_sync": Flag(false), "write_map": Flag(false)}"#,
        );
        check("null", None, "Never {}");
        check("null", CommitWritten, "unsupported");
        check("memory", CommitSync, "unsupported");
    }

    #[test]
    fn faults_in_an_engine_file_name_line_and_key() {
        let good = shipped::ENGINES.iter().find(|engine| engine.name == "sqlite").unwrap().text;
        let check = |from: &str, to: &str, expected: &str| {
            assert!(good.contains(from), "{from}");
            let text = good.replacen(from, to, 1);
            let line = 1 + text[..text.find(to).unwrap()].matches('\n').count();
            let error = EngineFile::parse("engine.toml", &text).unwrap_err().to_string();
            assert_eq!(error, format!("engine.toml:{line}: {expected}"), "{to}");
        };
        check(
            "in_process = true",
            "in_proces = true\nin_process = true",
            r#"unknown key "in_proces"; did you mean "in_process"?"#,
        );
        check(
            "\"database\"",
            "\"page\"",
            r#""lock_scope" wants one of row, table, database; found the text "page""#,
        );
        check(
            "settings = { synchronous = \"off\" }",
            "settings = { synchronus = \"off\" }",
            r#"unknown key "synchronus" in [durability.none.settings]; did you mean "synchronous"?"#,
        );
        check(
            "settings = { synchronous = \"full\" }",
            "settings = { synchronous = \"fulll\" }",
            r#""synchronous" in [durability.commit-sync.settings] wants one of off, normal, full; found the text "fulll"; did you mean "full"?"#,
        );
        check(
            "default = 10_000",
            "default = 0",
            r#""default" in [settings.busy_timeout_ms] wants a whole number from 1 to 3600000; found 0"#,
        );
        check(
            "log_syncs = \"never\"",
            "log_syncs = 3",
            r#""log_syncs" in [durability.none] wants one of never, checkpoints-only, each-commit-group; found 3"#,
        );
        check(
            "[configurations.base]",
            "[configurations.other]",
            r#"key "base" is missing in [configurations]"#,
        );
        check(
            "about = \"Every setting at its default.\"",
            "settings.synchronous = 'off'\nabout = 'x'",
            r#""synchronous" in [configurations.base.settings] belongs to [durability]; leave it out here"#,
        );
    }

    #[test]
    fn an_engine_can_do_without_a_setting_of_its_family() {
        let good = shipped::ENGINES.iter().find(|engine| engine.name == "postgres-18").unwrap();
        let parse = |text: &str| EngineFile::parse("engine.toml", text).unwrap();
        assert!(parse(good.text).settings.contains_key("huge_pages"));
        let text = format!("{}\n[settings.huge_pages]\nabsent = true\n", good.text);
        let without = parse(&text);
        assert!(!without.settings.contains_key("huge_pages"));
        assert!(!without.server.unwrap().settings.contains_key("huge_pages"));
    }

    #[test]
    fn syncs_that_contradict_a_promise_are_named() {
        let check = |promise: LogSyncs, log_syncs, commits, dop, contradicts| {
            let found = promise.contradiction(SyncsSeen { log_syncs, commits, dop });
            assert_eq!(
                found.is_some(),
                contradicts,
                "{promise:?} {log_syncs}/{commits}: {found:?}"
            );
        };
        check(LogSyncs::Never, 0, 1000, 1, false);
        check(LogSyncs::Never, 1, 1000, 1, true);
        check(LogSyncs::CheckpointsOnly, 100, 1000, 1, false);
        check(LogSyncs::CheckpointsOnly, 1000, 1000, 1, true);
        check(LogSyncs::EachCommitGroup, 998, 1000, 1, false);
        check(LogSyncs::EachCommitGroup, 0, 1000, 1, true);
        check(LogSyncs::EachCommitGroup, 20, 1000, 64, false);
        check(LogSyncs::EachCommitGroup, 10, 1000, 64, true);
    }
}
