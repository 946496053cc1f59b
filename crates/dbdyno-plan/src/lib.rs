//! From an experiment as written to a plan: every default filled in, every trial listed, nothing left to decide.
//!
//! Pure: texts and arguments in, a [`Plan`] or an [`InputError`] out; no file, clock or environment is touched.
//! The way through: `request` (what was asked) and `experiment` and `engine_file` (as written, read strictly by
//! `toml_reader`) -> `resolve` (factors and settings) -> `matching` (what cannot run) -> `order` -> `plan`; `planning` puts them together.

mod backend;
mod catalogue;
mod engine_file;
pub mod estimate;
mod experiment;
mod harness;
mod input_error;
mod library_recipe;
mod matching;
mod nearest;
mod order;
mod package;
mod plan;
mod planning;
mod request;
mod resolve;
mod server_recipe;
mod shipped;
mod step;
mod toml_reader;
mod value;

pub use backend::Backend;
pub use catalogue::Catalogue;
pub use engine_file::{
    Configuration, Durability, DurabilityMapping, EngineEstimates, EngineFile, EngineSetting,
    LogSyncs, Promise, SettingKind, SyncsSeen,
};
pub use estimate::{Expected, ExpectedPart};
pub use experiment::{ExperimentFile, Order, SCALES, Scale};
pub use harness::{Arrival, ClientLoad, Load, PARAMETERS as HARNESS_PARAMETERS, SEED_MAX};
pub use input_error::{InputError, Place};
pub use library_recipe::{LibraryRecipe, Shim};
pub use nearest::{nearest, suggestion};
pub use package::{BuildCommand, Package, Source, Unpack};
pub use plan::{
    Fate, PLAN_FORMAT, Plan, PlanReadError, PlannedBlock, PlannedDataset, PlannedEngine,
    PlannedFactor, PlannedPromise, PlannedTrial, PlannedWorkload,
};
pub use planning::{TRIALS_MAX, plan, read_engines};
pub use request::{ExperimentSource, PlanRequest};
pub use server_recipe::{InitCommand, PassedAs, ServerRecipe, SettleStep};
pub use shipped::{ENGINES, EXPERIMENTS, FAMILIES, NamedText, SHIMS};
pub use step::{PlannedRole, PlannedStep, StepWork};
pub use toml_reader::{Entry, Table};
pub use value::{Item, Raw, SyntaxCheck, Value, Wanted};
