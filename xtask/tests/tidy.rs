//! The tree keeps its own rules. Each test also shows, on a small example, that its rule can find something.

use xtask::{Source, dependencies, headers, lengths, only_in, root, sources};

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn example(text: &str) -> Vec<Source> {
    vec![Source { path: "crates/x/src/lib.rs".to_owned(), text: text.to_owned() }]
}

/// Every source file begins with a header that says what it is.
#[test]
fn files_say_what_they_are() {
    assert_eq!(headers(&example("use x;\n")).len(), 1);
    none(headers(&sources(&[".rs"])));
}

/// No source file is over 1,000 lines.
#[test]
fn files_are_one_idea() {
    assert_eq!(lengths(&example(&"\n".repeat(1001))).len(), 1);
    none(lengths(&sources(&[".rs"])));
}

/// Only the command prints, and only the clocks read time in what is measured.
#[test]
fn printing_and_time_have_their_places() {
    assert_eq!(only_in(&example("println!();\n"), "println!", &["crates/dbdyno/"]).len(), 1);
    let all = sources(&[".rs"]);
    for word in ["println!", "eprintln!", "print!("] {
        none(only_in(&all, word, &["crates/dbdyno/", "xtask/"]));
    }
    let clocks = [
        "crates/dbdyno-load/src/clock.rs",
        "crates/dbdyno-host/src/clock.rs",
        "crates/dbdyno/",
        "xtask/",
    ];
    for word in ["Instant::now", "SystemTime::now", "clock_gettime("] {
        let probes = [&clocks[..], &["crates/dbdyno-host/src/"]].concat();
        none(only_in(&all, word, if word == "clock_gettime(" { &probes } else { &clocks }));
    }
}

/// The pure crates name neither files, nor clocks, nor threads.
#[test]
fn pure_crates_are_pure() {
    let pure: Vec<Source> = sources(&[".rs"])
        .into_iter()
        .filter(|source| {
            ["dbdyno-workload", "dbdyno-plan", "dbdyno-stats"]
                .iter()
                .any(|name| source.path.starts_with(&format!("crates/{name}/src/")))
        })
        .collect();
    assert!(pure.len() > 10, "the list of pure crates has lost its crates");
    for word in ["std::fs", "std::time", "std::thread", "std::env", "std::process", "std::net"] {
        none(only_in(&pure, word, &["nowhere"]));
    }
}

/// Each outside crate has its reason in ARCHITECTURE.md.
#[test]
fn dependencies_have_reasons() {
    let manifest = "[workspace.dependencies]\nserde = \"1\"\n\n[profile.dev]\n";
    assert_eq!(dependencies(manifest, "## Dependencies\n| `toml` | x |\n").len(), 2);
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("is there");
    none(dependencies(&read("Cargo.toml"), &read("ARCHITECTURE.md")));
}

/// Every engine directory, experiment file and driver file is in its list.
#[test]
fn lists_are_complete() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("is there");
    let names = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root().join(directory)).expect("is there");
        entries
            .map(|entry| entry.expect("reads").file_name().to_string_lossy().into_owned())
            .collect()
    };
    let shipped = read("crates/dbdyno-plan/src/shipped.rs");
    for name in names("engines/families") {
        assert!(
            shipped.contains(&format!("\"engines/families/{name}\"")),
            "family {name} is not shipped"
        );
    }
    for name in names("engines/shims") {
        assert!(
            shipped.contains(&format!("\"engines/shims/{name}\"")),
            "shim {name} is not shipped"
        );
    }
    let is_engine = |name: &&String| !["families", "shims"].contains(&name.as_str());
    for name in names("engines").iter().filter(is_engine) {
        assert!(
            shipped.contains(&format!("\"engines/{name}/engine.toml\"")),
            "engine {name} is not shipped"
        );
    }
    for name in names("experiments") {
        assert!(
            shipped.contains(&format!("\"experiments/{name}\"")),
            "experiment {name} is not shipped"
        );
    }
    let drivers = read("crates/dbdyno-load/src/driver/mod.rs");
    let conformance = read("crates/dbdyno-load/tests/conformance.rs");
    for name in
        names("crates/dbdyno-load/src/driver").iter().filter_map(|name| name.strip_suffix(".rs"))
    {
        let listed = drivers.contains(&format!("\"{name}\" => with!("));
        assert!(listed || name == "mod", "driver {name} is not in with_driver!");
        // The null driver keeps nothing, so there is nothing to conform to.
        let tested = conformance.contains(&format!("fn {name}_conforms()"));
        // An engine library that is fetched is tested where it can be, in a file of its own.
        let own = root().join(format!("crates/dbdyno/tests/{name}.rs"));
        let tested =
            tested || std::fs::read_to_string(own).is_ok_and(|text| text.contains("conforms::<"));
        assert!(tested || ["mod", "null"].contains(&name), "driver {name} is not tested");
    }
}

/// Every command that the README shows is one that the program has.
#[test]
fn the_readme_shows_commands_that_exist() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("is there");
    let (readme, cli) = (read("README.md"), read("crates/dbdyno/src/cli.rs"));
    let mut flags = 0;
    for word in readme.split(|letter: char| letter.is_whitespace() || "`,;|[]".contains(letter)) {
        let known = ["--release", "--path"].contains(&word);
        if let Some(flag) = word
            .strip_prefix("--")
            .filter(|flag| flag.starts_with(|l: char| l.is_ascii_lowercase()) && !known)
        {
            flags += 1;
            let field = format!("pub {}:", flag.replace('-', "_"));
            assert!(cli.contains(&field), "README.md shows --{flag}, which cli.rs does not have");
        }
    }
    assert!(flags > 5, "the README has lost its examples");
}

/// No path of somebody's machine, no unfinished mark, and no address of a package registry is committed.
#[test]
fn nothing_foreign_is_committed() {
    // Put together here, so that this file does not find itself.
    let forbidden = [
        ["/ro", "ot/"].concat(),
        ["/ho", "me/"].concat(),
        ["to", "do!("].concat(),
        ["unimple", "mented!("].concat(),
        ["FIX", "ME"].concat(),
        ["crates", ".io/"].concat(),
        ["pypi", ".org"].concat(),
    ];
    let all = sources(&[".rs", ".toml", ".md", "run", ".lock.example"]);
    assert!(all.len() > 30, "the tree has lost its files");
    let mut wrong = Vec::new();
    for source in &all {
        for (number, line) in source.text.lines().enumerate() {
            for word in forbidden.iter().filter(|word| line.contains(word.as_str())) {
                wrong.push(format!("{}:{}: `{word}`", source.path, number + 1));
            }
        }
    }
    none(wrong);
}
