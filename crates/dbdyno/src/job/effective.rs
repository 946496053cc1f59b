//! What a server says of its settings, held against what the trial needs of them.

use crate::exit_code;
use crate::failure::Failure;
use dbdyno_plan::Value;
use std::collections::BTreeMap;

/// Settings of a server that hold its limit of connections.
const CONNECTION_LIMIT: &str = "max_connections";
/// Connections that must stay free besides the clients': our own, and some that servers keep for administrators.
const SPARE_CONNECTIONS: u64 = 5;

/// The settings that make the durability must be in effect, whoever started the server.
///
/// # Errors
/// With each setting that is another, what it must be, and what to do.
pub fn check_promise(
    promised: &BTreeMap<String, Value>,
    effective: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let differs = |(name, value): (&String, &Value)| {
        let found = effective.get(name)?;
        let wanted = value.to_string();
        (!same(&wanted, found)).then(|| format!("{name} is {found} and must be {wanted}"))
    };
    let wrong: Vec<String> = promised.iter().filter_map(differs).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        exit_code::NO_SERVER,
        format!(
            "the server's durability is another than the trial's: {}; set durability to what the server does, or change the server",
            wrong.join(", ")
        ),
    ))
}

/// Servers write the same value in several ways.
fn same(wanted: &str, found: &str) -> bool {
    let usual = |text: &str| match text.trim().to_lowercase().as_str() {
        "on" | "yes" | "true" => "1".to_owned(),
        "off" | "no" | "false" => "0".to_owned(),
        other => other.to_owned(),
    };
    usual(wanted) == usual(found)
}

/// All clients must fit into the server's limit of connections.
///
/// # Errors
/// With the limit, what is needed, and what to do.
pub fn check_connections(
    clients: u32,
    effective: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let limit = effective.get(CONNECTION_LIMIT).and_then(|text| text.parse::<u64>().ok());
    let needed = u64::from(clients) + SPARE_CONNECTIONS;
    match limit {
        Some(limit) if limit < needed => Err(Failure::new(
            exit_code::NO_SERVER,
            format!(
                "the server takes {limit} connections and this trial needs {needed}: raise {CONNECTION_LIMIT}, or use fewer clients"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dbdyno_workload::Setting;

    fn effective(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The same value in other words is the same; another one is named with what to do.
    #[test]
    fn durability_in_effect_is_held_against_the_promise() {
        let promised: BTreeMap<String, Value> = [
            ("fsync".to_owned(), Value(Setting::Text("on".to_owned()))),
            ("sync_binlog".to_owned(), Value(Setting::Integer(1))),
        ]
        .into();
        assert_eq!(
            check_promise(&promised, &effective(&[("fsync", "ON"), ("sync_binlog", "1")])),
            Ok(())
        );
        let wrong = check_promise(&promised, &effective(&[("fsync", "off")])).expect_err("differs");
        assert!(wrong.message.contains("fsync is off and must be on"), "{wrong}");
    }

    /// A limit that is too low is refused before any client connects.
    #[test]
    fn clients_must_fit() {
        assert_eq!(check_connections(64, &effective(&[("max_connections", "100")])), Ok(()));
        let wrong = check_connections(97, &effective(&[("max_connections", "100")]));
        assert!(wrong.expect_err("too many").message.contains("needs 102"));
        assert_eq!(check_connections(97, &effective(&[])), Ok(()));
    }
}
