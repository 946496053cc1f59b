//! The newest `OPTIONS-NNNNNN` file of a data directory: which RocksDB wrote it, and with which options in effect.
//!
//! The C API of older versions cannot be asked for its version, and none can be asked for most options; this file is
//! what the library itself writes at every opening. Its lines are `name=value` below `[Section "name"]`.

use crate::driver::DriverError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An options file as read.
pub(super) struct OptionsFile {
    /// `rocksdb_version`.
    pub(super) version: String,
    /// Options by section, as `DBOptions` or `CFOptions "default"`.
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl OptionsFile {
    /// Reads the newest one.
    pub(super) fn newest(directory: &Path) -> Result<OptionsFile, DriverError> {
        let found = newest(directory).ok_or_else(|| {
            DriverError::new(format!("rocksdb: {} holds no OPTIONS file", directory.display()))
        })?;
        let text = std::fs::read_to_string(&found).map_err(|error| {
            DriverError::new(format!("rocksdb: read {}: {error}", found.display()))
        })?;
        OptionsFile::parse(&text).ok_or_else(|| {
            let why = "does not say which version wrote it";
            DriverError::new(format!("rocksdb: {} {why}", found.display()))
        })
    }

    fn parse(text: &str) -> Option<OptionsFile> {
        let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut section = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some((name, value)) = line.split_once('=') {
                let options = sections.entry(section.clone()).or_default();
                options.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
        let version = sections.get("Version")?.get("rocksdb_version")?.clone();
        Some(OptionsFile { version, sections })
    }

    /// An option of a section, if it is there.
    pub(super) fn option(&self, section: &str, name: &str) -> Option<&str> {
        self.sections.get(section)?.get(name).map(String::as_str)
    }
}

fn newest(directory: &Path) -> Option<PathBuf> {
    let numbered = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.strip_prefix("OPTIONS-")?.parse::<u64>().ok()?;
        Some((number, path))
    };
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().filter_map(|entry| numbered(entry.path())).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_file_counts_and_sections_are_kept_apart() {
        let directory = tempfile::tempdir().unwrap();
        assert!(OptionsFile::newest(directory.path()).is_err());
        let write = |name: &str, version: &str| {
            let text = format!(
                "# a comment = 1\n[Version]\n  rocksdb_version={version}\n\n[CFOptions \"t1\"]\n  compression=kZSTD\n"
            );
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("OPTIONS-000009", "8.0.0");
        write("OPTIONS-000010", "9.0.0");
        write("OPTIONS-000011.dbtmp", "10.0.0");
        let found = OptionsFile::newest(directory.path()).unwrap();
        assert_eq!(found.version, "9.0.0");
        assert_eq!(found.option("CFOptions \"t1\"", "compression"), Some("kZSTD"));
        assert_eq!(found.option("DBOptions", "compression"), None);
        std::fs::write(directory.path().join("OPTIONS-000012"), "nothing").unwrap();
        assert!(OptionsFile::newest(directory.path()).is_err());
    }
}
