//! Opens a shared library of an engine at run time, and says in one sentence why it cannot be.
//!
//! The loader's own words for a file of another machine are that there is no such file; so its first bytes are read here
//! before. A library stays open until the process ends: engines leave threads and exit handlers behind.

use super::DriverError;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::io::Read;
use std::path::Path;

/// The first bytes of an ELF file: `e_ident`, `e_type` and `e_machine` (System V ABI, chapter 4).
const HEADER_BYTES: usize = 20;
const MAGIC: &[u8] = b"\x7fELF";
const MACHINE_AT: usize = 18;
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

fn check_header(path: &Path) -> Result<(), DriverError> {
    let mut header = [0; HEADER_BYTES];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let shown = path.display();
    let advice = "fetch the engine again, or correct `file` in its engine file";
    if let Err(error) = read {
        return Err(DriverError::new(format!(
            "cannot read the library {shown}: {error}; {advice}"
        )));
    }
    if !header.starts_with(MAGIC) {
        return Err(DriverError::new(format!("{shown} is no shared library (ELF); {advice}")));
    }
    let machine = u16::from_le_bytes([header[MACHINE_AT], header[MACHINE_AT + 1]]);
    let name = MACHINES.iter().find(|(number, _)| *number == machine).map(|(_, name)| *name);
    if name == Some(std::env::consts::ARCH) {
        return Ok(());
    }
    let name = name.map_or_else(|| format!("machine number {machine}"), str::to_owned);
    Err(DriverError::new(format!(
        "the library {shown} is for {name}, and this host is {}: give the engine file a source for this machine",
        std::env::consts::ARCH
    )))
}
