//! Ctrl-C and termination as a flag that is looked at several times a second, so that servers are stopped and the record
//! is whole when the command ends.

use crate::exit_code;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on the two signals set the flag instead of ending the process. A second one ends it at once: the kernel
/// then ends what it started, and the next command removes what is left.
///
/// # Errors
/// If the handlers cannot be registered.
pub fn listen() -> Result<(), Failure> {
    let flag = FLAG.get_or_init(|| Arc::new(AtomicBool::new(false)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = i32::from(exit_code::INTERRUPTED);
        // Registered in this order, the first signal sets the flag and the second, finding it set, ends the process.
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| Failure::other(format!("cannot listen for signals: {error}")))?;
    }
    Ok(())
}

/// Whether one has come.
pub fn has_come() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// An error if one has come.
///
/// # Errors
/// If one has come.
pub fn check() -> Result<(), Failure> {
    match has_come() {
        true => Err(Failure::new(exit_code::INTERRUPTED, "stopped by a signal")),
        false => Ok(()),
    }
}
