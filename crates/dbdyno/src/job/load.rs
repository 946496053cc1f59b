//! Loads a dataset: into a template directory of an engine library, or into a server that runs already.

use super::load_cost::{LoadCost, LoadMeter};
use super::{LoadOrder, Order, Report, tell};
use crate::failure::Failure;
use crate::template::{State, Template};
use crate::workspace::cannot;
use dbdyno_load::dataset::{self, LoadProgress, LoadTimes};
use dbdyno_load::driver::{Driver, OpenOptions};
use dbdyno_load::measure::{Boundary, Observer};
use dbdyno_load::recorder::Interval;
use dbdyno_load::trial::insert_benchmark::{InsertTrial, LOAD_ROWS_PER_COMMIT};
use dbdyno_load::with_driver;
use dbdyno_plan::ClientLoad;
use dbdyno_workload::{Seed, insert_benchmark};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Makes the dataset complete. Returns what that cost; nothing if it was complete before.
pub fn load(order: &Order, load: &LoadOrder) -> Result<Option<LoadCost>, Failure> {
    with_driver!(order.engine.driver.as_str(), D => match order.engine.server {
        Some(_) => into_server::<D>(order, load),
        None => into_directory::<D>(order, load),
    })
}

fn into_directory<D: Driver>(order: &Order, load: &LoadOrder) -> Result<Option<LoadCost>, Failure> {
    if !D::KEEPS_FILES {
        return Ok(None);
    }
    let options = order.open_options(1, &ClientLoad::default())?;
    fs::create_dir_all(&load.template).map_err(cannot("make", &load.template))?;
    let version = version_of::<D>(&options, &load.template)?;
    order.engine.check_series(&version)?;
    let template = Template::open(&load.template, &load.fingerprint, &version)?;
    if template.begin(&options.directory)? == State::Complete {
        return Ok(None);
    }
    template.begun()?;
    begin(order)?;
    let cost = complete::<D>(&options, order)?;
    template.complete()?;
    Ok(Some(cost))
}

/// On a server that the user named there is no template: what an earlier load left is used if it is the same dataset,
/// and replaced if it is not. The template of a server of ours is in the parent's hands.
fn into_server<D: Driver>(order: &Order, load: &LoadOrder) -> Result<Option<LoadCost>, Failure> {
    let options = order.open_options(1, &ClientLoad::default())?;
    begin(order)?;
    D::create_database(&options)?;
    let is_named = order.engine.server.as_ref().is_some_and(|server| server.is_named);
    if is_named {
        let driver = D::open(&options)?;
        if driver.noted_dataset()?.as_ref() == Some(&load.fingerprint) {
            return Ok(None);
        }
        drop(driver);
        D::drop_database(&options)?;
        D::create_database(&options)?;
        let cost = complete::<D>(&options, order)?;
        D::open(&options)?.note_dataset(&load.fingerprint)?;
        return Ok(Some(cost));
    }
    complete::<D>(&options, order).map(Some)
}

/// Says that from here on only the engine is waited for.
fn begin(order: &Order) -> Result<(), Failure> {
    let total = match order.workload_name.as_str() {
        insert_benchmark::NAME => purchase_rows(order)?,
        _ => LoadProgress::none(&order.dataset()?).total,
    };
    tell_progress(LoadProgress { done: 0, total });
    Ok(())
}

fn tell_progress(LoadProgress { done, total }: LoadProgress) {
    tell(&Report::Loading { done, total });
}

fn complete<D: Driver>(options: &OpenOptions, order: &Order) -> Result<LoadCost, Failure> {
    let meter =
        LoadMeter::start(order.engine.server.as_ref().map_or(&[], |server| &server.processes))?;
    let driver = D::open(options)?;
    let (rows, times) = match order.workload_name.as_str() {
        insert_benchmark::NAME => purchases(&driver, order)?,
        _ => counters(&driver, order)?,
    };
    meter.cost(rows, times, &order.engine.data_directory)
}

/// Rows of `hot_row`.
fn counters<D: Driver>(driver: &D, order: &Order) -> Result<(u64, LoadTimes), Failure> {
    let dataset = order.dataset()?;
    let mut last_told = Instant::now();
    let times = dataset::load(driver, &dataset, &mut |progress| {
        if last_told.elapsed() >= REPORT_EVERY || progress.done == progress.total {
            last_told = Instant::now();
            tell_progress(progress);
        }
    })?;
    Ok((dataset.rows * u64::from(dataset.tables), times))
}

/// Rows that `insert_benchmark` begins with.
fn purchase_rows(order: &Order) -> Result<u64, Failure> {
    let workload = order.insert_benchmark()?;
    Ok(workload.dataset(Seed(order.dataset_seed), order.clients).rows_total())
}

/// Rows of `insert_benchmark`.
fn purchases<D: Driver>(driver: &D, order: &Order) -> Result<(u64, LoadTimes), Failure> {
    /// Tells the parent each second how far it is.
    struct Telling {
        done: u64,
        total: u64,
    }
    impl Observer for Telling {
        fn boundary(&mut self, _: Boundary, _: &[u32]) {}

        fn interval(&mut self, interval: Interval) {
            let requests: u64 = interval.classes.iter().map(|class| class.completed).sum();
            self.done += requests * u64::from(LOAD_ROWS_PER_COMMIT);
            tell_progress(LoadProgress { done: self.done.min(self.total), total: self.total });
        }
    }
    let (workload, seed) = (order.insert_benchmark()?, Seed(order.dataset_seed));
    let mut telling = Telling { done: 0, total: purchase_rows(order)? };
    let started = Instant::now();
    let rows = InsertTrial::load(driver, workload, seed, order.clients, &mut telling)?;
    let insert_s = started.elapsed().as_secs_f64();
    driver.settle()?;
    let settle_s = started.elapsed().as_secs_f64() - insert_s;
    Ok((rows, LoadTimes { insert_s, age_s: 0.0, settle_s }))
}

/// The library's version, asked of an empty database beside the template, which is removed again.
fn version_of<D: Driver>(options: &OpenOptions, template: &Path) -> Result<String, Failure> {
    let directory = template.join(format!("version-{}", std::process::id()));
    let options = OpenOptions { directory: directory.clone(), ..options.clone() };
    let version = D::open(&options)?.receipt()?.version;
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(cannot("remove", &directory))?;
    }
    Ok(version)
}
