//! Settling a server before a trial, so that it begins without the debts of the one before: checkpoint, purge, vacuum,
//! as its engine file says. Bounded, and what is left is recorded.

use super::asked::Asked;
use crate::failure::Failure;
use dbdyno_plan::SettleStep;
use std::time::{Duration, Instant};

/// Between two looks at a debt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A debt that has not shrunk for this long is no longer being paid: some servers keep counting what they have done
/// until there is more to do (InnoDB cuts its history list only after every so many batches).
const STALLED: Duration = Duration::from_secs(1);

/// How settling went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// How long it took, seconds.
    pub seconds: f64,
    /// What the steps that wait for a number left of it, added up.
    pub debt: u64,
    /// Whether a debt was still shrinking when a step came to its limit.
    pub gave_up: bool,
}

/// Runs the steps; `{table}` in a statement makes it one for each of the `tables` that are changed.
///
/// # Errors
/// The server's.
pub fn settle(
    server: &dyn Asked,
    steps: &[SettleStep],
    tables: &[String],
) -> Result<Settled, Failure> {
    let started = Instant::now();
    let (mut debt, mut gave_up) = (0, false);
    for step in steps {
        let by = Instant::now() + Duration::from_secs(step.limit_s);
        let names = tables.iter();
        let statements: Vec<String> = match step.statement.contains("{table}") {
            true => names.map(|name| step.statement.replace("{table}", name)).collect(),
            false => vec![step.statement.clone()],
        };
        for statement in &statements {
            let mut left = server.statement(statement)?;
            let Some(most) = step.until_at_most else { continue };
            let mut shrunk = Instant::now();
            let shrinks_since = |shrunk: Instant| shrunk.elapsed() < STALLED;
            while left.is_some_and(|left| left > most) && shrinks_since(shrunk) {
                if Instant::now() >= by {
                    gave_up = true;
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
                let now = server.statement(statement)?;
                if now < left {
                    shrunk = Instant::now();
                }
                left = now;
            }
            debt += left.unwrap_or(0);
        }
    }
    Ok(Settled { seconds: started.elapsed().as_secs_f64(), debt, gave_up })
}
