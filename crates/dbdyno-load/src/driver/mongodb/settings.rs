//! What an engine file can set here, and which ways of speaking this protocol has.

use crate::driver::{DriverError, OpenOptions};
use crate::server::{ClientOptions, Statements, Transaction};
use bson::{Bson, Document};

/// What writes wait for.
pub(super) fn write_concern_of(options: &OpenOptions) -> Result<Option<Document>, DriverError> {
    let mut concern = Document::new();
    if let Some(text) = options.settings.get("write_concern") {
        let members = match (text.as_str(), text.parse::<i32>()) {
            ("majority", _) => Bson::String("majority".to_owned()),
            (_, Ok(members)) if members > 0 => Bson::Int32(members),
            _ => {
                return Err(DriverError::new(format!(
                    "mongodb: write_concern must be a number from 1, or majority, not \"{text}\": a write that \
                     nobody answers for cannot be counted"
                )));
            }
        };
        concern.insert("w", members);
    }
    if options.settings.contains_key("journal") {
        concern.insert("j", options.flag("journal")?);
    }
    Ok((!concern.is_empty()).then_some(concern))
}

/// Whether the settings say what becomes of acknowledged writes.
pub(super) fn promises(options: &OpenOptions) -> bool {
    options.settings.contains_key("journal")
}

/// Refuses ways of speaking that this protocol does not have.
pub(super) fn check_client(client: ClientOptions) -> Result<(), DriverError> {
    if client.statements == Statements::Text {
        return Err(DriverError::new(
            "mongodb: commands are documents and not text: leave statements at \"prepared\"",
        ));
    }
    if client.transaction == Transaction::BeginCommit {
        return Err(DriverError::new(
            "mongodb: each command commits by itself: leave transaction at \"autocommit\"",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    /// Settings become what a write waits for; what a write cannot wait for is refused with the setting's name.
    #[test]
    fn settings_become_a_write_concern() {
        let concern = |settings: &[(&str, &str)]| {
            let settings =
                settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            write_concern_of(&OpenOptions::of_directory("".into(), settings.collect(), 1))
        };
        assert_eq!(concern(&[]), Ok(None));
        assert_eq!(concern(&[("write_concern", "1")]), Ok(Some(doc! { "w": 1 })));
        let both = [("write_concern", "majority"), ("journal", "false")];
        assert_eq!(concern(&both), Ok(Some(doc! { "w": "majority", "j": false })));
        for (name, value) in [("write_concern", "0"), ("write_concern", "all"), ("journal", "1")] {
            let error = concern(&[(name, value)]).expect_err("is refused").to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    /// Ways of speaking that would be the same under another name are refused.
    #[test]
    fn other_ways_of_speaking_are_refused() {
        let usual = ClientOptions::default();
        assert_eq!(check_client(usual), Ok(()));
        let text = check_client(ClientOptions { statements: Statements::Text, ..usual });
        assert!(text.expect_err("is refused").to_string().contains("statements"));
        let begun = check_client(ClientOptions { transaction: Transaction::BeginCommit, ..usual });
        assert!(begun.expect_err("is refused").to_string().contains("transaction"));
    }
}
