//! The chain that makes every edit of `trials.jsonl` visible, with the number of the line.
//!
//! A line is `{"KIND":BODY,"seal":"SEAL"}` with KIND one of `record` (line 1), `trial`, `file` and `end`. SEAL is the
//! SHA-256, as 64 lower-case hexadecimal digits, of the previous line's SEAL (nothing before line 1) followed by this
//! line's own text up to `,"seal":`. So a changed, removed, inserted or moved line breaks the chain there. What no chain
//! can show is the loss of the last lines of an unsealed run: that looks like a run that was stopped earlier.

use sha2::{Digest, Sha256};

use crate::disk;

const SEAL_KEY: &str = ",\"seal\":\"";
const SEAL_DIGITS: usize = 64;
const LINE_END: &str = "\"}";

/// A line whose seal agrees with the chain before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedLine<'a> {
    /// One-based line number.
    pub line: usize,
    /// `record`, `trial`, `file` or `end`, if nothing strange was sealed.
    pub kind: &'a str,
    /// JSON text of the body.
    pub body: &'a str,
    /// The line's seal.
    pub seal: &'a str,
}

/// Where and why a chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// One-based line number.
    pub line: usize,
    /// What does not agree.
    pub what: &'static str,
}

/// Makes the next line, without its newline, and gives its seal.
pub fn seal_line(previous_seal: &str, kind: &str, body: &str) -> (String, String) {
    let mut line = format!("{{\"{kind}\":{body}");
    let seal = seal_of(previous_seal, &line);
    line.push_str(SEAL_KEY);
    line.push_str(&seal);
    line.push_str(LINE_END);
    (line, seal)
}

fn seal_of(previous_seal: &str, sealed_text: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous_seal);
    hasher.update(sealed_text);
    disk::hex(&hasher.finalize())
}

/// Walks over the complete lines of a text and checks each seal; ends after the first broken one.
///
/// What follows the last newline is not a line yet: see [`Chain::torn_bytes`].
#[derive(Debug, Clone)]
pub struct Chain<'a> {
    rest: &'a [u8],
    line: usize,
    previous_seal: &'a str,
    is_broken: bool,
}

impl<'a> Chain<'a> {
    /// Begins with the first line of `trials.jsonl`.
    pub fn new(bytes: &'a [u8]) -> Chain<'a> {
        Chain { rest: bytes, line: 0, previous_seal: "", is_broken: false }
    }

    /// How many bytes have not been walked over; after the last line, the length of a torn line.
    pub fn torn_bytes(&self) -> usize {
        self.rest.len()
    }

    /// Seal of the last good line, empty before line 1.
    pub fn last_seal(&self) -> &'a str {
        self.previous_seal
    }

    /// Number of the last line walked over, 0 before line 1.
    pub fn last_line(&self) -> usize {
        self.line
    }

    fn check(&self, line: &'a [u8]) -> Result<SealedLine<'a>, &'static str> {
        let text = str::from_utf8(line).map_err(|_| "it is not UTF-8 text")?;
        let (sealed_text, kind, body, seal) = split(text).ok_or("it has not the form of a line")?;
        if seal_of(self.previous_seal, sealed_text) != seal {
            return Err("the seal does not match: this line was edited, or a line before it was \
                        removed, inserted or moved");
        }
        Ok(SealedLine { line: self.line + 1, kind, body, seal })
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<SealedLine<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken {
            return None;
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        match self.check(&self.rest[..end]) {
            Ok(line) => {
                self.rest = &self.rest[end + 1..];
                self.line += 1;
                self.previous_seal = line.seal;
                Some(Ok(line))
            }
            Err(what) => {
                self.is_broken = true;
                Some(Err(Broken { line: self.line + 1, what }))
            }
        }
    }
}

/// Splits a line into the text that is sealed, its kind, its body and its seal.
fn split(line: &str) -> Option<(&str, &str, &str, &str)> {
    let before_end = line.strip_suffix(LINE_END)?;
    let seal_at = before_end.len().checked_sub(SEAL_DIGITS)?;
    let (before_seal, seal) = before_end.split_at_checked(seal_at)?;
    let sealed_text = before_seal.strip_suffix(SEAL_KEY)?;
    let (kind, body) = sealed_text.strip_prefix("{\"")?.split_once("\":")?;
    Some((sealed_text, kind, body, seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_lines() -> String {
        let (one, seal) = seal_line("", "record", "{\"format\":1}");
        let (two, seal) = seal_line(&seal, "trial", "{\"trial\":0}");
        let (three, _) = seal_line(&seal, "end", "{\"trials\":1}");
        format!("{one}\n{two}\n{three}\n")
    }

    /// Number of the line where the chain breaks, if it does.
    fn broken_at(text: &str) -> Option<usize> {
        Chain::new(text.as_bytes()).find_map(|line| line.err()).map(|broken| broken.line)
    }

    #[test]
    fn seals_are_what_the_header_of_this_file_says() {
        let (line, seal) = seal_line("", "record", "{}");
        assert_eq!(seal, disk::sha256_hex(b"{\"record\":{}"));
        assert_eq!(line, format!("{{\"record\":{{}},\"seal\":\"{seal}\"}}"));
        let (_, next) = seal_line(&seal, "end", "{}");
        assert_eq!(next, disk::sha256_hex(format!("{seal}{{\"end\":{{}}").as_bytes()));
    }

    #[test]
    fn a_changed_removed_moved_or_inserted_line_is_found_where_it_is() {
        fn check(change: impl FnOnce(&mut Vec<&str>), expected: Option<usize>) {
            let text = three_lines();
            let mut lines: Vec<&str> = text.lines().collect();
            change(&mut lines);
            assert_eq!(broken_at(&(lines.join("\n") + "\n")), expected);
        }
        check(|_| {}, None);
        check(|lines| _ = lines.remove(0), Some(1));
        check(|lines| _ = lines.remove(1), Some(2));
        check(|lines| _ = lines.pop(), None);
        check(|lines| lines.swap(1, 2), Some(2));
        check(|lines| lines.insert(1, ""), Some(2));
        check(|lines| lines.insert(2, lines[1]), Some(3));
        check(|lines| lines.push("x"), Some(4));
    }

    #[test]
    fn any_changed_byte_is_found_at_its_line_or_leaves_a_torn_last_line() {
        let text = three_lines().into_bytes();
        for offset in 0..text.len() {
            let line = 1 + text[..offset].iter().filter(|&&byte| byte == b'\n').count();
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[offset] ^= 1 << bit;
                let mut chain = Chain::new(&changed);
                let broken = chain.find_map(|line| line.err()).map(|broken| broken.line);
                let is_torn = chain.torn_bytes() > 0 && offset == text.len() - 1;
                assert!(broken == Some(line) || is_torn, "byte {offset} bit {bit}: {broken:?}");
            }
        }
    }
}
