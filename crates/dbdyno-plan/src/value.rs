//! Values: as written (any type, unchecked), as wanted by a key (type and range), and as stored in a plan.
//!
//! [`Raw`] comes from a file or an argument, [`Wanted`] turns it into a checked [`Setting`] or says what is wrong,
//! and [`Value`] is the form of a `Setting` that a plan stores.

use std::fmt;

use dbdyno_workload::{Kind, Setting};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::toml_reader::Entry;

/// A value as written, not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A whole number of a file.
    Integer(i128),
    /// A real number of a file.
    Number(f64),
    /// Quoted text of a file.
    Text(String),
    /// A bare word of an argument or a default: its type is what the key wants.
    Word(String),
    /// `true` or `false` of a file.
    Flag(bool),
    /// A list, each item with its line.
    List(Vec<Item>),
    /// A table.
    Table(Vec<Entry>),
    /// A date or time, which no key takes.
    Date(String),
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The value.
    pub value: Raw,
    /// Its line, counted from one; absent for arguments.
    pub line: Option<usize>,
}

impl fmt::Display for Raw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Integer(value) => write!(out, "{value}"),
            Raw::Number(value) => write!(out, "{value:?}"),
            Raw::Text(value) => write!(out, "the text \"{value}\""),
            Raw::Word(value) => write!(out, "\"{value}\""),
            Raw::Flag(value) => write!(out, "{value}"),
            Raw::List(items) if items.is_empty() => write!(out, "an empty list"),
            Raw::List(_) => write!(out, "a list"),
            Raw::Table(_) => write!(out, "a table"),
            Raw::Date(value) => write!(out, "the date {value}"),
        }
    }
}

/// What a key takes.
#[derive(Debug, Clone)]
pub enum Wanted<'a> {
    /// A whole number within bounds, perhaps only powers of two.
    Integer {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
        /// Whether only powers of two are allowed.
        power_of_two: bool,
    },
    /// A finite real number within bounds.
    Number {
        /// Smallest value allowed.
        min: f64,
        /// Largest value allowed.
        max: f64,
    },
    /// One of these words.
    Choice(Vec<&'a str>),
    /// A word that the function accepts.
    Syntax(SyntaxCheck),
    /// Yes or no.
    Flag,
    /// Any text, also a blank one.
    Text,
    /// Requests per second: `none`, a number above zero, or several, one for each equal part of the interval.
    Rate,
}

/// Accepts a word or says what is wrong with it.
pub type SyntaxCheck = fn(&str) -> Result<(), String>;

/// Highest rate that can be asked for: a request every nanosecond.
const HIGHEST_RATE_PER_S: f64 = 1e9;

impl Wanted<'_> {
    /// What a workload's parameter takes.
    pub fn by_kind(kind: &Kind) -> Wanted<'static> {
        match *kind {
            Kind::Integer { min, max } => Wanted::Integer { min, max, power_of_two: false },
            Kind::Number { min, max } => Wanted::Number { min, max },
            Kind::Choice(words) => Wanted::Choice(words.to_vec()),
            Kind::Syntax(check) => Wanted::Syntax(check),
            Kind::Flag => Wanted::Flag,
        }
    }

    /// The value as a setting, or what is wanted and what was found.
    pub fn read(&self, raw: &Raw) -> Result<Setting, String> {
        let typed = match raw {
            Raw::Word(word) => self.typed(word),
            other => other.clone(),
        };
        let found = || format!("wants {self}; found {raw}");
        match (self, &typed) {
            (Wanted::Integer { min, max, power_of_two }, Raw::Integer(value)) => {
                let value = u64::try_from(*value).map_err(|_| found())?;
                let fits =
                    (*min..=*max).contains(&value) && (!power_of_two || value.is_power_of_two());
                if fits { Ok(Setting::Integer(value)) } else { Err(found()) }
            }
            (Wanted::Number { .. }, Raw::Integer(value)) => {
                self.read(&Raw::Number(*value as f64)).map_err(|_| found())
            }
            (Wanted::Number { min, max }, Raw::Number(value)) => {
                let fits = value.is_finite() && (*min..=*max).contains(value);
                if fits { Ok(Setting::Number(*value)) } else { Err(found()) }
            }
            (Wanted::Choice(words), Raw::Text(word)) => match words.contains(&word.as_str()) {
                true => Ok(Setting::Text(word.clone())),
                false => match crate::nearest::nearest(word, words.iter().copied()) {
                    Some(near) => Err(format!("{}; did you mean \"{near}\"?", found())),
                    None => Err(found()),
                },
            },
            (Wanted::Syntax(check), Raw::Text(word)) => match check(word) {
                Ok(()) => Ok(Setting::Text(word.clone())),
                Err(why) => Err(format!("does not take \"{word}\": {why}")),
            },
            (Wanted::Flag, Raw::Flag(value)) => Ok(Setting::Flag(*value)),
            (Wanted::Text, Raw::Text(text)) => Ok(Setting::Text(text.clone())),
            (Wanted::Rate, _) => read_rate(&typed).ok_or_else(found),
            _ => Err(found()),
        }
    }

    /// A bare word as the type that is wanted; as text if it does not look like one.
    fn typed(&self, word: &str) -> Raw {
        let text = || Raw::Text(word.to_string());
        let digits = word.replace('_', "");
        match self {
            Wanted::Integer { .. } => digits.parse().map_or_else(|_| text(), Raw::Integer),
            Wanted::Number { .. } => digits.parse().map_or_else(|_| text(), Raw::Number),
            Wanted::Flag => word.parse().map_or_else(|_| text(), Raw::Flag),
            Wanted::Choice(_) | Wanted::Syntax(_) | Wanted::Rate | Wanted::Text => text(),
        }
    }
}

/// A rate: one number stays a number, steps become text such as `500:1000`.
fn read_rate(raw: &Raw) -> Option<Setting> {
    let number = |value: f64| {
        (value.is_finite() && value > 0.0 && value <= HIGHEST_RATE_PER_S).then_some(value)
    };
    let steps: Vec<f64> = match raw {
        Raw::Text(word) if word == "none" => return Some(Setting::Text(word.clone())),
        Raw::Text(word) => rate_steps(word)?,
        Raw::Integer(value) => vec![*value as f64],
        Raw::Number(value) => vec![*value],
        Raw::List(items) => items
            .iter()
            .map(|item| match item.value {
                Raw::Integer(value) => Some(value as f64),
                Raw::Number(value) => Some(value),
                _ => None,
            })
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let steps: Vec<f64> = steps.into_iter().map(number).collect::<Option<_>>()?;
    match steps.as_slice() {
        [] => None,
        [one] => Some(Setting::Number(*one)),
        several => {
            Some(Setting::Text(several.iter().map(f64::to_string).collect::<Vec<_>>().join(":")))
        }
    }
}

/// The numbers of a rate written as text: `500`, or `500:1000` for steps.
pub(crate) fn rate_steps(text: &str) -> Option<Vec<f64>> {
    text.split(':').map(|step| step.replace('_', "").parse().ok()).collect()
}

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Integer { min, max, power_of_two } => {
                let kind = if *power_of_two { "a power of two" } else { "a whole number" };
                write!(out, "{kind} from {min} to {max}")
            }
            Wanted::Number { min, max } if *max >= f64::MAX => {
                write!(out, "a number of at least {min}")
            }
            Wanted::Number { min, max } => write!(out, "a number from {min} to {max}"),
            Wanted::Choice(words) => write!(out, "one of {}", words.join(", ")),
            Wanted::Syntax(_) => write!(out, "a word"),
            Wanted::Flag => write!(out, "true or false"),
            Wanted::Text => write!(out, "text"),
            Wanted::Rate => write!(
                out,
                "requests per second above 0, at most {HIGHEST_RATE_PER_S}, or several as steps"
            ),
        }
    }
}

/// A setting as a plan stores it: in JSON a plain number, word, `true` or `false`.
#[derive(Debug, Clone, PartialEq)]
pub struct Value(pub Setting);

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Setting::Integer(value) => write!(out, "{value}"),
            Setting::Number(value) => write!(out, "{value}"),
            Setting::Text(value) => write!(out, "{value}"),
            Setting::Flag(value) => write!(out, "{value}"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Setting::Integer(value) => serializer.serialize_u64(*value),
            // Always with a point or an exponent, which is how reading tells it from a whole number.
            Setting::Number(value) => serializer.serialize_f64(*value),
            Setting::Text(value) => serializer.serialize_str(value),
            Setting::Flag(value) => serializer.serialize_bool(*value),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct AnySetting;
        impl Visitor<'_> for AnySetting {
            type Value = Value;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "a number, a word, true or false")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
                Ok(Value(Setting::Integer(value)))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
                Ok(Value(Setting::Number(value)))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
                Ok(Value(Setting::Text(value.to_string())))
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
                Ok(Value(Setting::Flag(value)))
            }
        }
        deserializer.deserialize_any(AnySetting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Wanted<'static> = Wanted::Integer { min: 1, max: 64, power_of_two: false };

    #[test]
    fn values_are_taken_in_range_and_refused_with_what_is_wanted() {
        let word = |text: &str| Raw::Word(text.to_string());
        let check = |wanted: &Wanted, raw: &Raw, expected: Result<Setting, &str>| {
            assert_eq!(wanted.read(raw), expected.map_err(str::to_string), "{wanted:?} {raw:?}");
        };
        check(&COUNT, &Raw::Integer(64), Ok(Setting::Integer(64)));
        check(&COUNT, &word("6_4"), Ok(Setting::Integer(64)));
        check(&COUNT, &Raw::Integer(0), Err("wants a whole number from 1 to 64; found 0"));
        check(&COUNT, &Raw::Integer(-1), Err("wants a whole number from 1 to 64; found -1"));
        check(&COUNT, &Raw::Number(2.0), Err("wants a whole number from 1 to 64; found 2.0"));
        check(&COUNT, &word("many"), Err("wants a whole number from 1 to 64; found \"many\""));
        check(
            &COUNT,
            &Raw::Text("8".into()),
            Err("wants a whole number from 1 to 64; found the text \"8\""),
        );
        let page = Wanted::Integer { min: 512, max: 65536, power_of_two: true };
        check(&page, &Raw::Integer(4096), Ok(Setting::Integer(4096)));
        check(&page, &word("5000"), Err("wants a power of two from 512 to 65536; found \"5000\""));
        let share = Wanted::Number { min: 0.0, max: 1.0 };
        check(&share, &Raw::Integer(1), Ok(Setting::Number(1.0)));
        check(&share, &Raw::Integer(2), Err("wants a number from 0 to 1; found 2"));
        check(&share, &Raw::Number(f64::NAN), Err("wants a number from 0 to 1; found NaN"));
        let choice = Wanted::Choice(vec!["pinned", "roaming"]);
        check(&choice, &word("pinned"), Ok(Setting::Text("pinned".into())));
        check(
            &choice,
            &Raw::Text("pined".into()),
            Err("wants one of pinned, roaming; found the text \"pined\"; did you mean \"pinned\"?"),
        );
        check(&Wanted::Flag, &word("true"), Ok(Setting::Flag(true)));
        check(&Wanted::Flag, &Raw::Integer(1), Err("wants true or false; found 1"));
    }

    #[test]
    fn a_rate_is_a_number_or_steps_and_above_zero() {
        let item = |value| Item { value, line: None };
        let check = |raw: Raw, expected: Option<Setting>| {
            assert_eq!(Wanted::Rate.read(&raw).ok(), expected, "{raw:?}");
        };
        check(Raw::Integer(500), Some(Setting::Number(500.0)));
        check(Raw::Word("500:1000".into()), Some(Setting::Text("500:1000".into())));
        let steps = vec![item(Raw::Integer(500)), item(Raw::Number(0.5))];
        check(Raw::List(steps), Some(Setting::Text("500:0.5".into())));
        check(Raw::Word("none".into()), Some(Setting::Text("none".into())));
        check(Raw::Integer(-5), None);
        check(Raw::Integer(0), None);
        check(Raw::Number(f64::INFINITY), None);
        check(Raw::List(vec![]), None);
        check(Raw::Word("500:".into()), None);
        check(Raw::Flag(true), None);
    }

    #[test]
    fn stored_values_keep_their_type() {
        let settings = [
            Setting::Integer(2),
            Setting::Number(2.0),
            Setting::Number(1e300),
            Setting::Text("2".into()),
            Setting::Flag(true),
        ];
        for setting in settings {
            let text = serde_json::to_string(&Value(setting.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap().0, setting, "{text}");
        }
    }
}
