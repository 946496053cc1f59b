//! Servers keep what their durability promises: killed at a random moment, recovered, and counted. And when the power
//! goes: the same on a file system that is shut down without writing anything more.
//!
//! `DBDYNO_CRASHES=20 cargo test -p dbdyno --test durability -- --nocapture` makes twenty of each and prints what was
//! lost; the default is a few, which a test can wait for. The power cut needs root, because it mounts a file system.

mod common;
mod support;

use dbdyno_plan::Durability;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use support::{Cluster, Loss, root};

/// A server holds what is mounted when it starts, so no server of one test may start while the other has a disk.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Crashes of each engine at each durability.
fn crashes() -> u32 {
    std::env::var("DBDYNO_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// One PostgreSQL and two of the MySQL family.
const ENGINES: &[&str] = &["postgres-18", "mysql-5.6", "mariadb-10.11"];

/// What was acknowledged is there, and nothing is there that was neither acknowledged nor unknown.
fn assert_within(engine: &str, durability: Durability, loss: Loss) {
    let Loss { acknowledged, unknown, counter } = loss;
    assert!(
        (acknowledged..=acknowledged + unknown).contains(&counter),
        "{engine} at {}: {acknowledged} acknowledged, {unknown} unknown, {counter} counted",
        durability.name()
    );
}

/// The process dies at a random moment: `commit-written` and `commit-sync` keep every acknowledged commit.
#[test]
fn acknowledged_commits_survive_the_death_of_the_process() {
    let _alone = ONE_AT_A_TIME.lock();
    for &engine in ENGINES {
        for durability in [Durability::CommitWritten, Durability::CommitSync] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let cluster = Cluster::make(engine, durability, &directory.path().join("server"));
            let mut acknowledged = 0;
            for seed in 0..crashes() {
                let loss = cluster.crash(seed, || ());
                assert_within(engine, durability, loss);
                acknowledged += loss.acknowledged;
            }
            assert!(acknowledged > 100, "{engine}: {acknowledged} updates say nothing");
            println!(
                "process death, {engine}, {}: {} times, {acknowledged} acknowledged, none lost",
                durability.name(),
                crashes()
            );
        }
    }
}

/// A small ext4 file system in a file, mounted.
struct LoopDisk {
    image: tempfile::TempDir,
    mount: std::path::PathBuf,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {words}", arguments.join(" "));
}

impl LoopDisk {
    fn make() -> LoopDisk {
        let image = tempfile::tempdir().expect("a temporary directory");
        let file = image.path().join("disk");
        std::fs::File::create(&file).and_then(|file| file.set_len(2 << 30)).expect("2 GiB, sparse");
        run("mkfs.ext4", &["-q", "-F", &file.display().to_string()]);
        let mount = image.path().join("mount");
        std::fs::create_dir(&mount).expect("makes");
        let disk = LoopDisk { image, mount };
        disk.mount();
        disk
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
    fn cut_power(mount: &Path) {
        /// EXT4_IOC_SHUTDOWN of the kernel's fs/ext4/ext4.h: _IOR('X', 125, __u32).
        const SHUTDOWN: libc::c_ulong = 0x8004_587d;
        /// EXT4_GOING_FLAGS_NOLOGFLUSH of the same file.
        const NO_LOG_FLUSH: u32 = 2;
        use std::os::fd::AsRawFd;
        let directory = std::fs::File::open(mount).expect("opens the mounted directory");
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

/// The power goes at a random moment: `commit-sync` keeps every acknowledged commit; the weaker names lose some, at
/// least on one engine, or this test could not fail.
#[test]
fn acknowledged_commits_survive_a_power_cut() {
    if !root() {
        // Without root no file system can be mounted: this host can show the death of processes only, and the log
        // syncs that every trial counts.
        println!("Unsupported: a power cut needs root, to mount a file system");
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut lost_by_weaker = 0;
    for &engine in ENGINES {
        for durability in [Durability::CommitSync, Durability::CommitWritten, Durability::Delayed] {
            let disk = LoopDisk::make();
            let cluster = Cluster::make(engine, durability, &disk.mount.join("server"));
            let (mut acknowledged, mut lost, mut damaged) = (0, 0, 0);
            for seed in 0..crashes() {
                let loss = cluster.crash_and(
                    seed,
                    || LoopDisk::cut_power(&disk.mount),
                    || {
                        disk.unmount();
                        disk.mount();
                    },
                );
                let Some(loss) = loss else {
                    // Files that are damaged beyond starting are what the weaker names allow, and only they.
                    assert!(durability < Durability::CommitSync, "{engine} does not start again");
                    damaged += 1;
                    break;
                };
                if durability == Durability::CommitSync {
                    assert_within(engine, durability, loss);
                }
                acknowledged += loss.acknowledged;
                lost += loss.acknowledged.saturating_sub(loss.counter);
            }
            println!(
                "power cut, {engine}, {}: {} times, {acknowledged} acknowledged, {lost} lost, {damaged} damaged",
                durability.name(),
                crashes()
            );
            if durability < Durability::CommitSync {
                lost_by_weaker += lost + damaged;
            }
        }
    }
    assert!(lost_by_weaker > 0, "no power cut took anything away, so this test shows nothing");
}
