//! A lock between processes: whoever comes second waits until the first is done. The system frees it with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::files::{cannot_write, make_directory};
use crate::error::ProvisionError;

/// Waits for the lock of a file, and holds it until the result is dropped. `waiting` is called if there is a wait.
pub(crate) fn take(path: &Path, waiting: &mut dyn FnMut()) -> Result<File, ProvisionError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = opened.map_err(cannot_write("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            waiting();
            file.lock().map_err(cannot_write("lock", path))?;
            Ok(file)
        }
        Err(TryLockError::Error(error)) => Err(cannot_write("lock", path)(error)),
    }
}
