//! `dbdyno engines fetch`, `verify` and `remove`.

use super::packages;
use crate::cache_directory::CacheArgs;
use crate::exit_code;
use crate::failure::Failure;
use crate::fetch_progress::FetchVoice;
use crate::output;
use crate::view::text::bytes;
use dbdyno_plan::EngineFile;

/// Gets engines, one after another.
pub fn fetch(engines: &[EngineFile], names: &[String], cache: &CacheArgs) -> Result<u8, Failure> {
    let packages = packages(engines, names)?;
    let cache = cache.open()?;
    for (name, package) in packages {
        let mut voice = FetchVoice::new(name);
        let installed = cache.install(name, package, false, &mut |progress| voice.say(&progress));
        voice.finish();
        let installed = installed?;
        let size = bytes(installed.bytes_on_disk as f64);
        output::print(&format!("{name}: {}, {size} on disk\n", installed.source))?;
    }
    Ok(exit_code::DONE)
}

/// Holds what is installed against what was installed.
pub fn verify(engines: &[EngineFile], names: &[String], cache: &CacheArgs) -> Result<u8, Failure> {
    let packages = packages(engines, names)?;
    let cache = cache.open()?;
    let mut differing = Vec::new();
    for (name, package) in packages {
        let differences = cache.verify(name, package)?;
        let verdict = match differences.len() {
            0 => "as installed".to_owned(),
            count => format!("{count} files differ"),
        };
        let lines: String = differences.iter().map(|one| format!("  {one}\n")).collect();
        output::print(&format!("{name}: {verdict}\n{lines}"))?;
        if !differences.is_empty() {
            differing.push(name);
        }
    }
    if differing.is_empty() {
        return Ok(exit_code::DONE);
    }
    let names = differing.join(" ");
    let advice = format!("`dbdyno engines remove {names}` and then fetch again");
    let message = format!("files differ from what was installed: {names}; {advice}");
    Err(Failure::new(exit_code::NOT_FETCHED, message))
}

/// Removes engines from the cache.
pub fn remove(engines: &[EngineFile], names: &[String], cache: &CacheArgs) -> Result<u8, Failure> {
    let packages = packages(engines, names)?;
    let cache = cache.open()?;
    // What stands behind an engine is another engine's installation, which that one may need.
    for (name, _) in packages.into_iter().filter(|(name, _)| names.iter().any(|own| own == name)) {
        let freed = bytes(cache.remove(name)? as f64);
        output::print(&format!("{name}: removed, {freed} freed\n"))?;
    }
    Ok(exit_code::DONE)
}
