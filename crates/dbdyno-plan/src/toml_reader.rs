//! A strict walk over a TOML file: every key is asked for by name, and what nobody asked for is an error.
//!
//! Experiment and engine files are both read through [`Table`]. It keeps the line of every key and list item, so
//! that each message can name file, line and key. It knows no file format of its own and reads no file.

use dbdyno_workload::Setting;
use toml::de::{DeTable, DeValue};

use crate::input_error::{InputError, Place};
use crate::nearest::suggestion;
use crate::value::{Item, Raw, Wanted};

/// A table being read: keys that were taken are gone from it.
#[derive(Debug, Clone)]
pub struct Table {
    heading: String,
    place: Place,
    entries: Vec<Entry>,
    asked: Vec<String>,
}

/// A key with its value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the key, with dots where it was flattened out of nested tables.
    pub key: String,
    /// Value as written.
    pub value: Raw,
    /// Where the key is written.
    pub place: Place,
    /// Path of the table it stands in, without brackets; empty at the top of a file and in arguments.
    pub heading: String,
}

impl Table {
    /// Parses a whole file. `file` is the name that messages use.
    pub fn parse(file: &str, text: &str) -> Result<Table, InputError> {
        let lines = Lines { file, text };
        let root = DeTable::parse(text).map_err(|error| {
            let line = lines.number(error.span().map_or(0, |span| span.start));
            let message = error.message().trim().replace('\n', ", ");
            InputError::about_place(Place::line(file, line), format!("not valid TOML: {message}"))
        })?;
        let entries = lines.entries("", root.get_ref());
        Ok(Table { heading: String::new(), place: Place::line(file, 1), entries, asked: vec![] })
    }

    /// Puts this table over another one: what stands here counts, tables are put over each other key by key.
    pub fn over(self, below: Table) -> Table {
        Table { entries: over(self.entries, below.entries), ..self }
    }

    /// Only these keys of it.
    pub fn only(mut self, keys: &[&str]) -> Table {
        self.entries.retain(|entry| keys.contains(&entry.key.as_str()));
        self
    }

    /// Takes a key that may be absent.
    pub fn optional(&mut self, key: &str) -> Option<Entry> {
        self.asked.push(key.to_string());
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Takes a key that must be there.
    pub fn required(&mut self, key: &str) -> Result<Entry, InputError> {
        let missing = format!("key \"{key}\" is missing{}", in_heading(&self.heading));
        let place = self.place.clone();
        self.optional(key).ok_or_else(|| InputError::about_key(place, key, missing))
    }

    /// Takes a table that may be absent, which is like an empty one.
    pub fn table(&mut self, key: &str) -> Result<Table, InputError> {
        let empty = Table {
            heading: nested(&self.heading, key),
            place: self.place.clone(),
            entries: vec![],
            asked: vec![],
        };
        self.optional(key).map_or(Ok(empty), Entry::into_table)
    }

    /// Takes everything that is left, in the order it is written.
    pub fn rest(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// Refuses what nobody asked for, naming the first such key and the nearest one that was asked for.
    pub fn finish(self) -> Result<(), InputError> {
        let Some(entry) = self.entries.first() else { return Ok(()) };
        Err(entry.unknown(self.asked.iter().map(String::as_str)))
    }

    /// Where the table begins.
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl Entry {
    /// An entry from an argument of the command, whose text is the place in messages.
    pub fn argument(argument: String, key: &str, value: Raw) -> Entry {
        let place = Place::argument(argument);
        Entry { key: key.to_string(), value, place, heading: String::new() }
    }

    /// An error about this key; the message begins with the key and the table.
    pub fn wrong(&self, why: &str) -> InputError {
        let message = format!("\"{}\"{} {why}", self.key, in_heading(&self.heading));
        InputError::about_key(self.place.clone(), &self.key, message)
    }

    /// The error for a key that is not known here.
    pub fn unknown<'a>(&self, known: impl IntoIterator<Item = &'a str> + Clone) -> InputError {
        let heading = in_heading(&self.heading);
        let near = suggestion(&self.key, known);
        let message = format!("unknown key \"{}\"{heading}{near}", self.key);
        InputError::about_key(self.place.clone(), &self.key, message)
    }

    /// The value as what is wanted.
    pub fn read(&self, wanted: &Wanted) -> Result<Setting, InputError> {
        wanted.read(&self.value).map_err(|why| self.wrong(&why))
    }

    /// The value as text that is not blank.
    pub fn text(&self) -> Result<String, InputError> {
        match &self.value {
            Raw::Text(text) if !text.trim().is_empty() => Ok(text.clone()),
            other => Err(self.wrong(&format!("wants text; found {other}"))),
        }
    }

    /// The value as text that may be blank.
    pub fn text_or_blank(&self) -> Result<String, InputError> {
        match &self.value {
            Raw::Text(text) => Ok(text.clone()),
            other => Err(self.wrong(&format!("wants text; found {other}"))),
        }
    }

    /// The value as one of these words.
    pub fn word(&self, words: &[&str]) -> Result<String, InputError> {
        match self.read(&Wanted::Choice(words.to_vec()))? {
            Setting::Text(word) => Ok(word),
            _ => unreachable!("a choice is text"),
        }
    }

    /// The value as a name: lower-case letters, digits, `-`, `_` and, within it, `.`.
    pub fn name(&self) -> Result<String, InputError> {
        let text = self.text()?;
        let fits = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_.".contains(letter)
        };
        match text.chars().all(fits) && !text.starts_with('.') {
            true => Ok(text),
            false => Err(self.wrong(&format!(
                "wants lower-case letters, digits, -, _ and . only; found the text \"{text}\""
            ))),
        }
    }

    /// The value as a whole number within bounds.
    pub fn integer(&self, bounds: std::ops::RangeInclusive<u64>) -> Result<u64, InputError> {
        let (min, max) = (*bounds.start(), *bounds.end());
        match self.read(&Wanted::Integer { min, max, power_of_two: false })? {
            Setting::Integer(value) => Ok(value),
            _ => unreachable!("a whole number was read"),
        }
    }

    /// The value as a number within bounds.
    pub fn number(&self, bounds: std::ops::RangeInclusive<f64>) -> Result<f64, InputError> {
        match self.read(&Wanted::Number { min: *bounds.start(), max: *bounds.end() })? {
            Setting::Number(value) => Ok(value),
            _ => unreachable!("a number was read"),
        }
    }

    /// The value as yes or no.
    pub fn flag(&self) -> Result<bool, InputError> {
        match self.read(&Wanted::Flag)? {
            Setting::Flag(value) => Ok(value),
            _ => unreachable!("a flag was read"),
        }
    }

    /// The items of a list that is not empty, each with its own place.
    pub fn items(&self) -> Result<Vec<Entry>, InputError> {
        match &self.value {
            Raw::List(items) if items.is_empty() => {
                Err(self.wrong("is an empty list; give at least one value"))
            }
            Raw::List(items) => Ok(items
                .iter()
                .map(|item| Entry {
                    value: item.value.clone(),
                    place: Place { line: item.line, ..self.place.clone() },
                    ..self.clone()
                })
                .collect()),
            other => Err(self.wrong(&format!("wants a list; found {other}"))),
        }
    }

    /// The value as a list of different texts, each with its place.
    pub fn texts(&self) -> Result<Vec<(String, Place)>, InputError> {
        let mut texts: Vec<(String, Place)> = Vec::new();
        for item in self.items()? {
            let text = item.text()?;
            if texts.iter().any(|(earlier, _)| *earlier == text) {
                return Err(item.wrong(&format!("lists \"{text}\" twice; keep one")));
            }
            texts.push((text, item.place));
        }
        Ok(texts)
    }

    /// The value as a table.
    pub fn into_table(self) -> Result<Table, InputError> {
        match self.value {
            Raw::Table(entries) => Ok(Table {
                heading: nested(&self.heading, &self.key),
                place: self.place,
                entries,
                asked: vec![],
            }),
            ref other => Err(self.wrong(&format!("wants a table; found {other}"))),
        }
    }
}

fn over(above: Vec<Entry>, below: Vec<Entry>) -> Vec<Entry> {
    let mut merged = below;
    for entry in above {
        let Some(at) = merged.iter().position(|lower| lower.key == entry.key) else {
            merged.push(entry);
            continue;
        };
        let lower = std::mem::replace(&mut merged[at], entry);
        if let (Raw::Table(upper), Raw::Table(lower)) = (&mut merged[at].value, lower.value) {
            *upper = over(std::mem::take(upper), lower);
        }
    }
    merged
}

/// ` in [heading]`, or nothing at the top of a file.
fn in_heading(heading: &str) -> String {
    if heading.is_empty() { String::new() } else { format!(" in [{heading}]") }
}

fn nested(heading: &str, key: &str) -> String {
    if heading.is_empty() { key.to_string() } else { format!("{heading}.{key}") }
}

/// Turns byte offsets into line numbers while the parsed tree is copied into our own.
struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    fn number(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn entries(&self, heading: &str, table: &DeTable<'_>) -> Vec<Entry> {
        let mut placed: Vec<(usize, Entry)> = Vec::new();
        for (key, value) in table.iter() {
            let name = key.get_ref().to_string();
            let entry = Entry {
                value: self.raw(&nested(heading, &name), value.get_ref()),
                place: Place::line(self.file, self.number(key.span().start)),
                heading: heading.to_string(),
                key: name,
            };
            placed.push((key.span().start, entry));
        }
        // The parser sorts keys by name; the order of factors in a plan is the order they are written in.
        placed.sort_by_key(|(offset, _)| *offset);
        placed.into_iter().map(|(_, entry)| entry).collect()
    }

    fn raw(&self, heading: &str, value: &DeValue<'_>) -> Raw {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(digits) => {
                match i128::from_str_radix(digits.as_str(), digits.radix()) {
                    Ok(value) => Raw::Integer(value),
                    Err(_) => Raw::Text(digits.to_string()),
                }
            }
            DeValue::Float(digits) => match digits.as_str().parse() {
                Ok(value) => Raw::Number(value),
                Err(_) => Raw::Text(digits.to_string()),
            },
            DeValue::Boolean(value) => Raw::Flag(*value),
            DeValue::Datetime(date) => Raw::Date(date.to_string()),
            DeValue::Array(items) => Raw::List(
                items
                    .iter()
                    .map(|item| Item {
                        value: self.raw(heading, item.get_ref()),
                        line: Some(self.number(item.span().start)),
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Raw::Table(self.entries(heading, table)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a small file format: a name, a list of words, and a table with one number.
    fn read(text: &str) -> Result<(String, usize, u64), InputError> {
        let mut root = Table::parse("x.toml", text)?;
        let name = root.required("name")?.name()?;
        let words = root.optional("words").map(|entry| entry.texts()).transpose()?;
        let mut repeat = root.table("repeat")?;
        let count =
            repeat.optional("count").map_or(Ok(1), |entry: Entry| entry.integer(1..=100))?;
        repeat.finish()?;
        root.finish()?;
        Ok((name, words.map_or(0, |words| words.len()), count))
    }

    #[test]
    fn what_is_written_is_taken_and_the_rest_is_refused_with_its_line() {
        let check = |text: &str, expected: &str| {
            let shown = match read(text) {
                Ok((name, words, count)) => format!("{name} {words} {count}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check("name = 'a'", "a 0 1");
        check("name = 'a'\nwords = ['x',\n'y']\n[repeat]\ncount = 1_0", "a 2 10");
        check("name = 'a'\nrepeat.count = 0x10", "a 0 16");
        check("\n[repeat]", "x.toml:1: key \"name\" is missing");
        check(
            "name = 'A b'",
            r#"x.toml:1: "name" wants lower-case letters, digits, -, _ and . only; found the text "A b""#,
        );
        check("name = 'a'\nword = []", r#"x.toml:2: unknown key "word"; did you mean "words"?"#);
        check(
            "name = 'a'\n\n[repeat]\ncuont = 3",
            r#"x.toml:4: unknown key "cuont" in [repeat]; did you mean "count"?"#,
        );
        check(
            "name = 'a'\n[repeat]\ncount = 0",
            r#"x.toml:3: "count" in [repeat] wants a whole number from 1 to 100; found 0"#,
        );
        check(
            "name = 'a'\n[repeat]\ncount = 'x'",
            r#"x.toml:3: "count" in [repeat] wants a whole number from 1 to 100; found the text "x""#,
        );
        check("name = 'a'\nrepeat = 3", r#"x.toml:2: "repeat" wants a table; found 3"#);
        check("name = 3", r#"x.toml:1: "name" wants text; found 3"#);
        check("name = 2024-01-01", r#"x.toml:1: "name" wants text; found the date 2024-01-01"#);
        check(
            "name = 'a'\nwords = []",
            r#"x.toml:2: "words" is an empty list; give at least one value"#,
        );
        check("name = 'a'\nwords = ['x',\n'x']", r#"x.toml:3: "words" lists "x" twice; keep one"#);
        check(
            "name = 'a'\n[zzz]\nx = 1",
            r#"x.toml:2: unknown key "zzz"; known: name, words, repeat"#,
        );
    }

    #[test]
    fn broken_toml_names_its_line() {
        for text in ["name = 'a'\nname = 'b'", "name = 'a'\nwords = [", "name = 'a'\n= 3"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with("x.toml:2: not valid TOML: "), "{error}");
        }
    }
}
