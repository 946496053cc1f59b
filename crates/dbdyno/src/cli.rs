//! The command line as written: names, defaults and help texts. What each command does is in `cmd/`.

use crate::cache_directory::CacheArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A dynamometer for database engines.
///
/// One experiment file becomes a plan, the plan becomes trials, each in a process of its own, and the trials become a
/// sealed run that can be shown, exported and trusted.
#[derive(Debug, Parser)]
#[command(name = "dbdyno", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Exit codes, for scripts. Kept in step with `exit_code.rs` by a test.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done; every planned trial is Measured, NotRun or Unsupported
  1  an error that has no code of its own
  2  the command line cannot be understood
  3  an input is wrong: experiment, engine, setting, --set
  4  there is no such run, or its record cannot be read
  5  a record was changed after it was written, or is of a newer format
  6  the results directory cannot be written
  7  this host should not start a run (doctor)
  8  a trial Failed
  9  a trial is Invalid: its check failed
  10  an engine could not be fetched, or is not what its file promises
  11  a server could not be started, or does not answer
  130  stopped by Ctrl-C or a termination signal; what was measured is kept";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what a run would do, how long it takes and what it needs, and do nothing.
    Plan(PlanArgs),
    /// Run an experiment: load, measure, check, seal, and print the result.
    Run(RunArgs),
    /// Print the tables of one run, or of several side by side.
    Show(ShowArgs),
    /// Write a run as one long table, one observation a row.
    Export(ExportArgs),
    /// Say what this host is, what would spoil a measurement, and what to do about it.
    Doctor(DoctorArgs),
    /// What engines there are; get, check and remove those that are servers.
    #[command(subcommand)]
    Engines(EnginesCommand),
    /// One job of a run, in a process of its own. Started by `run`, reads its order from standard input.
    #[command(hide = true)]
    Job,
    /// Becomes a server. Started for each server, reads its order from standard input.
    #[command(hide = true)]
    Launch,
}

/// What to measure: common to `plan` and `run`.
#[derive(Debug, Args)]
pub struct Question {
    /// Name of a shipped experiment, or path of an experiment file of your own (with a `/` or ending in `.toml`).
    pub experiment: Option<String>,
    /// Engines instead of the experiment's own, separated by commas: names or unambiguous beginnings, perhaps with a
    /// configuration (mariadb-10.11:myrocks); a build of your own ([NAME=]path:DIR[@LIKE]); a server that runs already
    /// ([NAME=]url:postgres://USER@HOST:PORT, or mysql:// or mongodb://, password in DBDYNO_PASSWORD). On a server that
    /// you name only the database dbdyno is made, used and replaced.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// How large: smoke, laptop or paper. Default: the experiment's own, usually laptop.
    #[arg(long, value_name = "SCALE")]
    pub scale: Option<String>,
    /// A first look: smoke's data, one block, 0.3 s of warm-up and 1 s measured, no device profile.
    #[arg(long, conflicts_with = "scale")]
    pub quick: bool,
    /// Set factors or parameters: `--set tables=1,dop=64`; a list varies: `--set dop=1,8,64`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Where runs are.
#[derive(Debug, Args)]
pub struct Results {
    /// Directory that holds runs, one directory each.
    // With an id of its own: clap takes the field's name, which the other arguments for directories have too.
    #[arg(id = "results", long = "results", value_name = "DIR", default_value = "results")]
    pub directory: PathBuf,
}

/// `dbdyno plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What to measure.
    #[command(flatten)]
    pub question: Question,
    /// Print the whole plan as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `dbdyno run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to measure.
    #[command(flatten)]
    pub question: Question,
    /// Where runs are.
    #[command(flatten)]
    pub results: Results,
    /// Go on with a run that was stopped: its id or path. Its plan is used; sealed trials stay as they are.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Where installed engines are.
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Download nothing: engines that are not installed yet are an error.
    #[arg(long)]
    pub offline: bool,
    /// Keep the data directory of a server in which a trial failed, in DIR/kept/RUN.
    #[arg(long)]
    pub keep_data: bool,
    /// Drop the database dbdyno at the end, on servers that you named.
    #[arg(long)]
    pub drop: bool,
    /// Print no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// `dbdyno show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Runs: ids, unambiguous beginnings of ids, or paths.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Where runs are.
    #[command(flatten)]
    pub results: Results,
    /// Metrics to tabulate instead of throughput; names as `export` has them, separated by commas.
    #[arg(long, value_name = "METRICS", value_delimiter = ',', default_value = "throughput_per_s")]
    pub metric: Vec<String>,
    /// Short for the costs of an operation: CPU, context switches and service time.
    #[arg(long)]
    pub costs: bool,
    /// Also print each cell's ratio to this engine's, with n and the range that single blocks would give.
    #[arg(long, value_name = "ENGINE")]
    pub relative_to: Option<String>,
    /// Also check every detail file against its hash.
    #[arg(long)]
    pub verify: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `dbdyno export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run: id, unambiguous beginning of an id, or path.
    pub run: String,
    /// Where runs are.
    #[command(flatten)]
    pub results: Results,
    /// The form.
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    pub format: ExportFormat,
}

/// Forms of the long table.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON array of objects.
    Json,
}

/// `dbdyno doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Where runs are: the directory whose disk counts.
    #[command(flatten)]
    pub results: Results,
    /// Also measure the instrument: clock, null driver, timers (about five seconds).
    #[arg(long)]
    pub instrument: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `dbdyno engines`
#[derive(Debug, Subcommand)]
pub enum EnginesCommand {
    /// List engines: which are fetched, driver, lock scope, durability names, settings.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Where fetched engines are.
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Get servers and install them into the cache, through the package clients of this host.
    Fetch {
        /// Engines.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Where fetched engines are.
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Hash the files of fetched engines again and name those that are not what was installed.
    Verify {
        /// Engines.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Where fetched engines are.
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Remove fetched engines from the cache.
    Remove {
        /// Engines.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Where fetched engines are.
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Start a server and keep it running until `down` or Ctrl-C; prints how to connect.
    Up(UpArgs),
    /// Stop a server that `up` started.
    Down(DownArgs),
    /// Start a server for a moment and print the settings that it has in effect.
    Settings(SettingsArgs),
}

/// `dbdyno engines up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The engine, perhaps with a configuration.
    #[arg(value_name = "NAME")]
    pub engine: String,
    /// Set parameters: `--set cache_mb=512,durability=commit-sync`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Also listen on a loopback port.
    #[arg(long)]
    pub port: bool,
    /// Keep the data in this directory and use what is there. Default: a directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Where fetched engines are.
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// `dbdyno engines down`
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The engine, as it was given to `up`.
    #[arg(value_name = "NAME")]
    pub engine: String,
    /// Where fetched engines are.
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// `dbdyno engines settings`
#[derive(Debug, Args)]
pub struct SettingsArgs {
    /// The engine, perhaps with a configuration, or a server that runs already (url:...).
    #[arg(value_name = "NAME")]
    pub engine: String,
    /// Set parameters: `--set cache_mb=512`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where fetched engines are.
    #[command(flatten)]
    pub cache: CacheArgs,
}
