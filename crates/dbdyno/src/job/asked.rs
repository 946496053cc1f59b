//! Questions to a server that are asked outside the request loop, whichever driver asks them.
//!
//! What concerns the data (effective settings, log syncs, settling) is asked of the server that has them: the one that
//! clients use, or the one behind it.

use super::server::BackendOrder;
use crate::failure::Failure;
use dbdyno_load::driver::{Driver, DriverError, OpenOptions, Receipt};
use dbdyno_load::with_driver;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An open driver, as far as questions go.
pub trait Asked {
    /// Version and settings.
    ///
    /// # Errors
    /// The server's.
    fn receipt(&self) -> Result<Receipt, DriverError>;

    /// Runs one statement; see [`Driver::statement`].
    ///
    /// # Errors
    /// The server's.
    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError>;
}

impl<D: Driver> Asked for D {
    fn receipt(&self) -> Result<Receipt, DriverError> {
        Driver::receipt(self)
    }

    fn statement(&self, text: &str) -> Result<Option<u64>, DriverError> {
        Driver::statement(self, text)
    }
}

/// Opens a server's database, making it if need be.
///
/// # Errors
/// The server's.
pub fn open(driver: &str, options: &OpenOptions) -> Result<Box<dyn Asked>, Failure> {
    with_driver!(driver, D => {
        D::create_database(options)?;
        Ok(Box::new(D::open(options)?))
    })
}

impl BackendOrder {
    /// Opens its database.
    ///
    /// # Errors
    /// The server's.
    pub fn open(&self) -> Result<Box<dyn Asked>, Failure> {
        let options = OpenOptions {
            server: Some(self.server.server("own").map_err(Failure::other)?),
            ..OpenOptions::of_directory(PathBuf::new(), BTreeMap::new(), 1)
        };
        open(&self.driver, &options)
    }
}
