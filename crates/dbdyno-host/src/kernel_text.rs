//! Reading and picking apart the small text files of /proc and /sys.
//!
//! Pure functions over text, and two readers. Bytes that are not UTF-8 (a process may name itself anything) are
//! replaced, not refused.

use crate::HostError;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most kernel files fit in this, so that reading one takes two read calls: they are counted in the reader's own I/O.
const USUAL_BYTES: usize = 4096;

/// The whole text of a kernel file.
pub(crate) fn read(path: &Path) -> Result<String, HostError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|source| HostError::file("read", path, source))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a kernel file without surrounding white space; `None` where it cannot be read or is empty.
pub(crate) fn read_known(path: impl AsRef<Path>) -> Option<String> {
    let text = read(path.as_ref()).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_string())
}

/// The number that a one-number kernel file holds.
pub(crate) fn read_number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    read_known(path)?.parse().ok()
}

/// The choice in brackets of a list such as `always [madvise] never`, or the only word there is.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    if let Some((_, rest)) = text.split_once('[') {
        return rest.split_once(']').map(|(word, _)| word);
    }
    let mut words = text.split_whitespace();
    words.next().filter(|_| words.next().is_none())
}

/// The value after `key:` on its own line, trimmed.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim_end() == key).then(|| value.trim())
    })
}

/// A field given in kB (which the kernel means as 1,024 bytes), in bytes.
pub(crate) fn field_bytes(text: &str, key: &str) -> Option<u64> {
    let kilobytes: u64 = field(text, key)?.strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_choice_and_the_field() {
        // Shows the bracket rule, the single word rule, and fields with tabs and units.
        let check = |text, expected| assert_eq!(chosen(text), expected, "{text:?}");
        check("none [mq-deadline] kyber bfq", Some("mq-deadline"));
        check("always madvise [never]", Some("never"));
        check("none", Some("none"));
        check("two words", None);
        check("broken [word", None);
        check("", None);

        let text =
            "Name:\tmysqld\nVmHWM:\t    1696 kB\nmodel name\t: Fast CPU @ 2GHz\nThreads:\t1\n";
        assert_eq!(field(text, "model name"), Some("Fast CPU @ 2GHz"));
        assert_eq!(field(text, "name"), None);
        assert_eq!(field_bytes(text, "VmHWM"), Some(1_736_704));
        assert_eq!(field_bytes(text, "Threads"), None);
        assert_eq!(field_bytes(text, "VmRSS"), None);
    }

    #[test]
    fn an_absent_file_is_unknown_and_an_error_names_it() {
        // Shows that a missing kernel file gives None, and an error with the path where an error is wanted.
        let path = Path::new("/proc/no-such-file");
        assert_eq!(read_known(path), None);
        assert_eq!(read_number::<u64>(path), None);
        let message = read(path).unwrap_err().to_string();
        assert!(message.starts_with("cannot read /proc/no-such-file:"), "{message}");
    }
}
