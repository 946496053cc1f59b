//! Makes a directory of unpacked Debian packages fit to serve as `/`, without running any package's scripts.
//!
//! What a real installation has beside the packages' files, and servers ask for: links of the merged /usr, a shell,
//! two users, names of the own host, directories to mount on.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::unpack::set_mode;

/// Directories that Debian has moved to /usr; packages may still ship files at the old place.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Places for mounts and for files of running programs.
const PLACES: &[&str] = &["proc", "sys", "dev", "run", "etc", "var/tmp", "var/run", "var/lib"];
/// Files that are made if no package has brought them. The users are those that a server may run as.
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
];

/// Does all of it.
pub(super) fn finish(prefix: &Path) -> io::Result<()> {
    for name in MERGED {
        merge(prefix, name)?;
    }
    let shell = prefix.join("usr/bin/sh");
    if prefix.join("usr/bin/dash").exists() && fs::symlink_metadata(&shell).is_err() {
        symlink("dash", shell)?;
    }
    for place in PLACES {
        let place = prefix.join(place);
        if fs::symlink_metadata(&place).is_err() {
            fs::create_dir_all(&place)?;
            set_mode(&place, 0o755)?;
        }
    }
    fs::create_dir_all(prefix.join("tmp"))?;
    set_mode(&prefix.join("tmp"), 0o1777)?;
    for (path, text) in FILES {
        let path = prefix.join(path);
        if !path.exists() {
            fs::write(&path, text)?;
            set_mode(&path, 0o644)?;
        }
    }
    set_mode(prefix, 0o755)
}

/// Moves what lies in `/lib` to `/usr/lib` and leaves a link, for each such directory that any package has.
fn merge(prefix: &Path, name: &str) -> io::Result<()> {
    let (old, new) = (prefix.join(name), prefix.join("usr").join(name));
    let is_real = fs::symlink_metadata(&old).is_ok_and(|found| found.is_dir());
    if is_real {
        move_into(&old, &new)?;
        fs::remove_dir(&old)?;
    }
    if new.is_dir() && fs::symlink_metadata(&old).is_err() {
        symlink(format!("usr/{name}"), &old)?;
    }
    Ok(())
}

/// Moves the entries of one directory into another, directories of the same name into each other.
fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let is_directory = entry.file_type()?.is_dir();
        if is_directory && target.is_dir() {
            move_into(&source, &target)?;
            fs::remove_dir(&source)?;
        } else if fs::symlink_metadata(&target).is_ok() && !is_directory {
            // A link from the new place to the old one would now point to itself; the file counts.
            fs::remove_file(&target)?;
            fs::rename(&source, &target)?;
        } else {
            fs::rename(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_directories_are_merged_and_what_is_there_stays() {
        let place = tempfile::tempdir().unwrap();
        let prefix = place.path();
        for (path, text) in [
            ("lib/x86/libc.so", "c"),
            ("usr/lib/x86/libm.so", "m"),
            ("bin/dash", "dash"),
            ("etc/hosts", "of a package"),
        ] {
            let path = prefix.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        finish(prefix).unwrap();
        let read = |path: &str| fs::read_to_string(prefix.join(path)).unwrap();
        assert_eq!(
            (read("usr/lib/x86/libc.so"), read("lib/x86/libm.so")),
            ("c".into(), "m".into())
        );
        assert_eq!(fs::read_link(prefix.join("lib")).unwrap(), Path::new("usr/lib"));
        assert_eq!(read("bin/sh"), "dash");
        assert_eq!(read("etc/hosts"), "of a package");
        assert!(read("etc/passwd").contains("nobody:x:65534"));
        finish(prefix).unwrap();
    }
}
