//! How a request ended. A driver says which of three ends it was; it never hides an error behind a retry of its own.

/// The end of one attempt at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The engine did it and said so. An update is acknowledged only if exactly one row matched.
    Acknowledged,
    /// The engine said that it did nothing. Safe to try again.
    Refused(Failure),
    /// Nobody knows: no answer came, or an answer that does not say. Never tried again.
    Unknown(Failure),
}

/// The end of a request that its connection was not made for: a mistake of the program, not of the engine.
pub const NOT_MADE_FOR: Outcome = Outcome::Refused(Failure { class: FailureClass::Other, code: 0 });

/// Why an attempt was not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// What kind of failure, the same words for every engine.
    pub class: FailureClass,
    /// The engine's own error code.
    pub code: i32,
}

/// Kinds of failure. A closed list, so that engines can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureClass {
    /// A lock was not had in time.
    LockTimeout,
    /// The engine ended it to break a circle of waiting transactions.
    Deadlock,
    /// The engine could not put it in an order with concurrent transactions.
    Serialization,
    /// The engine has too much to do: too many connections, queues full, resources short.
    Overload,
    /// The connection was lost before an answer came.
    LostConnection,
    /// No row matched the key.
    NoSuchRow,
    /// A map or a memory of the engine is full.
    Full,
    /// There is no room on the disk.
    DiskFull,
    /// The engine answered a query with what cannot be right.
    WrongAnswer,
    /// Anything else the engine reports.
    Other,
}

impl FailureClass {
    /// The word used in records.
    pub fn name(self) -> &'static str {
        match self {
            FailureClass::LockTimeout => "lock-timeout",
            FailureClass::Deadlock => "deadlock",
            FailureClass::Serialization => "serialization",
            FailureClass::Overload => "overload",
            FailureClass::LostConnection => "lost-connection",
            FailureClass::NoSuchRow => "no-such-row",
            FailureClass::Full => "full",
            FailureClass::DiskFull => "disk-full",
            FailureClass::WrongAnswer => "wrong-answer",
            FailureClass::Other => "other",
        }
    }

    /// Whether trying the same request again can help.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            FailureClass::LockTimeout
                | FailureClass::Deadlock
                | FailureClass::Serialization
                | FailureClass::Overload
        )
    }
}
