//! Who a server is: the user that it runs as, and the marks by which it is known again.
//!
//! A process id alone names nothing for long. A process is the one that is meant if id and start time agree and the
//! nonce is in its environment, or if its parents lead to one of which that is true.

use crate::error::{ProvisionError, Trouble};
use crate::system_calls;
use dbdyno_host::process_tree::process_start_time;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The variable in a server's environment that holds its nonce.
pub const NONCE_VARIABLE: &str = "DBDYNO_NONCE";
/// `nobody`, who owns nothing.
const NOBODY: u32 = 65_534;

/// The user that a server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Whether the launcher is root and must become this user.
    pub from_root: bool,
}

impl Identity {
    /// Who servers run as: the caller; if that is root, the user who called sudo, or else nobody.
    pub fn of_servers() -> Identity {
        let sudo = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let caller = sudo("SUDO_UID").zip(sudo("SUDO_GID"));
        Identity::chosen(system_calls::effective_user(), caller)
    }

    fn chosen((uid, gid): (u32, u32), sudo: Option<(u32, u32)>) -> Identity {
        if uid != 0 {
            return Identity { uid, gid, from_root: false };
        }
        let (uid, gid) =
            sudo.filter(|(uid, gid)| *uid != 0 && *gid != 0).unwrap_or((NOBODY, NOBODY));
        Identity { uid, gid, from_root: true }
    }
}

/// One process, told apart from any other that had or will have its id since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Process id.
    pub pid: u32,
    /// Start time, clock ticks after boot.
    pub start_time: u64,
}

impl ProcessMark {
    /// The calling process.
    pub fn own() -> Result<ProcessMark, ProvisionError> {
        let pid = std::process::id();
        let start_time = process_start_time(pid).map_err(|error| {
            ProvisionError::new(Trouble::HostLacks, format!("{error}; mount /proc"))
        })?;
        Ok(ProcessMark { pid, start_time })
    }

    /// The process that has this id now.
    pub fn of(pid: u32) -> Option<ProcessMark> {
        process_start_time(pid).ok().map(|start_time| ProcessMark { pid, start_time })
    }

    /// Whether it is still there, be it as a zombie.
    pub fn is_there(&self) -> bool {
        process_start_time(self.pid).is_ok_and(|start| start == self.start_time)
    }
}

/// 32 digits that no other server has.
pub(crate) fn new_nonce() -> Result<String, ProvisionError> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(
        |error| {
            ProvisionError::new(
                Trouble::HostLacks,
                format!("cannot read /dev/urandom: {error}; a host without it cannot run servers"),
            )
        },
    )?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What tells this start of the host from others: process ids and start times begin anew with each.
pub(crate) fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// What a process's environment says about a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Environment {
    /// It has it.
    HasNonce,
    /// It is an environment without it.
    IsAnother,
    /// It cannot be read, or the program wrote over it, as PostgreSQL's backends do to show what they are at.
    Gone,
}

/// Looks for a nonce in a process's environment.
pub(crate) fn environment_of(pid: u32, nonce: &str) -> Environment {
    let bytes = fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
    let bytes = bytes.unwrap_or_default();
    let wanted = format!("{NONCE_VARIABLE}={nonce}");
    let mut entries = bytes.split(|byte| *byte == 0);
    if entries.clone().any(|entry| entry == wanted.as_bytes()) {
        Environment::HasNonce
    } else if entries.any(|entry| entry.contains(&b'=')) {
        Environment::IsAnother
    } else {
        Environment::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root becomes who called sudo, unless that is root or unknown; others stay who they are.
    #[test]
    fn servers_are_never_root() {
        let of = |caller, sudo| {
            let Identity { uid, gid, from_root } = Identity::chosen(caller, sudo);
            (uid, gid, from_root)
        };
        assert_eq!(of((0, 0), None), (65_534, 65_534, true));
        assert_eq!(of((0, 0), Some((1000, 1001))), (1000, 1001, true));
        assert_eq!(of((0, 0), Some((0, 0))), (65_534, 65_534, true));
        assert_eq!(of((1000, 100), Some((1, 1))), (1000, 100, false));
    }

    /// The calling process is there; one with its id and another start time is not; its environment has no such nonce.
    #[test]
    fn marks_tell_processes_apart() {
        let own = ProcessMark::own().expect("reads");
        assert!(own.is_there());
        assert!(!ProcessMark { start_time: own.start_time + 1, ..own }.is_there());
        let nonce = new_nonce().expect("makes");
        assert_eq!(nonce.len(), 32);
        assert_eq!(environment_of(own.pid, &nonce), Environment::IsAnother);
        assert_eq!(environment_of(u32::MAX, &nonce), Environment::Gone);
    }
}
