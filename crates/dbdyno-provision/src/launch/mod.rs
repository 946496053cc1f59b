//! What happens between fork and exec of a server: the body of the hidden subcommand `dbdyno launch`.
//!
//! The launcher is a process of its own with one thread, so that it may do everything a program may, and not only what
//! is allowed after fork. It reads its order from standard input, gives up every right, and becomes the server. If it
//! cannot, it says why on what was its standard output; if that closes without a word, the server has begun.

mod namespace;
pub(crate) mod order;
pub(crate) mod root;

use crate::error::{ProvisionError, Trouble};
use crate::identity::ProcessMark;
use crate::system_calls;
use dbdyno_host::process_tree::die_with_parent;
use order::LaunchOrder;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

pub use namespace::can_isolate;

/// The descriptor over which the launcher says why it failed; closed by exec.
const REPORT: i32 = 3;

/// The body of `dbdyno launch`. Does not return: the process becomes the server, or ends with exit code 1.
pub fn launch_main() -> ! {
    // Only the three standard descriptors are ours: whatever else was inherited ends at exec.
    let prepared = system_calls::duplicate(1, REPORT, false)
        .and_then(|()| system_calls::close_on_exec_from(REPORT as u32));
    if let Err(error) = prepared {
        let _ = writeln!(io::stdout(), "S{error}");
        exit(1);
    }
    let Err(error) = read_order().and_then(|order| launch(&order));
    // SAFETY: descriptor 3 was made above and belongs to nobody else.
    let mut report = unsafe { File::from_raw_fd(REPORT) };
    let kind = if error.trouble == Trouble::HostLacks { 'H' } else { 'S' };
    let _ = write!(report, "{kind}{}", error.message);
    exit(1)
}

fn read_order() -> Result<LaunchOrder, ProvisionError> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| wrong("read the order", &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let advice = "`launch` is started by dbdyno itself, with an order on its standard input";
        ProvisionError::new(Trouble::Server, format!("cannot read the order: {error}; {advice}"))
    })
}

fn launch(order: &LaunchOrder) -> Result<Infallible, ProvisionError> {
    system_calls::own_session();
    bind_to_parent(order)?;
    write_record(order)?;
    redirect(order)?;
    // Mount points that are made now must be open to the server's user.
    system_calls::mask_permissions(0o022);
    let program = namespace::enter(order)?;
    system_calls::mask_permissions(0o077);
    system_calls::limit(libc::RLIMIT_CORE, 0)
        .map_err(|error| wrong("forbid core files", &error))?;
    system_calls::limit(libc::RLIMIT_NOFILE, order.open_files)
        .map_err(|error| wrong("set the limit of open files", &error))?;
    if order.identity.from_root {
        system_calls::become_user(order.identity.uid, order.identity.gid)
            .map_err(|error| wrong("become the server's user", &error))?;
    }
    system_calls::no_new_privileges().map_err(|error| wrong("give up privileges", &error))?;
    // Once more: the kernel forgets the request when a process changes its user.
    bind_to_parent(order)?;
    std::env::set_current_dir(&order.within)
        .map_err(|error| wrong(&format!("enter {}", order.within.display()), &error))?;
    let error =
        Command::new(&program).args(&order.arguments).env_clear().envs(&order.environment).exec();
    Err(wrong(&format!("execute {}", program.display()), &error))
}

/// The server ends with the thread that started it.
fn bind_to_parent(order: &LaunchOrder) -> Result<(), ProvisionError> {
    die_with_parent(order.parent.pid)
        .map_err(|error| ProvisionError::new(Trouble::Server, error.to_string()))
}

/// Writes down what is about to begin, so that it can be found however this and the parent end.
fn write_record(order: &LaunchOrder) -> Result<(), ProvisionError> {
    let Some((path, record)) = &order.record else { return Ok(()) };
    let mut record = record.clone();
    record.server = ProcessMark::own()?;
    record.write(path)
}

/// Input from the file or from nothing, output and errors to the log.
fn redirect(order: &LaunchOrder) -> Result<(), ProvisionError> {
    let input = order.input.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
    let failed = |path: &Path| {
        let doing = format!("open {}", path.display());
        move |error: io::Error| wrong(&doing, &error)
    };
    let input = File::open(&input).map_err(failed(&input))?;
    // A log is never a link to somebody else's file: the directory belongs to the server's user.
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&order.log)
        .map_err(failed(&order.log))?;
    for (from, to) in [(input.as_raw_fd(), 0), (log.as_raw_fd(), 1), (log.as_raw_fd(), 2)] {
        system_calls::duplicate(from, to, true)
            .map_err(|error| wrong("redirect input and output", &error))?;
    }
    Ok(())
}

fn wrong(doing: &str, error: &io::Error) -> ProvisionError {
    ProvisionError::new(Trouble::Server, format!("cannot {doing}: {error}"))
}
