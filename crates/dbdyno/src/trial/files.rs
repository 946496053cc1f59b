//! Files of an engine by size, as they are when a trial ends: what its data and logs take up.

use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Files that are listed by name; the others are in the sum only.
const LISTED: usize = 50;

/// What lies below a data directory.
pub struct Files {
    /// Room that all of them take on the device, bytes.
    pub bytes: u64,
    /// The largest, with their names below the directory and the room that each takes.
    largest: Vec<(String, u64)>,
    count: usize,
}

impl Files {
    /// Reads the sizes. What disappears meanwhile is left out, as a server goes on working.
    pub fn below(directory: &Path) -> Files {
        let mut found = Vec::new();
        let mut open = vec![directory.to_owned()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
                // Not followed: a link's target is not the engine's, or is counted where it lies.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    open.push(entry.path());
                } else if metadata.is_file() {
                    let path = entry.path();
                    let name = path.strip_prefix(directory).unwrap_or(&path);
                    // st_blocks counts 512 bytes whatever the file system's own block is; see stat(2).
                    found.push((name.to_string_lossy().into_owned(), metadata.blocks() * 512));
                }
            }
        }
        found.sort_by(|(name, bytes), (other, other_bytes)| {
            other_bytes.cmp(bytes).then_with(|| name.cmp(other))
        });
        let count = found.len();
        let bytes = found.iter().map(|(_, bytes)| bytes).sum();
        found.truncate(LISTED);
        Files { bytes, largest: found, count }
    }

    /// As the detail directory keeps them.
    pub fn as_json(&self) -> Value {
        let largest: Vec<Value> = self
            .largest
            .iter()
            .map(|(name, bytes)| json!({ "name": name, "bytes": bytes }))
            .collect();
        json!({ "files": self.count, "bytes": self.bytes, "largest": largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes are room on the device, so a hole takes none; the largest file comes first.
    #[test]
    fn files_are_listed_by_the_room_they_take() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path();
        std::fs::create_dir(path.join("logs")).expect("makes");
        std::fs::write(path.join("logs/one"), vec![1; 100_000]).expect("writes");
        std::fs::write(path.join("two"), vec![1; 10]).expect("writes");
        let hole = std::fs::File::create(path.join("hole")).expect("makes");
        hole.set_len(1 << 30).expect("a hole");
        hole.sync_all().expect("syncs");
        let files = Files::below(path);
        assert_eq!(files.count, 3);
        assert_eq!(files.largest[0].0, "logs/one");
        assert!((100_000..1 << 20).contains(&files.bytes), "{}", files.bytes);
    }
}
