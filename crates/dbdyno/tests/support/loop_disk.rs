//! A file system whose power can be cut: ext4 in a file, mounted over a loop device. Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small ext4 file system in a file, mounted.
pub struct LoopDisk {
    image: tempfile::TempDir,
    mount: PathBuf,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {words}", arguments.join(" "));
}

impl LoopDisk {
    /// Makes and mounts one of 2 GiB, which take room as they are filled.
    pub fn make() -> LoopDisk {
        LoopDisk::at(tempfile::tempdir(), 2 << 30)
    }

    /// Makes and mounts one of so many bytes, in memory where the host has such a place: there it fills up at once.
    pub fn in_memory(bytes: u64) -> LoopDisk {
        let memory = tempfile::tempdir_in("/dev/shm");
        LoopDisk::at(memory.or_else(|_| tempfile::tempdir()), bytes)
    }

    fn at(directory: std::io::Result<tempfile::TempDir>, bytes: u64) -> LoopDisk {
        let image = directory.expect("a temporary directory");
        let file = image.path().join("disk");
        std::fs::File::create(&file).and_then(|file| file.set_len(bytes)).expect("a sparse file");
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &file.display().to_string()]);
        let mount = image.path().join("mount");
        std::fs::create_dir(&mount).expect("makes");
        let disk = LoopDisk { image, mount };
        disk.mount();
        disk
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Leaves room for so many bytes and not for more, by a file that takes the rest.
    pub fn leave(&self, bytes: u64) {
        use std::os::fd::AsRawFd;
        let filler = self.mount.join("filler");
        let _ = std::fs::remove_file(&filler);
        let filler = std::fs::File::create(filler).expect("makes");
        // SAFETY: the structure is plain numbers, and is filled in for an open file.
        let free = unsafe {
            let mut facts: libc::statvfs = std::mem::zeroed();
            assert_eq!(libc::fstatvfs(filler.as_raw_fd(), &mut facts), 0);
            facts.f_bavail * facts.f_frsize
        };
        let taken = free.checked_sub(bytes).expect("there is more room") as libc::off_t;
        // SAFETY: the call takes an open descriptor and two numbers.
        assert_eq!(unsafe { libc::posix_fallocate(filler.as_raw_fd(), 0, taken) }, 0);
    }

    /// Gives the room back that [`LoopDisk::leave`] took.
    pub fn make_room(&self) {
        std::fs::remove_file(self.mount.join("filler")).expect("was there");
    }

    /// Mounts it again after a cut, with what had reached the file.
    pub fn power_on(&self) {
        self.unmount();
        self.mount();
    }

    fn mount(&self) {
        let file = self.image.path().join("disk");
        let (file, mount) = (file.display().to_string(), self.mount.display().to_string());
        run("mount", &["-o", "loop", &file, &mount]);
    }

    /// Unmounts, and waits until the device is gone: a server's own mount namespace, which ends a little after its last
    /// process, may hold the file system, and a mount would then find it shut down.
    fn unmount(&self) {
        run("umount", &[&self.mount.display().to_string()]);
        let file = self.image.path().join("disk").display().to_string();
        for _ in 0..600 {
            let devices = Command::new("losetup").args(["-j", &file]).output().expect("losetup");
            if devices.stdout.is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{file} is still mounted somewhere, perhaps by another server of dbdyno's");
    }

    /// From here on nothing reaches the file: what is in memory only is gone, the journal included.
    pub fn cut_power(&self) {
        /// EXT4_IOC_SHUTDOWN of the kernel's fs/ext4/ext4.h: _IOR('X', 125, __u32).
        const SHUTDOWN: libc::c_ulong = 0x8004_587d;
        /// EXT4_GOING_FLAGS_NOLOGFLUSH of the same file.
        const NO_LOG_FLUSH: u32 = 2;
        use std::os::fd::AsRawFd;
        let directory = std::fs::File::open(&self.mount).expect("opens the mounted directory");
        // SAFETY: the call reads one u32 from a valid address.
        let done = unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN, &NO_LOG_FLUSH) };
        assert_eq!(done, 0, "cut the power: {}", std::io::Error::last_os_error());
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).output();
    }
}
