//! An experiment as written: one question in one file, read strictly but not yet held against a workload.
//!
//! Keys under `[vary]`, `[hold]` and `[scale.*]` stay raw here; `resolve` knows which parameters exist. What can be
//! said without that knowledge (shape, empty lists, a key in two tables) is said here.

use serde::{Deserialize, Serialize};

use crate::input_error::{InputError, Place};
use crate::toml_reader::{Entry, Table};
use crate::value::Raw;

/// In which order the cells of a block and the engines of a repeat are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Shuffled by the seed; engines alternate.
    Interleaved,
    /// As the file lists them, the first factor changing slowest.
    AsWritten,
}

/// Scales that an experiment can have, smallest first.
pub const SCALES: &[&str] = &["smoke", "laptop", "paper"];
/// Scale that is used when the file has it and neither it nor the command names another.
pub const USUAL_SCALE: &str = "laptop";
/// Key of a scale, and of `--set`, that replaces the count of `[repeat]`.
pub const REPEAT: &str = "repeat";
/// Most repeats that can be asked for.
pub const REPEATS_MAX: u64 = 10_000;
/// First part of keys that set an engine's own settings.
pub const ENGINE_SETTING: &str = "engine_setting";

/// A `[scale.NAME]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// One of [`SCALES`].
    pub name: String,
    /// Repeats at this scale, if it says so.
    pub repeat: Option<u32>,
    /// Values that replace or join those of `[hold]`.
    pub hold: Vec<Entry>,
}

/// An experiment as written.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentFile {
    /// File that messages name.
    pub file: String,
    /// Name.
    pub name: String,
    /// The question it answers.
    pub question: String,
    /// Document it comes from, if any.
    pub document: Option<String>,
    /// Workload and its place.
    pub workload: (String, Place),
    /// `[[step]]`, not yet held against the workload.
    pub steps: Option<Entry>,
    /// Engines and their places; empty means every engine with `default_for_experiments`.
    pub engines: Vec<(String, Place)>,
    /// Keys with lists of values: the factors.
    pub vary: Vec<Entry>,
    /// Keys with one value.
    pub hold: Vec<Entry>,
    /// How often every cell is measured.
    pub repeat: u32,
    /// In which order.
    pub order: Order,
    /// Scales, in the order written.
    pub scales: Vec<Scale>,
    /// Scale that is used when the command names none.
    pub default_scale: Option<String>,
}

impl ExperimentFile {
    /// Reads an experiment. `file` is the name that messages use.
    pub fn parse(file: &str, text: &str) -> Result<ExperimentFile, InputError> {
        let mut root = Table::parse(file, text)?;
        let workload = root.required("workload")?;
        let engines = root.optional("engines").map_or(Ok(vec![]), |entry| entry.texts())?;
        let vary = flatten(root.table("vary")?.rest())?;
        let hold = flatten(root.table("hold")?.rest())?;
        check_shapes(&vary, &hold)?;
        let mut repeat = root.table("repeat")?;
        let count =
            repeat.optional("count").map_or(Ok(1), |entry| entry.integer(1..=REPEATS_MAX))?;
        let order = match repeat.optional("order") {
            Some(entry) if entry.word(&["interleaved", "as-written"])? == "as-written" => {
                Order::AsWritten
            }
            _ => Order::Interleaved,
        };
        repeat.finish()?;
        let scales = read_scales(root.table("scale")?, &vary)?;
        let document = root.optional("document").map(|entry| entry.text()).transpose()?;
        let default_scale = root.optional("default_scale");
        let experiment = ExperimentFile {
            file: file.to_string(),
            name: root.required("name")?.name()?,
            question: root.required("question")?.text()?,
            document,
            workload: (workload.text()?, workload.place.clone()),
            steps: root.optional("step"),
            engines,
            vary,
            hold,
            repeat: u32::try_from(count).expect("repeats have a small bound"),
            order,
            default_scale: default_scale
                .map(|entry| {
                    entry.word(&scales.iter().map(|s| s.name.as_str()).collect::<Vec<_>>())
                })
                .transpose()?,
            scales,
        };
        root.finish()?;
        Ok(experiment)
    }

    /// The scale used when the command names none; nothing if the file has no scales to choose from.
    pub fn usual_scale(&self) -> Option<&Scale> {
        self.scale(self.default_scale.as_deref().unwrap_or(USUAL_SCALE))
    }

    /// The scale of that name, if the file has it.
    pub fn scale(&self, name: &str) -> Option<&Scale> {
        self.scales.iter().find(|scale| scale.name == name)
    }
}

/// Writes `engine_setting` tables, also nested ones for one engine, as dotted keys.
fn flatten(entries: Vec<Entry>) -> Result<Vec<Entry>, InputError> {
    let mut flat: Vec<Entry> = Vec::new();
    for entry in entries {
        if entry.key != ENGINE_SETTING {
            flat.push(entry);
            continue;
        }
        let heading = entry.heading.clone();
        let mut nested = vec![(ENGINE_SETTING.to_string(), entry.into_table()?.rest())];
        while let Some((prefix, entries)) = nested.pop() {
            for entry in entries {
                let key = format!("{prefix}.{}", entry.key);
                match entry.value {
                    Raw::Table(inner) => nested.push((key, inner)),
                    _ => flat.push(Entry { key, heading: heading.clone(), ..entry }),
                }
            }
        }
    }
    flat.sort_by_key(|entry| entry.place.line);
    Ok(flat)
}

fn check_shapes(vary: &[Entry], hold: &[Entry]) -> Result<(), InputError> {
    for entry in vary {
        entry.items()?;
    }
    for held in hold {
        if let Some(varied) = vary.iter().find(|varied| varied.key == held.key) {
            let line = varied.place.line.unwrap_or(1);
            return Err(held.wrong(&format!("is also in [vary] (line {line}); keep one of them")));
        }
        if matches!(&held.value, Raw::List(items) if items.is_empty()) {
            held.items()?;
        }
    }
    Ok(())
}

fn read_scales(mut table: Table, vary: &[Entry]) -> Result<Vec<Scale>, InputError> {
    let mut scales = Vec::new();
    for entry in table.rest() {
        if !SCALES.contains(&entry.key.as_str()) {
            return Err(entry.unknown(SCALES.iter().copied()));
        }
        let name = entry.key.clone();
        let mut table = entry.into_table()?;
        let repeat = table
            .optional(REPEAT)
            .map(|entry| entry.integer(1..=REPEATS_MAX))
            .transpose()?
            .map(|count| u32::try_from(count).expect("repeats have a small bound"));
        let hold = flatten(table.rest())?;
        check_shapes(vary, &hold)?;
        scales.push(Scale { name, repeat, hold });
    }
    Ok(scales)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = 'x'\nquestion = 'q?'\nworkload = 'hot_row'\n";

    fn check(rest: &str, expected: &str) {
        let keys = |entries: &[Entry]| {
            entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>().join(" ")
        };
        let shown = match ExperimentFile::parse("x.toml", &format!("{HEAD}{rest}")) {
            Ok(file) => {
                let usual = file.usual_scale().map_or("-", |scale| scale.name.as_str());
                let (vary, hold) = (keys(&file.vary), keys(&file.hold));
                format!("{vary} | {hold} | {} | {usual}", file.repeat)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{rest}");
    }

    #[test]
    fn the_shape_of_an_experiment_is_checked_before_its_parameters() {
        check("", " |  | 1 | -");
        check(
            "[vary]\ntables = [1]\ndop = [1, 2]\n[hold]\nrows = 1\n[repeat]\ncount = 3",
            "tables dop | rows | 3 | -",
        );
        check(
            "[hold]\nrows = 1\n[hold.engine_setting]\na = 1\nlmdb.b = 2",
            " | rows engine_setting.a engine_setting.lmdb.b | 1 | -",
        );
        check("[scale.laptop]\nrows = 1\n[scale.smoke]\nrepeat = 2", " |  | 1 | laptop");
        check("default_scale = 'smoke'\n[scale.smoke]\nrepeat = 2", " |  | 1 | smoke");
        check(
            "default_scale = 'paper'\n[scale.smoke]\nrepeat = 2",
            r#"x.toml:4: "default_scale" wants one of smoke; found the text "paper""#,
        );
        check(
            "[scale.smok]\nrows = 1",
            r#"x.toml:4: unknown key "smok" in [scale]; did you mean "smoke"?"#,
        );
        check(
            "[scale.smoke]\nrepeat = 0",
            r#"x.toml:5: "repeat" in [scale.smoke] wants a whole number from 1 to 10000; found 0"#,
        );
        check(
            "[vary]\ndop = []",
            r#"x.toml:5: "dop" in [vary] is an empty list; give at least one value"#,
        );
        check("[vary]\ndop = 4", r#"x.toml:5: "dop" in [vary] wants a list; found 4"#);
        check(
            "[hold]\nrate = []",
            r#"x.toml:5: "rate" in [hold] is an empty list; give at least one value"#,
        );
        check(
            "[vary]\ndop = [4]\n[hold]\ndop = 4",
            r#"x.toml:7: "dop" in [hold] is also in [vary] (line 5); keep one of them"#,
        );
        check(
            "[vary]\ndop = [4]\n[scale.paper]\ndop = 4",
            r#"x.toml:7: "dop" in [scale.paper] is also in [vary] (line 5); keep one of them"#,
        );
        check(
            "[repeat]\ncount = -1",
            r#"x.toml:5: "count" in [repeat] wants a whole number from 1 to 10000; found -1"#,
        );
        check(
            "[repeat]\norder = 'random'",
            r#"x.toml:5: "order" in [repeat] wants one of interleaved, as-written; found the text "random""#,
        );
        check("engines = []", r#"x.toml:4: "engines" is an empty list; give at least one value"#);
        check("engines = ['a', 'a']", r#"x.toml:4: "engines" lists "a" twice; keep one"#);
        check("engins = ['a']", r#"x.toml:4: unknown key "engins"; did you mean "engines"?"#);
        check("[hodl]\nrows = 1", r#"x.toml:4: unknown key "hodl"; did you mean "hold"?"#);
    }
}
