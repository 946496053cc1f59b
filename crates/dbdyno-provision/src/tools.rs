//! Programs of the host: found on its search path, run to their end, their last words kept for messages.
//!
//! The search path is a value and not the process's environment, so that a test can take a tool away.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How often a running client's directory is looked at for progress.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Lines of a failing program that a message shows.
const LAST_LINES: usize = 6;

/// Where programs of the host are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    search_path: OsString,
}

impl Tools {
    /// The host's own, as PATH says.
    pub(crate) fn of_host() -> Tools {
        Tools { search_path: std::env::var_os("PATH").unwrap_or_default() }
    }

    /// Only these directories.
    pub(crate) fn below(search_path: impl Into<OsString>) -> Tools {
        Tools { search_path: search_path.into() }
    }

    /// Where a program is, if the host has it.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        std::env::split_paths(&self.search_path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(program))
            .find(is_program)
    }

    /// A command that runs a program; that it is there has been asked before.
    pub(crate) fn command(&self, program: &str) -> Command {
        let path = self.find(program).unwrap_or_else(|| PathBuf::from(program));
        let mut command = Command::new(path);
        // English messages, because the message of dbdyno that shows them is English.
        command.env("PATH", &self.search_path).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }
}

/// What a program that ended well wrote to its standard output, or the last lines of what it wrote at all.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    run_watched(command, &mut || {})
}

/// As [`run`], and calls `watch` a few times a second until the program ends.
pub(crate) fn run_watched(
    command: &mut Command,
    watch: &mut dyn FnMut(),
) -> Result<String, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{name}: {error}"))?;
    let out = child.stdout.take().map(read_in_thread);
    let err = child.stderr.take().map(read_in_thread);
    let status = loop {
        match child.try_wait().map_err(|error| format!("{name}: {error}"))? {
            Some(status) => break status,
            None => thread::sleep(WATCH_EVERY),
        }
        watch();
    };
    let joined = |reader: Option<thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (out, err) = (joined(out), joined(err));
    if status.success() {
        return Ok(out);
    }
    Err(format!("{name} ended with {status}:\n{}", last_lines(&format!("{out}\n{err}"))))
}

/// Pipes are emptied while the program runs: a full one would stop it.
fn read_in_thread(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let kept = &lines[lines.len().saturating_sub(LAST_LINES)..];
    kept.iter().map(|line| format!("  {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// Bytes of all files below a directory; what cannot be looked at counts nothing.
pub(crate) fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_search_path_only() {
        assert!(Tools::below("/usr/bin:/bin").find("sh").is_some());
        assert_eq!(Tools::below("").find("sh"), None);
        assert_eq!(Tools::below("/usr/bin:/bin").find("no-such-program"), None);
    }

    #[test]
    fn a_failing_program_is_quoted_by_its_last_lines() {
        let script = "for line in 1 2 3 4 5 6 7 8; do echo line $line >&2; done; exit 3";
        let tools = Tools::below("/usr/bin:/bin");
        let said = run(tools.command("sh").args(["-c", script])).unwrap_err();
        assert!(said.contains("exit status: 3"), "{said}");
        assert!(said.contains("line 8") && !said.contains("line 2"), "{said}");
        assert_eq!(run(tools.command("sh").args(["-c", "echo good"])).unwrap(), "good\n");
    }
}
