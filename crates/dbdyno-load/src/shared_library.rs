//! Opens a shared library of an engine at run time, and says in one sentence why it cannot be.
//!
//! The file's header is read here before the loader gets it. A library stays open until the process ends: engines leave threads and exit handlers behind.

use crate::driver::DriverError;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::env::consts::ARCH;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The header of a 64-bit ELF file, and where in it lies what is looked at (System V ABI, chapter 4).
const HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"\x7fELF";
const MACHINE_AT: usize = 18;
/// The table of sections is what linkers put last, so a file that was cut short lacks it.
const SECTIONS_AT: usize = 40;
const SECTION_BYTES_AT: usize = 58;
const SECTION_COUNT_AT: usize = 60;
/// Machines of that ABI by the names that Rust has for them.
const MACHINES: [(u16, &str); 6] = [
    (3, "x86"),
    (21, "powerpc64"),
    (22, "s390x"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv64"),
];

/// An open library.
pub struct SharedLibrary {
    library: std::mem::ManuallyDrop<Library>,
}

impl SharedLibrary {
    /// Opens it; none of its symbols is visible to other libraries.
    ///
    /// # Errors
    /// If the file is no library for this machine, or needs what the host does not have.
    pub fn open(path: &Path) -> Result<SharedLibrary, DriverError> {
        check_header(path)?;
        // SAFETY: opening runs the library's initialisers; it is an engine that the user chose to run.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| {
            let why = format!("cannot open {}: {error}", path.display());
            DriverError::new(format!("{why}; fetch the engine again, or install what it needs"))
        })?;
        Ok(SharedLibrary { library: std::mem::ManuallyDrop::new(library) })
    }

    /// The symbol of that name as a pointer, if the library has it.
    ///
    /// # Safety
    /// `T` must be the type of a function pointer with the signature that the symbol has.
    pub unsafe fn symbol<T: Copy>(&self, name: &str) -> Option<T> {
        // SAFETY: the caller vouches for the type; the library is never closed, so the copy stays good.
        unsafe { self.library.get::<T>(name.as_bytes()).ok().map(|symbol| *symbol) }
    }
}

/// Looks at the beginning of a library, because the loader would say that a file for another machine is not there, and
/// crash over one that was cut short.
///
/// # Errors
/// If it is no whole library for this machine.
pub fn check_header(path: &Path) -> Result<(), DriverError> {
    let shown = path.display();
    let advice = "fetch the engine again, or correct `file` in its engine file";
    let mut header = Vec::new();
    let read = File::open(path).and_then(|file| {
        let bytes = file.metadata()?.len();
        file.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
        Ok(bytes)
    });
    let bytes = read.map_err(|error| {
        DriverError::new(format!("cannot read the library {shown}: {error}; {advice}"))
    })?;
    let Some(header) = header.first_chunk::<HEADER_BYTES>().filter(|all| all.starts_with(MAGIC))
    else {
        return Err(DriverError::new(format!("{shown} is no shared library (ELF); {advice}")));
    };
    let two_bytes = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let machine = two_bytes(MACHINE_AT);
    let name = MACHINES.iter().find(|(number, _)| *number == machine).map(|(_, name)| *name);
    if name != Some(ARCH) {
        let name = name.map_or_else(|| format!("machine number {machine}"), str::to_owned);
        return Err(DriverError::new(format!(
            "the library {shown} is for {name}, and this host is {ARCH}: give the engine file a source for this machine"
        )));
    }
    let sections_at: [u8; 8] = std::array::from_fn(|index| header[SECTIONS_AT + index]);
    let sections = u64::from(two_bytes(SECTION_BYTES_AT)) * u64::from(two_bytes(SECTION_COUNT_AT));
    let whole = u64::from_le_bytes(sections_at).saturating_add(sections);
    if bytes < whole {
        let why = format!("{shown} is cut short: it has {bytes} of {whole} bytes");
        return Err(DriverError::new(format!("{why}; {advice}")));
    }
    Ok(())
}
