//! Syncs of a library that is opened at run time are counted like those of a library that is linked in.

use dbdyno_load::sync_counter;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "#include <sys/mman.h>\n#include <unistd.h>\n\
    int sync_file(int file) { return fsync(file) | fdatasync(file); }\n\
    int sync_map(void *map) { return msync(map, 4096, MS_SYNC); }\n";

fn compile(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("syncs.c"), directory.join("syncs.so"));
    std::fs::write(&source, SOURCE).expect("writes");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(command.status().expect("runs the C compiler, which Rust needs too").success());
    library
}

/// Each kind of sync, called by a library that the linker never saw.
#[test]
fn syncs_of_an_opened_library_are_counted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = compile(directory.path());
    let path = CString::new(library.as_os_str().as_bytes()).expect("no zero byte");
    let file = std::fs::File::create(directory.path().join("file")).expect("makes");
    // SAFETY: the library was compiled above from source that does nothing at load.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    let symbol = |name: &CStr| {
        // SAFETY: the handle is open and the name is a C string.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    // SAFETY: the functions have these types in the source above.
    let (sync_file, sync_map) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> c_int>(symbol(
                c"sync_file",
            )),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(symbol(
                c"sync_map",
            )),
        )
    };
    let before = sync_counter::syncs();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { sync_file(file.as_raw_fd()) }, 0);
    assert_eq!(sync_counter::syncs() - before, 2);
    // SAFETY: an anonymous page of our own, unmapped after the call.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        assert_eq!(sync_map(page), 0);
        libc::munmap(page, 4096);
    }
    assert_eq!(sync_counter::syncs() - before, 3);
}
