//! The requests of one client, in order, without end: a function of the seed and the client's number.
//!
//! It says nothing about when a request is due (arrivals do), and how earlier ones ended changes nothing but the ledger
//! that it carries for the check. This is in the request loop: no allocation, and with one row and one table no random number either. Start with `next`.

use super::{Assignment, CLIENTS_MAX, HotRow, Ledger, Update};
use crate::RequestStream;
use crate::distribution::KeySampler;
use crate::request::{Action, Request};
use crate::rng::{Random, Seed};

/// Bits of an assigned value that hold the sequence number; the client is above them. 20 bits of client and 43 of
/// sequence leave the sign bit of a 64-bit column alone.
const SEQUENCE_BITS: u32 = 43;

/// An endless stream of updates.
///
/// The values of `assign` are client * 2^43 + sequence, and the sequence starts at 1, so that no value is the 0 of a
/// fresh counter.
#[derive(Debug, Clone)]
pub struct HotRowStream {
    table: TableChoice,
    keys: KeySampler,
    update: Update,
    /// The value that the next `assign` writes.
    next_value: u64,
    random: Random,
    ledger: Ledger,
}

impl HotRowStream {
    /// The client's account of how its requests ended.
    #[must_use]
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }
}

#[derive(Debug, Clone, Copy)]
enum TableChoice {
    Fixed(u16),
    AnyOf(u64),
}

impl HotRow {
    /// The requests of `client`, counted from 0. All clients of a trial are given the same seed.
    ///
    /// # Panics
    /// When `client` is not below [`CLIENTS_MAX`].
    #[must_use]
    pub fn stream(&self, seed: Seed, client: u32) -> HotRowStream {
        assert!(client < CLIENTS_MAX, "client {client} is not below {CLIENTS_MAX}");
        let table = match self.assignment {
            Assignment::Pinned => TableChoice::Fixed((client % u32::from(self.tables)) as u16),
            Assignment::Roaming | Assignment::Divided if self.tables == 1 => TableChoice::Fixed(0),
            Assignment::Roaming | Assignment::Divided => TableChoice::AnyOf(u64::from(self.tables)),
        };
        HotRowStream {
            table,
            keys: self.keys.sampler(self.rows),
            update: self.update,
            next_value: (u64::from(client) << SEQUENCE_BITS) + 1,
            random: Random::new(seed.derive("hot_row client", u64::from(client))),
            ledger: self.ledger(),
        }
    }
}

impl RequestStream for HotRowStream {
    #[inline]
    fn next(&mut self) -> Request {
        let table = match self.table {
            TableChoice::Fixed(table) => table,
            TableChoice::AnyOf(tables) => self.random.below(tables) as u16,
        };
        let row = self.keys.next(&mut self.random);
        let action = match self.update {
            Update::Increment => Action::Increment,
            Update::Assign => {
                let value = self.next_value;
                self.next_value += 1;
                Action::Assign(value)
            }
        };
        Request { class: 0, table, row, action }
    }

    #[inline]
    fn acknowledged(&mut self, request: &Request) {
        self.ledger.acknowledged(request);
    }

    fn unknown(&mut self, request: &Request) {
        self.ledger.unknown(request);
    }
}

/// What a counter that was assigned says about its writer.
pub(super) fn describe_value(value: u64) -> String {
    let (client, sequence) = (value >> SEQUENCE_BITS, value & ((1 << SEQUENCE_BITS) - 1));
    match sequence {
        0 => format!("{value}"),
        _ => format!("{value} (client {client}, write {sequence})"),
    }
}

#[cfg(test)]
mod tests {
    //! Shows that streams are frozen, which tables each client gets, and what assigned values look like.
    use super::*;
    use crate::parameter::Setting;

    fn hot_row(settings: &[(&str, Setting)]) -> HotRow {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        HotRow::from_settings(&settings.collect()).expect("the test's settings are valid")
    }

    fn text(word: &str) -> Setting {
        Setting::Text(word.to_owned())
    }

    fn take(stream: &mut HotRowStream, count: usize) -> Vec<(u16, u64)> {
        (0..count).map(|_| stream.next()).map(|request| (request.table, request.row)).collect()
    }

    #[test]
    fn streams_never_change_within_a_version() {
        assert_eq!(super::super::VERSION, 1);
        let workload = hot_row(&[
            ("tables", Setting::Integer(8)),
            ("assignment", text("roaming")),
            ("keys", text("uniform")),
        ]);
        // Computed by a separate program from the description of the stream.
        let expected = [(3, 7268), (0, 95_688), (1, 42_153), (4, 80_582)];
        assert_eq!(take(&mut workload.stream(Seed(42), 0), 4), expected);
        assert_ne!(take(&mut workload.stream(Seed(42), 1), 4), expected);
        assert_ne!(take(&mut workload.stream(Seed(43), 0), 4), expected);
    }

    #[test]
    fn pinned_clients_keep_their_table_and_the_others_roam() {
        let check = |assignment, client, expected: &[u16]| {
            let workload =
                hot_row(&[("tables", Setting::Integer(4)), ("assignment", text(assignment))]);
            for seed in 1..5 {
                let mut counts = [0; 4];
                for (table, row) in take(&mut workload.stream(Seed(seed), client), 4000) {
                    counts[usize::from(table)] += 1;
                    assert_eq!(row, 1);
                }
                for (table, count) in counts.into_iter().enumerate() {
                    let share =
                        if expected.contains(&(table as u16)) { 4000 / expected.len() } else { 0 };
                    // Standard deviation 27 when four tables share.
                    let limit = if expected.len() == 4 { 150 } else { 0 };
                    assert!(
                        share.abs_diff(count) <= limit,
                        "{assignment}, seed {seed}: {counts:?}"
                    );
                }
            }
        };
        check("pinned", 0, &[0]);
        check("pinned", 7, &[3]);
        check("roaming", 7, &[0, 1, 2, 3]);
        check("divided", 0, &[0, 1, 2, 3]);
    }

    #[test]
    fn assigned_values_name_client_and_sequence() {
        let workload = hot_row(&[("update", text("assign"))]);
        let mut first = workload.stream(Seed(1), 0);
        assert_eq!(first.next().action, Action::Assign(1));
        assert_eq!(first.next().action, Action::Assign(2));
        let mut last = workload.stream(Seed(1), CLIENTS_MAX - 1);
        let Action::Assign(value) = last.next().action else { panic!("it assigns") };
        assert!(i64::try_from(value).is_ok());
        assert_eq!(describe_value(value), format!("{value} (client {}, write 1)", CLIENTS_MAX - 1));
        assert_eq!(describe_value(0), "0");
    }
}
