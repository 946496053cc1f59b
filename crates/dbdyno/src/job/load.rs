//! Loads a dataset into a template directory, or finds it there.
//!
//! A template is complete when `complete.json` says so for the same fingerprint and the same engine version. One that
//! was left half loaded goes on where it stopped, unless the host was restarted since: loading forces nothing to disk
//! before its end, so what an unclean restart left cannot be trusted and is loaded again.

use super::{LoadOrder, Order, Report, tell};
use crate::failure::Failure;
use crate::workspace::cannot;
use dbdyno_load::driver::{Driver, OpenOptions, STORAGE_FORMAT};
use dbdyno_load::{dataset, with_driver};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const COMPLETE: &str = "complete.json";
const LOADING: &str = "loading.json";
const LOCK: &str = "lock";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// What a template directory says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    fingerprint: String,
    engine_version: String,
    storage_format: u32,
    boot_id: String,
}

/// Makes the template complete. Returns whether it was complete before.
pub fn load(order: &Order, load: &LoadOrder) -> Result<bool, Failure> {
    fs::create_dir_all(&load.template).map_err(cannot("make", &load.template))?;
    // Another run may be loading the same template: whoever comes second waits and finds it complete.
    let lock_path = load.template.join(LOCK);
    let lock = fs::File::create(&lock_path).map_err(cannot("make", &lock_path))?;
    lock.lock().map_err(cannot("lock", &lock_path))?;
    with_driver!(order.engine.driver.as_str(), D => complete::<D>(order, load))
}

fn complete<D: Driver>(order: &Order, load: &LoadOrder) -> Result<bool, Failure> {
    if !D::KEEPS_FILES {
        return Ok(true);
    }
    let options = order.open_options(1);
    let marker = Marker {
        fingerprint: load.fingerprint.clone(),
        engine_version: version_of::<D>(&options, &load.template)?,
        storage_format: STORAGE_FORMAT,
        boot_id: fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned(),
    };
    let finished = read_marker(&load.template.join(COMPLETE));
    let same = |found: &Marker| {
        // Once complete and forced to disk, it does not matter whether the host was restarted since.
        *found == Marker { boot_id: found.boot_id.clone(), ..marker.clone() }
    };
    if finished.as_ref().is_some_and(same) {
        return Ok(true);
    }
    if read_marker(&load.template.join(LOADING)).as_ref() != Some(&marker) {
        remove_if_there(&load.template.join(COMPLETE))?;
        if options.directory.exists() {
            fs::remove_dir_all(&options.directory).map_err(cannot("remove", &options.directory))?;
        }
    }
    write_marker(&load.template.join(LOADING), &marker)?;
    let driver = D::open(&options)?;
    let mut last_told = Instant::now();
    dataset::load(&driver, &order.dataset()?, &mut |progress| {
        if last_told.elapsed() >= REPORT_EVERY {
            last_told = Instant::now();
            tell(&Report::Loading { done: progress.done, total: progress.total });
        }
    })?;
    drop(driver);
    write_marker(&load.template.join(COMPLETE), &marker)?;
    remove_if_there(&load.template.join(LOADING))?;
    Ok(false)
}

/// The engine's version, asked of an empty database beside the template, which is removed again.
fn version_of<D: Driver>(options: &OpenOptions, template: &Path) -> Result<String, Failure> {
    let directory = template.join("version");
    let options = OpenOptions { directory: directory.clone(), ..options.clone() };
    let version = D::open(&options)?.receipt()?.version;
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(cannot("remove", &directory))?;
    }
    Ok(version)
}

fn read_marker(path: &Path) -> Option<Marker> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Writes a marker so that it is there whole or not at all, also after a host crash.
fn write_marker(path: &Path, marker: &Marker) -> Result<(), Failure> {
    let text = serde_json::to_string(marker).map_err(Failure::json)?;
    let partial = path.with_extension("partial");
    let write = || {
        let file = fs::File::create(&partial)?;
        std::io::Write::write_all(&mut &file, text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        path.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
    };
    write().map_err(cannot("write", path))
}

fn remove_if_there(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot("remove", path)(error))
        }
        _ => Ok(()),
    }
}
