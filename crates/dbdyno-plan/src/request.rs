//! What the command asks for: an experiment, and what its arguments change about it.
//!
//! `--set tables=1,dop=2,4` is taken apart here; whether the keys exist and the values fit is for `resolve`.

use crate::input_error::{InputError, Place};
use crate::toml_reader::Entry;
use crate::value::{Item, Raw};

/// Where the experiment comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExperimentSource {
    /// One that ships with the program, by name.
    Shipped(String),
    /// A user's own file, read by the command.
    File {
        /// Path as the user gave it.
        file: String,
        /// What it says.
        text: String,
    },
}

/// What to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// The experiment.
    pub experiment: ExperimentSource,
    /// Engines instead of the experiment's: names or prefixes of them, each perhaps with `:configuration`.
    pub engines: Vec<String>,
    /// Scale instead of the experiment's default.
    pub scale: Option<String>,
    /// The smoke scale's dataset, one repeat of short trials, no device profile.
    pub quick: bool,
    /// Arguments of `--set`.
    pub set: Vec<String>,
}

impl PlanRequest {
    /// A shipped experiment with nothing changed.
    pub fn shipped(name: &str) -> PlanRequest {
        PlanRequest {
            experiment: ExperimentSource::Shipped(name.to_string()),
            engines: vec![],
            scale: None,
            quick: false,
            set: vec![],
        }
    }
}

/// Values that `--quick` sets on top of the smoke scale.
pub(crate) fn quick_entries() -> Vec<Entry> {
    let quick = |key: &str, word: &str| {
        Entry::argument("--quick".to_string(), key, Raw::Word(word.to_string()))
    };
    vec![
        quick("warmup_s", "0.3"),
        quick("measured_s", "1.0"),
        quick("repeat", "1"),
        quick("device_profile", "false"),
    ]
}

/// Every `key=value` pair of all `--set` arguments; several values are a list.
pub(crate) fn set_entries(arguments: &[String]) -> Result<Vec<Entry>, InputError> {
    let mut entries: Vec<Entry> = Vec::new();
    for argument in arguments {
        for pair in pairs(argument) {
            let shown = format!("--set {pair}");
            let Some((key, values)) = pair.split_once('=') else {
                let message = format!("\"{pair}\" has no value; write {pair}=VALUE");
                return Err(InputError::about_key(Place::argument(shown), &pair, message));
            };
            let mut words: Vec<Item> = pieces(values)
                .into_iter()
                .map(|word| Item { value: Raw::Word(word.trim().to_string()), line: None })
                .collect();
            let is_blank = |item: &Item| matches!(&item.value, Raw::Word(word) if word.is_empty());
            let entry = Entry::argument(shown, key.trim(), Raw::List(vec![]));
            if words.iter().any(is_blank) {
                return Err(entry.wrong("has an empty value; write a value after each = and comma"));
            }
            if entries.iter().any(|earlier| earlier.key == entry.key) {
                return Err(entry.wrong("is set twice; keep one"));
            }
            let value = if words.len() == 1 { words.remove(0).value } else { Raw::List(words) };
            entries.push(Entry { value, ..entry });
        }
    }
    Ok(entries)
}

/// Splits at commas outside parentheses, so that `hotspot(0.1, 0.9)` stays whole.
fn pieces(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

/// A piece with `=` begins a pair; one without continues the values of the pair before it.
fn pairs(argument: &str) -> Vec<String> {
    let mut pairs: Vec<String> = Vec::new();
    for piece in pieces(argument) {
        match pairs.last_mut() {
            Some(pair) if !piece.contains('=') => {
                pair.push(',');
                pair.push_str(piece);
            }
            _ => pairs.push(piece.trim().to_string()),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_arguments_come_apart_into_keys_and_values() {
        let check = |arguments: &[&str], expected: &str| {
            let arguments: Vec<String> = arguments.iter().map(|text| text.to_string()).collect();
            let word = |raw: &Raw| match raw {
                Raw::Word(word) => word.clone(),
                other => panic!("{other:?}"),
            };
            let shown = match set_entries(&arguments) {
                Ok(entries) => entries
                    .iter()
                    .map(|entry| match &entry.value {
                        Raw::List(items) => format!(
                            "{}=[{}]",
                            entry.key,
                            items
                                .iter()
                                .map(|item| word(&item.value))
                                .collect::<Vec<_>>()
                                .join("|")
                        ),
                        one => format!("{}={}", entry.key, word(one)),
                    })
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected, "{arguments:?}");
        };
        check(&["tables=1,dop=64"], "tables=1 dop=64");
        check(&["dop=1,2,4,tables=1"], "dop=[1|2|4] tables=1");
        check(&["dop=1, 2", "tables=1"], "dop=[1|2] tables=1");
        check(&["keys=single,hotspot(0.1, 0.9),dop=1"], "keys=[single|hotspot(0.1, 0.9)] dop=1");
        check(&["engine_setting.cache_mb=8"], "engine_setting.cache_mb=8");
        check(&["dop"], r#"--set dop: "dop" has no value; write dop=VALUE"#);
        check(
            &["dop="],
            r#"--set dop=: "dop" has an empty value; write a value after each = and comma"#,
        );
        check(
            &["dop=1,,2"],
            r#"--set dop=1,,2: "dop" has an empty value; write a value after each = and comma"#,
        );
        check(&["dop=1", "dop=2"], r#"--set dop=2: "dop" is set twice; keep one"#);
    }
}
