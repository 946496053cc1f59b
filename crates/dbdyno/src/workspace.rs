//! Where a run keeps data that is not its record: templates that runs share, and copies that blocks use up.
//!
//! Both lie in the results directory: `cache/datasets/` stays, `.work/RUN/` goes with the run. What a killed run left in
//! `.work` is swept by the next one; a lock tells which runs are alive.

use crate::exit_code;
use crate::failure::Failure;
use dbdyno_host::copy::copy_directory;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

const LOCK_ENDING: &str = "lock";

/// The working directory of one run, removed when it is dropped.
pub struct Workspace {
    directory: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl Workspace {
    /// Makes the working directory of a run, empty, and sweeps those of runs that are no longer alive.
    ///
    /// # Errors
    /// If the results directory cannot be written, or another process works on the same run.
    pub fn create(results: &Path, run: &str) -> Result<Self, Failure> {
        let work = results.join(".work");
        fs::create_dir_all(&work).map_err(cannot("make", &work))?;
        let lock_path = work.join(format!("{run}.{LOCK_ENDING}"));
        let lock = File::create(&lock_path).map_err(cannot("make", &lock_path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(
                exit_code::CANNOT_WRITE,
                format!("run {run} is being worked on by another dbdyno: wait for it, or end it"),
            ),
            TryLockError::Error(error) => cannot("lock", &lock_path)(error),
        })?;
        sweep(&work)?;
        let directory = work.join(run);
        remove(&directory)?;
        fs::create_dir_all(&directory).map_err(cannot("make", &directory))?;
        Ok(Workspace { directory, lock_path, _lock: lock })
    }

    /// A fresh copy of a template's data directory for a block; the last block's copy is gone.
    ///
    /// # Errors
    /// If it cannot be copied, for example because the disk is full.
    pub fn copy_for_block(&self, template_data: &Path) -> Result<PathBuf, Failure> {
        let data = self.directory.join("data");
        remove(&data)?;
        copy(template_data, &data)?;
        Ok(data)
    }

    /// An empty directory for a dataset that only one block uses.
    ///
    /// # Errors
    /// If what the last block left cannot be removed.
    pub fn empty_template(&self) -> Result<PathBuf, Failure> {
        let template = self.directory.join("load");
        remove(&template)?;
        Ok(template)
    }

    /// Directory of the server of the block that is measured: its data, socket, log.
    pub fn server_directory(&self) -> PathBuf {
        self.directory.join("server")
    }

    /// Puts a fresh copy of a template's data directory into an otherwise empty server directory.
    ///
    /// # Errors
    /// If it cannot be copied, for example because the disk is full.
    pub fn copy_for_server(&self, template_data: &Path) -> Result<(), Failure> {
        let directory = self.server_directory();
        remove(&directory)?;
        fs::create_dir_all(&directory).map_err(cannot("make", &directory))?;
        copy(template_data, &directory.join("data"))
    }

    /// Moves the server directory to where it is kept for inspection.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub fn keep_server_directory(&self, to: &Path) -> Result<(), Failure> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(cannot("make", parent))?;
        }
        remove(to)?;
        fs::rename(self.server_directory(), to).map_err(cannot("move a data directory to", to))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next run.
        let _ = fs::remove_dir_all(&self.directory);
        let _ = fs::remove_file(&self.lock_path);
    }
}

fn copy(template_data: &Path, data: &Path) -> Result<(), Failure> {
    if template_data.exists() {
        copy_directory(template_data, data).map_err(|error| {
            let message = format!("cannot copy the loaded dataset for a block: {error}");
            Failure::new(exit_code::CANNOT_WRITE, message)
        })?;
    }
    Ok(())
}

/// Removes the working directories of runs whose lock nobody holds.
fn sweep(work: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(work).map_err(cannot("read", work))?.flatten() {
        let path = entry.path();
        let is_lock = path.extension().is_some_and(|ending| ending == LOCK_ENDING);
        let Some(lock) = is_lock.then(|| File::open(&path).ok()).flatten() else { continue };
        if lock.try_lock().is_ok() {
            remove(&path.with_extension(""))?;
            fs::remove_file(&path).map_err(cannot("remove", &path))?;
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(cannot("remove", directory)(error))
        }
        _ => Ok(()),
    }
}

/// Forces everything below a directory to disk, so that a host crash cannot take back what a marker then says.
///
/// # Errors
/// If something cannot be opened or forced.
pub fn force_to_disk(directory: &Path) -> Result<(), Failure> {
    let directory = File::open(directory).map_err(cannot("open", directory))?;
    // SAFETY: the call takes an open descriptor and no memory.
    match unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&directory)) } {
        0 => Ok(()),
        _ => Err(Failure::new(
            exit_code::CANNOT_WRITE,
            format!("cannot force a template to disk: {}", io::Error::last_os_error()),
        )),
    }
}

/// An I/O error with what was attempted and where.
pub fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let text = format!("cannot {what} {}", path.display());
    move |error| {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                "; free some space, or use --results DIR on another disk"
            }
            _ => "; use --results DIR to write elsewhere",
        };
        Failure::new(exit_code::CANNOT_WRITE, format!("{text}: {error}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that is alive keeps its directory; what a dead one left is swept; the own one goes at the end.
    #[test]
    fn only_the_dead_are_swept() {
        let results = tempfile::tempdir().expect("a temporary directory");
        let work = results.path().join(".work");
        let alive = Workspace::create(results.path(), "alive").expect("makes");
        fs::create_dir(work.join("dead")).expect("makes");
        fs::write(work.join("dead.lock"), "").expect("writes");
        assert!(Workspace::create(results.path(), "alive").is_err(), "one at a time");
        drop(Workspace::create(results.path(), "other").expect("makes"));
        let mut left: Vec<_> = fs::read_dir(&work)
            .expect("reads")
            .map(|entry| entry.expect("reads").file_name().into_string().expect("UTF-8"))
            .collect();
        left.sort();
        assert_eq!(left, ["alive", "alive.lock"]);
        drop(alive);
        assert_eq!(fs::read_dir(&work).expect("reads").count(), 0);
    }
}
