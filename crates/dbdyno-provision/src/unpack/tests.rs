//! What archives may do and may not.

use super::*;
use std::io::Write;

fn tar_of(path: &Path, entries: &[(&str, tar::EntryType, &str)]) {
    let mut builder = tar::Builder::new(File::create(path).unwrap());
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        // The library's own checks would refuse the names that these tests are about.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        let is_file = *kind == tar::EntryType::Regular;
        header.set_size(if is_file { content.len() as u64 } else { 0 });
        if !is_file {
            header.as_gnu_mut().unwrap().linkname[..content.len()]
                .copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        let content = if is_file { content.as_bytes() } else { b"" };
        builder.append(&header, content).unwrap();
    }
    builder.finish().unwrap();
}

fn step() -> Unpack {
    Unpack {
        archive: String::new(),
        into: String::new(),
        below: String::new(),
        exclude: vec![],
        executable: vec![],
    }
}

#[test]
fn what_leads_out_of_the_prefix_is_refused() {
    use tar::EntryType::{Link, Regular, Symlink};
    let place = tempfile::tempdir().unwrap();
    let check = |entries: &[(&str, tar::EntryType, &str)]| {
        let prefix = place.path().join("prefix");
        fs::create_dir_all(&prefix).unwrap();
        let archive = place.path().join("a.tar");
        tar_of(&archive, entries);
        let error = unpack(&archive, &prefix, &[step()]).unwrap_err();
        assert!(error.message.contains("leads out of"), "{error}");
        assert!(!place.path().join("out").exists());
        fs::remove_dir_all(prefix).unwrap();
    };
    check(&[("../out", Regular, "x")]);
    check(&[("/out", Regular, "x")]);
    check(&[("a/../../out", Regular, "x")]);
    check(&[("link", Symlink, "../out"), ("link", Regular, "x")]);
    check(&[("link", Symlink, "/tmp")]);
    check(&[("link", Link, "../../etc/passwd")]);
}

#[test]
fn an_archive_within_an_archive_is_unpacked_by_the_recipe() {
    use tar::EntryType::{Regular, Symlink};
    let place = tempfile::tempdir().unwrap();
    let prefix = place.path().join("prefix");
    fs::create_dir_all(&prefix).unwrap();
    let inner = place.path().join("inner.tar");
    tar_of(&inner, &[("bin/server", Regular, "program"), ("bin/alias", Symlink, "server")]);
    let outer = place.path().join("outer.jar");
    let mut zip = zip::ZipWriter::new(File::create(&outer).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    for (name, content) in [
        ("linux/inner.tar", fs::read(&inner).unwrap()),
        ("linux/doc/a", b"text".to_vec()),
        ("windows/x", b"text".to_vec()),
    ] {
        zip.start_file(name, options).unwrap();
        zip.write_all(&content).unwrap();
    }
    zip.finish().unwrap();
    let first = Unpack { below: "linux/".into(), exclude: vec!["doc/*".into()], ..step() };
    let second = Unpack {
        archive: "*.tar".into(),
        into: "sub".into(),
        executable: vec!["bin/*".into()],
        ..step()
    };
    unpack(&outer, &prefix, &[first, second]).unwrap();
    let mut found = Vec::new();
    each_file(&prefix, "", &mut |path, _| {
        found.push(path.to_owned());
        Ok(())
    })
    .unwrap();
    assert_eq!(found, ["sub/bin/alias", "sub/bin/server"]);
    let missing = Unpack { below: "solaris/".into(), ..step() };
    let error = unpack(&outer, &prefix, &[missing]).unwrap_err();
    assert!(error.message.contains("nothing below `solaris/`"), "{error}");
}
