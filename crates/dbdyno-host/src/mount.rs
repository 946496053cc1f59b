//! Mounted filesystems, as /proc/self/mountinfo lists them, and the one that a path lies on.
//!
//! Pure functions over text. The format is described under "/proc/PID/mountinfo" in the kernel's
//! Documentation/filesystems/proc.rst.

use std::path::{Path, PathBuf};

/// One mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The directory of the filesystem that is mounted; `/` unless a part of it is bound.
    pub root: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Filesystem type: `ext4`, `tmpfs`, `overlay`...
    pub filesystem: String,
    /// What is mounted: a device path or a name that the filesystem gave itself.
    pub source: String,
    /// Options of the mount, then those of the filesystem, separated by commas, each once.
    pub options: String,
}

impl Mount {
    /// Whether this option is set, as a whole word.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|word| word == option)
    }
}

/// Every line of mountinfo that has the known form, in order.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

/// The mount with the longest mount point at or above `path`; of equally long ones the last, which hides the others.
/// `path` must be absolute and free of symbolic links.
pub fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// Whether a filesystem of this type keeps its files in memory only.
pub fn is_memory(filesystem: &str) -> bool {
    ["tmpfs", "ramfs", "rootfs"].contains(&filesystem)
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: any number of optional
/// fields stand before the dash.
fn parse_line(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let [_id, _parent, _device, root, point, mount_options, ..] = place[..] else { return None };
    let mut kind = kind.split(' ');
    let (filesystem, source) = (kind.next()?, kind.next()?);
    let mut options: Vec<&str> = mount_options.split(',').collect();
    for option in kind.next().unwrap_or("").split(',') {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        root: unescape(root),
        point: PathBuf::from(unescape(point)),
        filesystem: unescape(filesystem),
        source: unescape(source),
        options: unescape(&options.join(",")),
    })
}

/// Undoes the kernel's octal escapes: `\040` space, `\011` tab, `\012` line feed, `\134` backslash.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match escaped_byte(&bytes[at..]) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    let [b'\\', digits @ ..] = bytes else { return None };
    let octal = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(octal, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
24 29 0:22 / /proc rw,nosuid - proc proc rw
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
41 29 259:3 / /srv rw,noatime shared:20 master:3 - xfs /dev/nvme0n1p3 rw,attr2,noatime,noquota
52 41 0:44 / /srv/two\\040words\\134x rw - tmpfs tmp\\011fs rw,size=4k
60 29 0:50 /box/a /srv/data rw - overlay overlay rw,lowerdir=/l
61 29 259:9 / /srv/data rw - ext4 /dev/sdb1 rw
a line of another form
";

    #[test]
    fn parses_lines_and_escapes() {
        // Shows all fields, optional fields before the dash, escapes, options merged once, and a bad line left out.
        let mounts = parse(SAMPLE);
        assert_eq!(mounts.len(), 6);
        assert_eq!(mounts[2].options, "rw,noatime,attr2,noquota");
        assert!(mounts[2].has_option("noatime") && !mounts[2].has_option("no"));
        assert_eq!(mounts[3].point, Path::new("/srv/two words\\x"));
        assert_eq!(mounts[3].source, "tmp\tfs");
        assert_eq!((mounts[4].root.as_str(), mounts[4].filesystem.as_str()), ("/box/a", "overlay"));
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("\\777"), "\\777");
        assert_eq!(unescape("\\303\\251"), "é");
    }

    #[test]
    fn finds_the_longest_and_latest_mount() {
        // Shows that whole path components count, and that a later mount hides an earlier one.
        let mounts = parse(SAMPLE);
        let check = |path, source| {
            let mount = of_path(&mounts, Path::new(path)).unwrap();
            assert_eq!(mount.source, source, "{path}");
        };
        check("/", "/dev/nvme0n1p2");
        check("/srv", "/dev/nvme0n1p3");
        check("/srvother", "/dev/nvme0n1p2");
        check("/srv/data/x/y", "/dev/sdb1");
        check("/srv/two words\\x/y", "tmp\tfs");
        assert_eq!(of_path(&mounts[..1], Path::new("/srv")), None);
    }
}
