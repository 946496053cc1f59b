//! What a server says of itself, and whether it can keep what a write concern promises.
//!
//! A write concern is a client's wish. What becomes of it depends on what the server is, on its storage engine and on
//! its journal. With `--nojournal`, which MongoDB has up to 6.0, older servers refuse `j: true` and later ones take it, so
//! nothing less than how the server was started tells.

use super::question::{flattened, shown};
use super::{DriverError, Fault, UNAUTHORIZED};
use bson::{Bson, Document, doc};
use std::collections::BTreeMap;

/// The storage engine whose journal is known here.
const KNOWN_ENGINE: &str = "wiredTiger";

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Facts {
    /// It is FerretDB, of this version.
    Ferretdb(String),
    /// It is MongoDB, or says nothing else.
    Mongodb {
        /// The storage engine, if it names one.
        storage_engine: Option<String>,
        /// What its command line and its configuration file come to.
        started_with: Document,
    },
}

impl Facts {
    /// Asks a server by `command`, which runs one and returns the answer.
    ///
    /// # Errors
    /// The server's, with what a login needs for such questions.
    pub fn ask(
        mut command: impl FnMut(&Document) -> Result<Document, Fault>,
    ) -> Result<Facts, DriverError> {
        let build = command(&doc! { "buildInfo": 1 })?;
        let ferretdb = build.get_document("ferretdb").ok().and_then(|it| it.get("version"));
        if let Some(version) = ferretdb.or(build.get("ferretdbVersion")) {
            return Ok(Facts::Ferretdb(shown(version)));
        }
        let mut ask = |name: &str| {
            command(&doc! { name: 1, "$db": "admin" }).map_err(|fault| match fault.code {
                UNAUTHORIZED => DriverError::new(format!(
                    "{fault}: it takes a login with the role clusterMonitor to ask a server what it keeps"
                )),
                _ => fault.into(),
            })
        };
        let (mut status, mut options) = (ask("serverStatus")?, ask("getCmdLineOpts")?);
        Ok(Facts::Mongodb {
            storage_engine: within(&mut status, "storageEngine")
                .and_then(|engine| Some(engine.get_str("name").ok()?.to_owned())),
            started_with: within(&mut options, "parsed").unwrap_or_default(),
        })
    }

    /// As a receipt has them.
    pub fn as_settings(&self) -> BTreeMap<String, String> {
        match self {
            Facts::Ferretdb(version) => [("ferretdb_version".to_owned(), version.clone())].into(),
            Facts::Mongodb { storage_engine, started_with } => {
                let engine = storage_engine.clone().unwrap_or_else(|| "unknown".to_owned());
                let mut settings = flattened(&doc! { "started_with": started_with });
                settings.insert("storage_engine".to_owned(), engine);
                settings
            }
        }
    }

    /// Whether acknowledged writes last as long as the settings promise.
    ///
    /// # Errors
    /// Say what the server is or lacks, and what to do.
    pub fn can_keep_promises(&self) -> Result<(), DriverError> {
        let (storage_engine, started_with) = match self {
            Facts::Ferretdb(version) => {
                return Err(DriverError::new(format!(
                    "mongodb: this server is FerretDB {version} and no MongoDB: it takes no notice of write concerns, and \
                     what it acknowledges lasts as long as the database behind it lets it, which cannot be asked here; \
                     the engines ferretdb-1 and ferretdb-2 are FerretDB with a database whose settings are known"
                )));
            }
            Facts::Mongodb { storage_engine, started_with } => (storage_engine, started_with),
        };
        match storage_engine.as_deref() {
            Some(KNOWN_ENGINE) => {}
            Some(other) => {
                return Err(DriverError::new(format!(
                    "mongodb: the server's storage engine is {other}, of which dbdyno does not know what it keeps: name a \
                     server whose storage engine is {KNOWN_ENGINE}"
                )));
            }
            None => {
                return Err(DriverError::new(
                    "mongodb: the server names no storage engine (serverStatus), as a mongos and servers that only speak \
                     like MongoDB do: name a mongod itself",
                ));
            }
        }
        let journal =
            started_with.get_document("storage").and_then(|it| it.get_document("journal"));
        match journal.map(|journal| journal.get("enabled")) {
            Ok(Some(Bson::Boolean(false))) => Err(DriverError::new(
                "mongodb: the server was started without a journal (storage.journal.enabled is false), so that \
                 acknowledged writes of up to a minute are lost with its process: start it with its journal",
            )),
            _ => Ok(()),
        }
    }
}

/// Takes a document out of another one.
fn within(document: &mut Document, name: &str) -> Option<Document> {
    match document.remove(name) {
        Some(Bson::Document(inner)) => Some(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A double of a server: it gives these answers, as MongoDB's manual shows them, and lacks all other commands.
    struct Double {
        build: Document,
        status: Result<Document, i32>,
        parsed: Document,
    }

    impl Double {
        /// A MongoDB on its usual storage engine.
        fn mongodb(parsed: Document) -> Double {
            let engine = doc! { "name": "wiredTiger", "persistent": true };
            let build = doc! { "version": "6.0.12", "ok": 1.0 };
            Double { build, status: Ok(doc! { "storageEngine": engine }), parsed }
        }

        fn facts(&self) -> Result<Facts, DriverError> {
            Facts::ask(|command| match command.keys().next().map(String::as_str) {
                Some("buildInfo") => Ok(self.build.clone()),
                Some("serverStatus") => self.status.clone().map_err(|code| {
                    Fault { message: format!("not authorized (code {code})"), code }
                        .at("serverStatus")
                }),
                Some("getCmdLineOpts") => Ok(doc! { "argv": ["mongod"], "parsed": &self.parsed }),
                other => panic!("{other:?} was not to be asked"),
            })
        }

        fn refusal(&self) -> String {
            let kept = self.facts().and_then(|facts| facts.can_keep_promises());
            kept.expect_err("is refused").to_string()
        }
    }

    /// A server with a journal is let in, whether it says so or leaves it at its default, and so it is in the receipt.
    #[test]
    fn a_journal_keeps_promises() {
        let with = doc! { "storage": { "dbPath": "/d", "journal": { "enabled": true } } };
        for parsed in [doc! {}, doc! { "storage": { "dbPath": "/d" } }, with.clone()] {
            let facts = Double::mongodb(parsed).facts().expect("answers");
            assert_eq!(facts.can_keep_promises(), Ok(()), "{facts:?}");
        }
        let settings = Double::mongodb(with).facts().expect("answers").as_settings();
        let setting = |name: &str| settings.get(name).map(String::as_str);
        assert_eq!(setting("storage_engine"), Some("wiredTiger"));
        assert_eq!(setting("started_with.storage.journal.enabled"), Some("true"));
        assert_eq!(setting("ferretdb_version"), None);
    }

    /// Servers that cannot keep anything, or do not let themselves be asked, are refused with what they said.
    #[test]
    fn other_servers_are_refused() {
        let check = |double: Double, says: &[&str]| {
            let refusal = double.refusal();
            for words in says {
                assert!(refusal.contains(words), "it should say {words}: {refusal}");
            }
        };
        let usual = || Double::mongodb(doc! {});
        let without = doc! { "storage": { "journal": { "enabled": false } } };
        check(Double::mongodb(without), &["storage.journal.enabled is false", "start it with"]);
        let engine = doc! { "storageEngine": { "name": "inMemory", "persistent": false } };
        check(Double { status: Ok(engine), ..usual() }, &["is inMemory", "is wiredTiger"]);
        let router = doc! { "process": "mongos" };
        check(Double { status: Ok(router), ..usual() }, &["no storage engine", "name a mongod"]);
        check(
            Double { status: Err(UNAUTHORIZED), ..usual() },
            &["serverStatus: not authorized", "clusterMonitor"],
        );
    }

    /// FerretDB is known by its build, in the words of either version, and asked nothing more.
    #[test]
    fn ferretdb_is_never_taken_for_mongodb() {
        let builds = [
            (doc! { "version": "7.0.42", "ferretdbVersion": "v1.24.2" }, "v1.24.2"),
            (doc! { "version": "7.0.77", "ferretdb": { "version": "v2.7.0" } }, "v2.7.0"),
        ];
        for (build, version) in builds {
            let double = Double { build, status: Err(0), parsed: doc! {} };
            assert_eq!(double.facts(), Ok(Facts::Ferretdb(version.to_owned())));
            let refusal = double.refusal();
            for words in [version, "no MongoDB", "ferretdb-1", "ferretdb-2"] {
                assert!(refusal.contains(words), "it should say {words}: {refusal}");
            }
        }
    }
}
