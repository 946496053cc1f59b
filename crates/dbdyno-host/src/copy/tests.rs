//! Tests of the copy: content, holes, modes, every method, and what is refused.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A template with nested directories, an empty file, modes, and a file of 64 MiB that is all hole but two pages.
fn template() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::create_dir_all(root.join("base/one")).unwrap();
    fs::write(root.join("version"), "7\n").unwrap();
    fs::write(root.join("base/empty"), "").unwrap();
    fs::write(root.join("base/one/data"), vec![5; 3 * PIECE_BYTES + 17]).unwrap();
    let sparse = File::create(root.join("map")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(&[1; 4096], 0).unwrap();
    sparse.write_all_at(&[2; 4096], 40 << 20).unwrap();
    fs::set_permissions(root.join("base/one"), Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(root.join("version"), Permissions::from_mode(0o640)).unwrap();
    directory
}

fn assert_same(from: &Path, to: &Path) {
    for name in ["version", "base/empty", "base/one/data", "map", "base/one", "."] {
        let (old, new) = (from.join(name), to.join(name));
        if old.is_file() {
            assert!(fs::read(&old).unwrap() == fs::read(&new).unwrap(), "{name}");
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&old), mode(&new), "{name}");
    }
    let sparse = fs::metadata(to.join("map")).unwrap();
    assert_eq!(sparse.len(), 64 << 20);
    assert!(sparse.blocks() * 512 < 8 << 20, "{} blocks of 512 bytes", sparse.blocks());
}

#[test]
fn copies_a_template_with_every_method() {
    // Shows the same bytes, modes and holes, whichever method is the best that is allowed.
    let from = template();
    let length_bytes = 2 + 3 * PIECE_BYTES as u64 + 17 + (64 << 20);
    for best in [CopyMethod::Reflink, CopyMethod::InKernel, CopyMethod::ReadWrite] {
        let to = tempfile::tempdir().unwrap();
        let mut copy = Copy { report: CopyReport::default(), best };
        copy.directory(from.path(), to.path()).unwrap();
        assert_same(from.path(), to.path());
        let report = copy.report;
        assert_eq!((report.files, report.directories), (4, 3));
        assert_eq!(report.length_bytes, length_bytes);
        assert!(report.method >= Some(best), "{report:?}");
        if report.method == Some(CopyMethod::Reflink) {
            assert_eq!(report.copied_bytes, 0);
        } else {
            let expected = 3 * PIECE_BYTES as u64..8 << 20;
            assert!(expected.contains(&report.copied_bytes), "{report:?}");
        }
    }
}

#[test]
fn makes_the_destination_and_crosses_filesystems() {
    // Shows that the destination is made, and that memory filesystems can be copied from and to.
    let from = template();
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    copy_directory(from.path(), &memory.path().join("copy")).unwrap();
    assert_same(from.path(), &memory.path().join("copy"));
    let back = tempfile::tempdir().unwrap();
    let report = copy_directory(&memory.path().join("copy"), back.path()).unwrap();
    assert_same(from.path(), back.path());
    assert!(report.method > Some(CopyMethod::Reflink));
}

#[test]
fn refuses_what_it_must_not_copy() {
    // Shows the message for a link, a full destination, a destination inside, and an absent source.
    let from = tempfile::tempdir().unwrap();
    let check = |to: &Path, expected: &str| {
        let message = copy_directory(from.path(), to).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    let inside = from.path().join("inside");
    check(&inside, "within the directory that is copied");
    assert!(!inside.exists());
    check(from.path(), "is the directory that is copied");
    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("kept"), "mine").unwrap();
    check(full.path(), "not empty");
    assert_eq!(fs::read(full.path().join("kept")).unwrap(), b"mine");
    symlink("/", from.path().join("link")).unwrap();
    let to = tempfile::tempdir().unwrap();
    check(to.path(), "is a symbolic link");
    let absent = copy_directory(&from.path().join("absent"), to.path()).unwrap_err();
    assert!(absent.to_string().starts_with("cannot open "), "{absent}");
}
