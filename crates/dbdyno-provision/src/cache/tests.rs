//! The cache with a package client of the test's own: a script named `mvn` that puts a small artifact into the store.

use super::*;
use dbdyno_plan::{ENGINES, EngineFile, ServerRecipe, Shim, Unpack};
use std::os::unix::fs::PermissionsExt;
use std::thread;

/// A cache, and a directory with a client that writes this text as the artifact.
fn place(content: &str) -> (tempfile::TempDir, Cache, ServerRecipe) {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let archive = directory.path().join("served");
    let mut builder = tar::Builder::new(fs::File::create(&archive).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    builder.append_data(&mut header, "bin/server", content.as_bytes()).unwrap();
    builder.finish().unwrap();
    let script = format!(
        "#!/bin/sh\nfor a in \"$@\"; do case $a in -Dmaven.repo.local=*) S=${{a#*=}};; esac; done\n\
         echo call >> {0}/calls; sleep 0.2; mkdir -p $S/g/n/1; cp {0}/served $S/g/n/1/n-1.jar\n",
        directory.path().display()
    );
    let client = bin.join("mvn");
    fs::write(&client, script).unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let search_path = format!("{}:/usr/bin:/bin", bin.display());
    let cache = Cache::with_search_path(directory.path().join("cache"), &search_path).unwrap();
    let sha256 = files::sha256_of_file(&archive).unwrap();
    let recipe = recipe(&sha256);
    (directory, cache, recipe)
}

fn recipe(sha256: &str) -> ServerRecipe {
    let shipped = ENGINES.iter().find(|engine| engine.name == "postgres-18").unwrap();
    let recipe = EngineFile::parse(shipped.file, shipped.text).unwrap().server.unwrap();
    let whole = Unpack {
        archive: String::new(),
        into: String::new(),
        below: String::new(),
        exclude: vec![],
        executable: vec![],
    };
    let source = Source::Maven {
        artifact: "g:n:1".into(),
        sha256: sha256.into(),
        bytes: 10,
        unpack: vec![whole],
    };
    ServerRecipe { program: "bin/server".into(), sources: vec![source], ..recipe }
}

fn calls(directory: &tempfile::TempDir) -> usize {
    fs::read_to_string(directory.path().join("calls")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_download_that_is_something_else_leaves_nothing_behind() {
    let (directory, cache, good) = place("program");
    let wrong = "0".repeat(64);
    let error = cache.install("e", recipe(&wrong).package(), false, &mut |_| {}).unwrap_err();
    assert_eq!(error.trouble, Trouble::WrongContent);
    assert!(error.message.contains(&format!("expected sha256 {wrong}, found ")), "{error}");
    assert!(error.message.contains("n-1.jar was deleted"), "{error}");
    assert!(!directory.path().join("cache/stores/maven/g/n/1/n-1.jar").exists());
    assert!(!directory.path().join("cache/engines/e/prefix.partial").exists());
    assert_eq!(cache.installed("e", good.package()), None);
}

#[test]
fn half_a_download_and_half_an_installation_are_done_again() {
    let (directory, cache, recipe) = place("program");
    let store = directory.path().join("cache/stores/maven/g/n/1");
    let partial = directory.path().join("cache/engines/e/prefix.partial/bin");
    fs::create_dir_all(&store).unwrap();
    fs::create_dir_all(&partial).unwrap();
    fs::write(store.join("n-1.jar"), "half").unwrap();
    fs::write(partial.join("stray"), "half").unwrap();
    let installed = cache.install("e", recipe.package(), false, &mut |_| {}).unwrap();
    assert!(installed.source.starts_with("maven g:n:1 sha256 "), "{}", installed.source);
    assert_eq!(fs::read_to_string(installed.prefix.join("bin/server")).unwrap(), "program");
    assert!(!installed.prefix.join("bin/stray").exists());
    assert!(!store.join("n-1.jar").exists(), "the archive is not kept twice");
    // Installed once, it needs neither network nor client, and a prefix without manifest is not installed.
    assert_eq!(cache.install("e", recipe.package(), true, &mut |_| {}).unwrap(), installed);
    assert_eq!(calls(&directory), 1);
    fs::remove_file(directory.path().join("cache/engines/e/manifest.json")).unwrap();
    assert_eq!(cache.installed("e", recipe.package()), None);
}

#[test]
fn what_the_host_lacks_and_what_is_missing_offline_is_said() {
    let (directory, cache, recipe) = place("program");
    let error = cache.install("e", recipe.package(), true, &mut |_| {}).unwrap_err();
    assert_eq!(error.trouble, Trouble::Download);
    assert!(error.message.contains("missing is maven g:n:1"), "{error}");
    let bare = Cache::with_search_path(directory.path().join("cache"), "").unwrap();
    let error = bare.install("e", recipe.package(), false, &mut |_| {}).unwrap_err();
    assert_eq!(error.trouble, Trouble::HostLacks);
    assert!(error.message.contains("needs Maven (mvn); install the package maven"), "{error}");
    assert_eq!(calls(&directory), 0);
}

#[test]
fn who_comes_second_waits_and_finds_it_done() {
    let (directory, cache, recipe) = place("program");
    let install = || cache.install("e", recipe.package(), false, &mut |_| {}).unwrap();
    let (one, two) = thread::scope(|scope| {
        let first = scope.spawn(install);
        (install(), first.join().unwrap())
    });
    assert_eq!(one, two);
    assert_eq!(calls(&directory), 1);
    fs::write(one.prefix.join("bin/server"), "PROGRAM").unwrap();
    assert_eq!(cache.verify("e", recipe.package()).unwrap().len(), 1);
    assert!(cache.remove("e").unwrap() > 0);
    assert_eq!(cache.installed("e", recipe.package()), None);
}

#[test]
fn a_shim_needs_a_compiler_and_the_library_that_it_names() {
    let (directory, cache, recipe) = place("program");
    let shim = Shim {
        name: "wiredtiger".into(),
        include: "include".into(),
        libraries: vec!["lib/lib.so".into()],
    };
    let package = Package { shim: Some(&shim), ..recipe.package() };
    let only_client = directory.path().join("bin");
    let bare = directory.path().join("cache");
    let bare = Cache::with_search_path(bare, &only_client.display().to_string()).unwrap();
    let error = bare.install("e", package, false, &mut |_| {}).unwrap_err();
    assert_eq!(error.trouble, Trouble::HostLacks);
    assert!(error.message.contains("needs cc, a C compiler; install the package gcc"), "{error}");
    assert_eq!(calls(&directory), 0, "nothing was downloaded");
    let error = cache.install("e", package, false, &mut |_| {}).unwrap_err();
    assert_eq!(error.trouble, Trouble::WrongContent);
    assert!(error.message.contains("there is no `lib/lib.so` in what was fetched"), "{error}");
    assert!(!directory.path().join("cache/engines/e/prefix.partial").exists());
    // Installed without a shim it is another installation.
    cache.install("e", recipe.package(), false, &mut |_| {}).unwrap();
    assert_eq!(cache.installed("e", package), None);
}
