//! What is asked of an engine that is ended violently, whether it is a server or a library: that it keeps what its
//! durability promises, killed at random moments, and when the power goes.

use super::loop_disk::LoopDisk;
use dbdyno_plan::Durability;

/// What a crash took away, counted over the hot row.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// Updates that the engine acknowledged since the last count.
    pub acknowledged: u64,
    /// Updates of which nobody knows.
    pub unknown: u64,
    /// By how much the counter has grown.
    pub counter: u64,
}

/// An engine with a loaded hot row that can be ended violently.
pub trait Crashable {
    /// Updates the hot row from eight clients, kills the engine at a random moment, lets it recover and counts. With a
    /// disk its power is cut before, and comes back after. Nothing if it cannot recover.
    fn crash(&self, seed: u32, disk: Option<&LoopDisk>) -> Option<Loss>;
}

/// Crashes of each engine at each durability.
fn crashes() -> u32 {
    std::env::var("DBDYNO_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// What was acknowledged is there, and nothing is there that was neither acknowledged nor unknown.
fn assert_within(engine: &str, durability: Durability, loss: Loss) {
    let Loss { acknowledged, unknown, counter } = loss;
    assert!(
        (acknowledged..=acknowledged + unknown).contains(&counter),
        "{engine} at {}: {acknowledged} acknowledged, {unknown} unknown, {counter} counted",
        durability.name()
    );
}

/// Kills it at random moments: no acknowledged commit may be lost.
pub fn keeps_when_killed(engine: &str, durability: Durability, what: &dyn Crashable) {
    let mut acknowledged = 0;
    for seed in 0..crashes() {
        let loss = what.crash(seed, None);
        let loss = loss.unwrap_or_else(|| panic!("{engine} does not recover"));
        assert_within(engine, durability, loss);
        acknowledged += loss.acknowledged;
    }
    assert!(acknowledged > u64::from(crashes()), "{engine}: {acknowledged} updates say nothing");
    println!(
        "process death, {engine}, {}: {} times, {acknowledged} acknowledged, none lost",
        durability.name(),
        crashes()
    );
}

/// Cuts the power of its disk at random moments: at `commit-sync` no acknowledged commit may be lost. Returns what a weaker
/// durability lost, a database that cannot be opened any more counted as one.
pub fn lost_in_power_cuts(
    engine: &str,
    durability: Durability,
    disk: &LoopDisk,
    what: &dyn Crashable,
) -> u64 {
    let (mut acknowledged, mut lost, mut damaged) = (0, 0, 0);
    for seed in 0..crashes() {
        let Some(loss) = what.crash(seed, Some(disk)) else {
            // Files that are damaged beyond opening are what the weaker names allow, and only they.
            assert!(durability < Durability::CommitSync, "{engine} does not recover");
            damaged += 1;
            break;
        };
        if durability == Durability::CommitSync {
            assert_within(engine, durability, loss);
        }
        acknowledged += loss.acknowledged;
        lost += loss.acknowledged.saturating_sub(loss.counter);
    }
    println!(
        "power cut, {engine}, {}: {} times, {acknowledged} acknowledged, {lost} lost, {damaged} damaged",
        durability.name(),
        crashes()
    );
    if durability < Durability::CommitSync { lost + damaged } else { 0 }
}
