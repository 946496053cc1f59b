//! The language of statements for servers of this family: a command as extended JSON and, behind a bar, where in the
//! answer the value is.
//!
//! `{"buildInfo": 1} | version` asks for one text. `{"serverStatus": 1, "$db": "admin"} | opcounters.update` asks for
//! one number. Without a path the whole answer is meant. Names of the path are parted by dots; an array's elements have
//! their numbers, from 0, for names. A command goes to dbdyno's database unless it names one in `$db`.

use super::DriverError;
use bson::{Bson, Document};
use std::collections::BTreeMap;

/// What the server adds to every answer and nobody asked for.
const ENVELOPE: [&str; 3] = ["ok", "$clusterTime", "operationTime"];

/// A command and where its value is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    /// The command.
    pub command: Document,
    path: Vec<String>,
}

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// Show the question and say what is wrong with it.
    pub fn parse(text: &str) -> Result<Question, DriverError> {
        let wrong = |why: String| {
            DriverError::new(format!(
                "mongodb: \"{text}\" is no question, {why}: write a command as JSON and behind a bar where the value \
                 is, like {{\"buildInfo\": 1}} | version"
            ))
        };
        let mut commands = serde_json::Deserializer::from_str(text).into_iter::<Document>();
        let command = match commands.next() {
            Some(Ok(command)) if !command.is_empty() => command,
            Some(Err(error)) => return Err(wrong(error.to_string())),
            _ => return Err(wrong("there is no command in it".to_owned())),
        };
        let path = match text[commands.byte_offset()..].trim() {
            "" => Vec::new(),
            rest => {
                let path = rest.strip_prefix('|').map(|path| path.trim().split('.'));
                let path: Vec<String> = path.into_iter().flatten().map(str::to_owned).collect();
                if path.is_empty() || path.iter().any(String::is_empty) {
                    return Err(wrong(format!("\"{rest}\" is no path")));
                }
                path
            }
        };
        Ok(Question { command, path })
    }

    /// The value that an answer has for it, if there is one.
    pub fn value(&self, mut answer: Document) -> Option<Bson> {
        if self.path.is_empty() {
            ENVELOPE.iter().for_each(|name| drop(answer.remove(name)));
        }
        self.path.iter().try_fold(Bson::Document(answer), |value, name| match value {
            Bson::Document(mut document) => document.remove(name),
            Bson::Array(array) => array.into_iter().nth(name.parse().ok()?),
            _ => None,
        })
    }
}

/// A value as it is shown: texts as they are, all else as JSON or nearly so.
pub(super) fn shown(value: &Bson) -> String {
    match value {
        Bson::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The settings in a document by name; those in documents within it have the names of both, with a dot between them.
pub(super) fn flattened(document: &Document) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (name, value) in document {
        match value {
            Bson::Document(inner) => {
                let inner = flattened(inner);
                settings.extend(
                    inner.into_iter().map(|(last, value)| (format!("{name}.{last}"), value)),
                );
            }
            value => drop(settings.insert(name.clone(), shown(value))),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    /// Questions that are understood, and the values that they find.
    #[test]
    fn questions_find_values() {
        let answer = doc! {
            "version": "7.0", "opcounters": { "update": 12i64 }, "list": [1, { "a": true }], "ok": 1.0,
        };
        let value = |text: &str| {
            let question = Question::parse(text).expect("is a question");
            question.value(answer.clone())
        };
        assert_eq!(value(r#"{"buildInfo": 1} | version"#), Some(Bson::String("7.0".to_owned())));
        assert_eq!(value(r#"{"a": "x | y"}|opcounters.update"#), Some(Bson::Int64(12)));
        assert_eq!(value(r#"{"a": 1} | list.1.a"#), Some(Bson::Boolean(true)));
        assert_eq!(value(r#"{"a": 1} | list.2"#), None);
        assert_eq!(value(r#"{"a": 1} | version.x"#), None);
        let whole = value(r#"{"a": 1}"#).expect("is there");
        assert!(whole.as_document().is_some_and(|all| !all.contains_key("ok") && all.len() == 3));
        let command = Question::parse(r#"{"z": {"$numberLong": "5"}, "a": 1}"#).expect("is one");
        assert_eq!(command.command, doc! { "z": 5i64, "a": 1 });
        assert_eq!(command.command.keys().next().map(String::as_str), Some("z"), "keeps order");
    }

    /// What is no question is shown with the reason.
    #[test]
    fn other_languages_are_refused() {
        for text in [
            "",
            "SELECT 1",
            "{}",
            "[1]",
            r#"{"a": 1} version"#,
            r#"{"a": 1} |"#,
            r#"{"a": 1} | b..c"#,
        ] {
            let error = Question::parse(text).expect_err("is none").to_string();
            assert!(error.contains(text) && error.contains("buildInfo"), "{error}");
        }
    }

    /// Settings get the names of the way to them.
    #[test]
    fn settings_are_flattened() {
        let settings = flattened(&doc! { "a": { "b": 1, "c": { "d": "x" } }, "e": [1, 2] });
        let expected = [("a.b", "1"), ("a.c.d", "x"), ("e", "[1, 2]")];
        assert!(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
    }
}
