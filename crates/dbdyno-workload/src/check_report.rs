//! What the check of a workload says: sentences, and the few numbers that stand beside a trial's results.
//!
//! Each workload's `check` fills one in from what was read and the clients' ledgers; nothing here judges.

/// The verdict and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// What was found right, one sentence each.
    pub statements: Vec<String>,
    /// What was found wrong, one sentence each. A trial with any is Invalid.
    pub failures: Vec<String>,
    /// Changes that the engine acknowledged: updates, or rows inserted and deleted.
    pub acknowledged: u64,
    /// Changes of unknown fate. More than none is worth a warning.
    pub unknown: u64,
    /// Growth of all counters, or of the number of rows, together; `None` where nothing can be added up, as for
    /// `assign`, which overwrites.
    pub difference: Option<i64>,
    /// The DOP of the cell, or the clients of the step, to stand beside the next number.
    pub dop: u32,
    /// Clients with at least one acknowledged or unknown request.
    pub active_clients: u32,
}

impl CheckReport {
    /// Whether the engine kept its promises.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds a sentence to the side that it belongs to.
    pub(crate) fn note(&mut self, right: bool, sentence: String) {
        if right {
            self.statements.push(sentence);
        } else {
            self.failures.push(sentence);
        }
    }
}
