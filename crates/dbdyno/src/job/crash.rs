//! A crash inside an engine's library: the job says where it was before it dies, and the parent makes a sentence of it.
//!
//! The handler only calls what may be called in one: it writes the signal and the return addresses to standard error and
//! lets the signal do what it does. Names are looked up by the parent, which is the same program and not damaged.

use std::ffi::{c_int, c_void};
use std::path::Path;

/// Signals by which a C library ends its process.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];
/// The line before the stack.
const HEAD: &str = "crashed with the stack";
/// Return addresses that are written.
const DEPTH: usize = 64;
/// The handler's own frame and the kernel's trampoline.
const OWN_FRAMES: usize = 2;
/// Frames that a message shows.
const SHOWN: usize = 8;

/// Lets this process say where it was when a signal of a crash ends it.
pub fn say_where() {
    let mut warm = [std::ptr::null_mut::<c_void>(); 1];
    // SAFETY: the buffer holds the one address that is asked for. The first call loads what later ones need, which could
    // not be done in a handler.
    unsafe { libc::backtrace(warm.as_mut_ptr(), 1) };
    for (signal, _) in SIGNALS {
        // SAFETY: a zeroed sigaction is a valid one; the handler is async-signal-safe, runs on the alternate stack that
        // every Rust thread has, and is reset before it runs, so that a crash in it ends the process.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_crash as extern "C" fn(c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_crash(signal: c_int) {
    let mut frames = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: `write`, `backtrace` once it was called before, `backtrace_symbols_fd` and `raise` may be called in a
    // handler; all buffers are valid for their lengths. The signal is blocked until this returns and then has its default
    // action, which ends the process.
    unsafe {
        libc::write(2, HEAD.as_ptr().cast(), HEAD.len());
        libc::write(2, c"\n".as_ptr().cast(), 1);
        let count = libc::backtrace(frames.as_mut_ptr(), DEPTH as c_int);
        libc::backtrace_symbols_fd(frames.as_ptr(), count, 2);
        libc::raise(signal);
    }
}

/// The signal's name, as far as it is one of a crash.
pub fn signal_name(signal: c_int) -> Option<&'static str> {
    SIGNALS.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

/// The innermost functions, if the words of a dead job hold a stack: `in a (library) < b (library) < ...`.
pub fn stack(words: &str) -> Option<String> {
    let lines = words.lines().skip_while(|line| *line != HEAD).skip(1 + OWN_FRAMES);
    let frames: Vec<String> = lines.map_while(frame).take(SHOWN).collect();
    (!frames.is_empty()).then(|| format!("in {}", frames.join(" < ")))
}

/// One line of `backtrace_symbols_fd`, `FILE(FUNCTION+0xOFFSET)[0xADDRESS]`, in short.
fn frame(line: &str) -> Option<String> {
    let (place, address) = line.rsplit_once("[0x")?;
    if place.is_empty() {
        // A call to where no code is.
        return Some(format!("0x{}", address.trim_end_matches(']')));
    }
    let (file, symbol) = match place.split_once('(') {
        Some((file, symbol)) => (file, symbol.trim_end_matches(')')),
        None => (place, ""),
    };
    let file = Path::new(file).file_name()?.to_str()?;
    let own = std::env::current_exe().ok()?;
    let is_own = own.file_name().and_then(|name| name.to_str()) == Some(file);
    let offset = symbol.strip_prefix("+0x").and_then(|text| usize::from_str_radix(text, 16).ok());
    let known = offset.filter(|_| is_own).and_then(own_function);
    let named = symbol.split_once('+').map(|(name, _)| name).filter(|name| !name.is_empty());
    Some(match known.or(named.map(str::to_owned)) {
        Some(function) => format!("{function} ({file})"),
        None => format!("{symbol} ({file})"),
    })
}

/// The function of this program at an offset from where it is loaded.
fn own_function(offset: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let own = std::env::current_exe().ok()?;
    let first = maps.lines().find(|line| line.ends_with(own.to_str().unwrap_or("?")))?;
    let base = usize::from_str_radix(first.split('-').next()?, 16).ok()?;
    let mut name = None;
    // A return address is behind its call, which may be the last of its function.
    let address = (base + offset).wrapping_sub(1) as *mut c_void;
    backtrace::resolve(address, |symbol| {
        name = name.take().or_else(|| symbol.name().map(|name| format!("{name:#}")));
    });
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, libraries and bare offsets; what is before the stack and after it is not taken for it.
    #[test]
    fn stacks_become_sentences() {
        let words = "noise\ncrashed with the stack\n/x/dbdyno(+0x1)[0x1]\n/lib/libc.so.6(+0x3c050)[0x2]\n\
                     /lib/libdb.so(db_get+0x14)[0x3]\n/lib/libdb.so(+0x99)[0x4]\nmore noise\n";
        assert_eq!(stack(words).as_deref(), Some("in db_get (libdb.so) < +0x99 (libdb.so)"));
        let nowhere = "crashed with the stack\n/x/dbdyno(+0x1)[0x1]\n/lib/libc.so.6(+0x3c050)[0x2]\n[0x55d2]\n\
                       /lib/libdb.so(db_close+0x14)[0x3]\n";
        assert_eq!(stack(nowhere).as_deref(), Some("in 0x55d2 < db_close (libdb.so)"));
        assert_eq!(stack("crashed with the stack\n"), None);
        assert_eq!(stack("thread panicked\n"), None);
    }
}
