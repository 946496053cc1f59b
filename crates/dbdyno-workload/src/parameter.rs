//! The knobs of a workload: named, typed, with a default and one sentence of meaning.
//!
//! An experiment file sets them by name under `[vary]`, `[hold]` or `[scale.*]`; planning checks names, types and
//! ranges against this list, so that a workload never sees a value that it did not declare.

use std::collections::BTreeMap;
use std::fmt;

/// A value as it stands after planning.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A whole number.
    Integer(u64),
    /// A finite real number.
    Number(f64),
    /// A word, for example one of a [`Kind::Choice`].
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// Settings by parameter name.
pub type Settings = BTreeMap<String, Setting>;

/// What values a parameter takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number between the two bounds, both included.
    Integer {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A finite real number between the two bounds, both included. Whole numbers are taken too.
    Number {
        /// Smallest value allowed.
        min: f64,
        /// Largest value allowed.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A word with a syntax of its own, for example `zipfian(0.99)`; the function checks it and says what is wrong.
    Syntax(fn(&str) -> Result<(), String>),
    /// Yes or no.
    Flag,
}

/// One knob.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name, as experiment files write it.
    pub name: &'static str,
    /// Values it takes.
    pub kind: Kind,
    /// Default, written as an experiment file would write it (without quotes).
    pub default: &'static str,
    /// One sentence for `--help`, documentation and error messages.
    pub about: &'static str,
}

impl Parameter {
    /// The value as the workload takes it, when it has the right type and range.
    ///
    /// # Errors
    /// Says what the value is and what it must be; the name of the parameter is left to the caller.
    pub fn accept(&self, setting: &Setting) -> Result<Setting, String> {
        match (self.kind, setting) {
            (Kind::Integer { min, max }, Setting::Integer(value))
                if (min..=max).contains(value) =>
            {
                Ok(setting.clone())
            }
            (Kind::Number { min, max }, Setting::Number(value)) if (min..=max).contains(value) => {
                Ok(setting.clone())
            }
            (Kind::Number { min, max }, &Setting::Integer(value))
                if (min..=max).contains(&(value as f64)) =>
            {
                Ok(Setting::Number(value as f64))
            }
            (Kind::Choice(words), Setting::Text(word)) if words.contains(&word.as_str()) => {
                Ok(setting.clone())
            }
            (Kind::Syntax(check), Setting::Text(text)) => check(text).map(|()| setting.clone()),
            (Kind::Flag, Setting::Flag(_)) => Ok(setting.clone()),
            _ => Err(format!("{setting} is not possible here; write {}", self.kind)),
        }
    }

    /// Reads a value as `--set` gives it: without quotes or a type.
    ///
    /// # Errors
    /// As [`Parameter::accept`].
    pub fn parse(&self, text: &str) -> Result<Setting, String> {
        let word = || Setting::Text(text.to_owned());
        let setting = match self.kind {
            Kind::Integer { .. } => text.parse().map_or_else(|_| word(), Setting::Integer),
            Kind::Number { .. } => text.parse().map_or_else(|_| word(), Setting::Number),
            Kind::Flag => text.parse().map_or_else(|_| word(), Setting::Flag),
            Kind::Choice(_) | Kind::Syntax(_) => word(),
        };
        self.accept(&setting)
    }

    /// The default as a value.
    ///
    /// # Panics
    /// When the list of parameters itself is wrong; a test walks all lists.
    #[must_use]
    pub fn default_setting(&self) -> Setting {
        match self.parse(self.default) {
            Ok(setting) => setting,
            Err(message) => panic!("default of parameter {}: {message}", self.name),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Integer(value) => write!(f, "{value}"),
            Setting::Number(value) => write!(f, "{value}"),
            Setting::Text(value) => f.write_str(value),
            Setting::Flag(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Syntax(_) => f.write_str("a word in quotes"),
            Kind::Flag => f.write_str("true or false"),
        }
    }
}

/// A setting that a workload cannot take, alone or together with another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct SettingError {
    /// The parameter to change.
    pub key: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// All parameters with a value each: the given one where it is acceptable, otherwise the default.
///
/// # Errors
/// When a setting has no parameter of its name, or its value has the wrong type or is out of range.
pub fn complete(parameters: &[Parameter], given: &Settings) -> Result<Settings, SettingError> {
    let error = |key: &str, message| SettingError { key: key.to_owned(), message };
    for key in given.keys() {
        if !parameters.iter().any(|parameter| parameter.name == key) {
            let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
            let message = format!("no parameter has this name; there are {}", names.join(", "));
            return Err(error(key, message));
        }
    }
    let value = |parameter: &Parameter| match given.get(parameter.name) {
        None => Ok((parameter.name.to_owned(), parameter.default_setting())),
        Some(setting) => match parameter.accept(setting) {
            Ok(setting) => Ok((parameter.name.to_owned(), setting)),
            Err(message) => Err(error(parameter.name, message)),
        },
    };
    parameters.iter().map(value).collect()
}

/// The whole number under this name, from settings that [`complete`] has gone through.
pub(crate) fn integer(settings: &Settings, name: &str) -> u64 {
    match settings[name] {
        Setting::Integer(value) => value,
        _ => unreachable!("complete() has checked the type of {name}"),
    }
}

/// The real number under this name.
pub(crate) fn number(settings: &Settings, name: &str) -> f64 {
    match settings[name] {
        Setting::Number(value) => value,
        _ => unreachable!("complete() has checked the type of {name}"),
    }
}

/// The word under this name.
pub(crate) fn text<'a>(settings: &'a Settings, name: &str) -> &'a str {
    match &settings[name] {
        Setting::Text(value) => value,
        _ => unreachable!("complete() has checked the type of {name}"),
    }
}

/// The flag under this name.
pub(crate) fn flag(settings: &Settings, name: &str) -> bool {
    match settings[name] {
        Setting::Flag(value) => value,
        _ => unreachable!("complete() has checked the type of {name}"),
    }
}

#[cfg(test)]
mod tests {
    //! Shows which values each kind takes, and what the messages for the others say.
    use super::*;

    #[test]
    fn values_are_taken_or_refused_with_advice() {
        let parameter = |kind| Parameter { name: "p", kind, default: "", about: "" };
        let check = |kind, text: &str, expected: Result<Setting, &str>| {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(parameter(kind).parse(text), expected, "{text}");
        };
        let integer = Kind::Integer { min: 1, max: 64 };
        check(integer, "64", Ok(Setting::Integer(64)));
        let advice =
            |text| format!("{text} is not possible here; write a whole number from 1 to 64");
        for text in ["0", "65", "-1", "1.5", "many"] {
            check(integer, text, Err(&advice(text)));
        }
        let number = Kind::Number { min: 0.0, max: 1.0 };
        check(number, "1", Ok(Setting::Number(1.0)));
        check(number, "nan", Err("NaN is not possible here; write a number from 0 to 1"));
        assert_eq!(parameter(number).accept(&Setting::Integer(1)), Ok(Setting::Number(1.0)));
        let choice = Kind::Choice(&["red", "blue"]);
        check(choice, "red", Ok(Setting::Text("red".to_owned())));
        check(choice, "green", Err("green is not possible here; write one of red, blue"));
        check(Kind::Flag, "true", Ok(Setting::Flag(true)));
        check(Kind::Flag, "yes", Err("yes is not possible here; write true or false"));
        let syntax = Kind::Syntax(|text| Err(format!("{text} is wrong")));
        check(syntax, "x", Err("x is wrong"));
    }
}
