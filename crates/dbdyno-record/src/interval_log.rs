//! Interval logs of HdrHistogram (version 2, deflated): the text form that the JVM's log tools read too.
//!
//! Each line is `Tag=TAG,START,LENGTH,MAX,HISTOGRAM`: TAG is `role.class`, with `warmup.` before it for the warm-up;
//! START is in seconds after the BaseTime of the log's head, LENGTH in seconds, both to the millisecond; MAX is in
//! milliseconds for human eyes; HISTOGRAM is base64 and holds values in nanoseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, LogIteratorError, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::error::{RecordError, Result};

/// Nanoseconds in the unit of the MAX column. The JVM's tools divide by a million too unless told otherwise.
const NS_PER_MAX_UNIT: f64 = 1_000_000.0;
const WARMUP: &str = "warmup";

/// Whether an interval counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before the measured interval: recorded, but no result.
    WarmUp,
    /// The measured interval.
    Measured,
}

/// Whose times an interval holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntervalTag {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Role of the clients; without `.`, `,` or white space, and not `warmup`.
    pub role: String,
    /// Class of the requests; without `.`, `,` or white space.
    pub class: String,
}

impl IntervalTag {
    /// The tag as the log writes it: `role.class` or `warmup.role.class`.
    ///
    /// # Errors
    /// [`RecordError::IntervalLog`] if role or class has a character that a tag cannot hold.
    pub fn text(&self) -> Result<String> {
        for word in [&self.role, &self.class] {
            let is_bad = |letter: char| letter == '.' || letter == ',' || letter.is_whitespace();
            if word.is_empty() || word == WARMUP || word.contains(is_bad) {
                return Err(wrong(0, format!("{word:?} cannot be a role or class in a tag")));
            }
        }
        Ok(match self.phase {
            Phase::WarmUp => format!("{WARMUP}.{}.{}", self.role, self.class),
            Phase::Measured => format!("{}.{}", self.role, self.class),
        })
    }

    fn parse(text: &str) -> Option<IntervalTag> {
        let words: Vec<&str> = text.split('.').collect();
        let (phase, role, class) = match words[..] {
            [WARMUP, role, class] => (Phase::WarmUp, role, class),
            [role, class] => (Phase::Measured, role, class),
            _ => return None,
        };
        Some(IntervalTag { phase, role: role.to_owned(), class: class.to_owned() })
    }
}

/// The times of one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Whose they are.
    pub tag: IntervalTag,
    /// Begin of the interval after the log's base; kept to the millisecond.
    pub start: Duration,
    /// Length of the interval; kept to the millisecond.
    pub length: Duration,
    /// The times in nanoseconds.
    pub histogram: Histogram<u64>,
}

/// An interval log as read.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalLog {
    /// What the starts count from, to the millisecond; 1970 if the log does not say.
    pub base: SystemTime,
    /// The intervals in the order of the log.
    pub intervals: Vec<Interval>,
}

impl IntervalLog {
    /// Writes a log. `title` says in one line what the times are, for example `response_time_ns`.
    ///
    /// # Errors
    /// [`RecordError::IntervalLog`] if a tag cannot be written.
    pub fn write(&self, title: &str) -> Result<Vec<u8>> {
        let mut writer = IntervalLogWriter::new(title, self.base)?;
        for interval in &self.intervals {
            writer.push(interval)?;
        }
        Ok(writer.into_bytes())
    }

    /// Reads a log that [`IntervalLog::write`] wrote; the JVM's logs are read too if their tags have our form.
    ///
    /// Histograms are unpacked into as much memory as they say they need, so give it bytes that were checked against
    /// their SHA-256, as [`crate::Run::read_detail`] does.
    ///
    /// # Errors
    /// [`RecordError::IntervalLog`] with the line.
    pub fn read(bytes: &[u8]) -> Result<IntervalLog> {
        let mut log = IntervalLog { base: UNIX_EPOCH, intervals: Vec::new() };
        let mut deserializer = Deserializer::new();
        let mut start = 0;
        // One line at a time, so that an error can name it.
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let number = index + 1;
            start += line.len();
            if start == bytes.len() && !line.ends_with(b"\n") {
                return Err(wrong(number, "truncated: it has no end of line".to_owned()));
            }
            match IntervalLogIterator::new(line).next() {
                None | Some(Ok(LogEntry::StartTime(_))) => {}
                Some(Ok(LogEntry::BaseTime(base))) => {
                    log.base = UNIX_EPOCH
                        .checked_add(base)
                        .ok_or_else(|| wrong(number, "its time is out of range".to_owned()))?;
                }
                Some(Ok(LogEntry::Interval(interval))) => {
                    let tag = interval.tag().and_then(|tag| IntervalTag::parse(tag.as_str()));
                    let tag = tag.ok_or_else(|| wrong(number, "no tag `role.class`".to_owned()))?;
                    let packed = STANDARD
                        .decode(interval.encoded_histogram())
                        .map_err(|error| wrong(number, format!("its histogram: {error}")))?;
                    let histogram = deserializer
                        .deserialize(&mut packed.as_slice())
                        .map_err(|error| wrong(number, error.to_string()))?;
                    log.intervals.push(Interval {
                        tag,
                        start: interval.start_timestamp(),
                        length: interval.duration(),
                        histogram,
                    });
                }
                Some(Err(LogIteratorError::ParseError { .. })) => {
                    return Err(wrong(number, "neither a comment nor an interval".to_owned()));
                }
            }
        }
        Ok(log)
    }
}

/// Writes a log while its intervals come, and keeps them packed: a long step has many of them.
#[derive(Debug, Clone)]
pub struct IntervalLogWriter {
    bytes: Vec<u8>,
}

impl IntervalLogWriter {
    /// A log without intervals yet. `base` is what their starts count from; `title` is one line that says what the
    /// times are.
    ///
    /// # Errors
    /// [`RecordError::IntervalLog`] if the head cannot be written.
    pub fn new(title: &str, base: SystemTime) -> Result<IntervalLogWriter> {
        let mut bytes = Vec::new();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&title.replace('\n', " "))
            .add_comment("Histograms hold nanoseconds; Interval_Max is in milliseconds.")
            .with_start_time(base)
            .with_base_time(base)
            .with_max_value_divisor(NS_PER_MAX_UNIT)
            .begin_log_with(&mut bytes, &mut V2DeflateSerializer::new())
            .map_err(|error| wrong(0, error.to_string()))?;
        Ok(IntervalLogWriter { bytes })
    }

    /// Adds an interval.
    ///
    /// # Errors
    /// [`RecordError::IntervalLog`] if its tag cannot be written.
    pub fn push(&mut self, interval: &Interval) -> Result<()> {
        let Interval { tag, start, length, histogram } = interval;
        let text = tag.text()?;
        // The library's writer borrows what it writes to for as long as it lives, so each interval gets a log of its
        // own, of which the last line is the interval.
        let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        IntervalLogWriterBuilder::new()
            .with_max_value_divisor(NS_PER_MAX_UNIT)
            .begin_log_with(&mut log, &mut serializer)
            .and_then(|mut log| {
                let written = log.write_histogram(histogram, *start, *length, Tag::new(&text));
                written.map_err(|error| std::io::Error::other(error.to_string()))
            })
            .map_err(|error| wrong(0, error.to_string()))?;
        let line = log.split_inclusive(|&byte| byte == b'\n').next_back().unwrap_or_default();
        self.bytes.extend_from_slice(line);
        Ok(())
    }

    /// The log.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn wrong(line: usize, what: String) -> RecordError {
    RecordError::IntervalLog { line, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_NS: u64 = 100_000_000_000;

    fn tag(phase: Phase) -> IntervalTag {
        IntervalTag { phase, role: "writer".to_owned(), class: "update".to_owned() }
    }

    fn log(values: &[u64], phase: Phase) -> IntervalLog {
        let mut histogram = Histogram::new_with_bounds(1, MAX_NS, 3).unwrap();
        for &value in values {
            histogram.record(value).unwrap();
        }
        let base = UNIX_EPOCH + Duration::from_millis(1_795_234_512_250);
        let (start, length) = (Duration::from_millis(500), Duration::from_millis(2001));
        IntervalLog {
            base,
            intervals: vec![Interval { tag: tag(phase), start, length, histogram }],
        }
    }

    #[test]
    fn a_line_has_the_form_that_the_jvm_reads() {
        let text = log(&[1_500_000], Phase::WarmUp).write("service_time_ns").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("#[Histogram log format version 1.3]\n#service_time_ns\n"));
        assert!(text.contains("#[BaseTime: 1795234512.250 (seconds since epoch)]\n"), "{text}");
        let line = text.lines().last().unwrap();
        // HISTFAAAA is how the base64 of every deflated version 2 histogram begins.
        assert!(line.starts_with("Tag=warmup.writer.update,0.500,2.001,1.500,HISTFAAAA"), "{line}");
    }

    #[test]
    fn tags_that_could_be_misread_are_refused() {
        for role in ["", "a.b", "a,b", "a b", "warmup", "a\n"] {
            let tag = IntervalTag { role: role.to_owned(), ..tag(Phase::Measured) };
            assert!(tag.text().is_err(), "{role:?}");
        }
    }

    #[test]
    fn damaged_logs_are_errors_that_name_the_line() {
        fn check(change: impl FnOnce(String) -> String, line: usize) {
            let text = log(&[5], Phase::Measured).write("x").unwrap();
            let damaged = change(String::from_utf8(text).unwrap());
            match IntervalLog::read(damaged.as_bytes()) {
                Err(RecordError::IntervalLog { line: found, .. }) => assert_eq!(found, line),
                other => panic!("{other:?}"),
            }
        }
        check(|text| text.trim_end().to_owned(), 7);
        check(|text| text + "x\n", 8);
        check(|text| text.replace("Tag=writer.update,", ""), 7);
        check(|text| text.replace("Tag=writer.update,", "Tag=update,"), 7);
        check(|text| text.replace("HISTF", "HISTX"), 7);
        check(|text| text.replace("HISTF", "****F"), 7);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            values in prop::collection::vec(1..=MAX_NS, 0..200),
            is_warmup: bool,
        ) {
            let phase = if is_warmup { Phase::WarmUp } else { Phase::Measured };
            let log = log(&values, phase);
            let read = IntervalLog::read(&log.write("response_time_ns").unwrap()).unwrap();
            prop_assert_eq!(read, log);
        }

        #[test]
        fn no_text_makes_reading_panic(text in "(#|Tag=|a\\.b,|[0-9.,]|[A-Z]|\n|\\PC){0,60}") {
            let _ = IntervalLog::read(text.as_bytes());
        }
    }
}
