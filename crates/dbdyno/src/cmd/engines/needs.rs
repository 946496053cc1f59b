//! What an engine needs of the host before it can be fetched and started, in few words for a table.

use dbdyno_plan::{Package, Source};

/// One word or two for each way to get it, alternatives with `or` between them.
pub fn needs(package: Package<'_>) -> String {
    let mut ways: Vec<String> = package.sources.iter().map(|source| way(source, package)).collect();
    ways.dedup();
    ways.join(" or ")
}

fn way(source: &Source, package: Package<'_>) -> String {
    let client = match source {
        Source::Maven { .. } => "mvn".to_owned(),
        Source::Debian { .. } => "apt-get".to_owned(),
        Source::Pypi { build, .. } => {
            let mut words = vec!["pip"];
            words.extend(build.iter().map(|command| command.program.as_str()));
            words.dedup();
            words.join("+")
        }
        Source::Go { .. } => "go".to_owned(),
        Source::Image { .. } => "docker".to_owned(),
        Source::Path { .. } | Source::Running { .. } => return "nothing".to_owned(),
    };
    let client = match package.shim {
        Some(_) => format!("{client}+cc"),
        None => client,
    };
    match package.own_root {
        true => format!("{client}, root or user namespaces"),
        false => client,
    }
}
