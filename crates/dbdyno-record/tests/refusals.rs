//! What a writer refuses: a record must never hold a number that is not one, or a name that nobody knows.

mod common;

use dbdyno_record::{FactorValue, TrialEnd, TrialRecord, Warning};

#[test]
fn what_must_not_be_written_is_refused_with_the_name_of_the_field() {
    fn check(change: impl FnOnce(&mut TrialRecord), expected: &str) {
        let mut trial = common::trial(3);
        trial.check().unwrap();
        change(&mut trial);
        let refused = trial.check().unwrap_err();
        assert!(refused.contains(expected), "{refused:?} does not say {expected:?}");
    }
    check(|trial| trial.trial = 100_000, "99999");
    check(|trial| trial.duration_s = f64::NAN, "duration_s");
    check(|trial| trial.duration_s = -1.0, "duration_s");
    check(|trial| trial.end = TrialEnd::Failed { reason: " ".into() }, "without a reason");
    check(|trial| trial.observations[0].value = f64::NAN, "throughput_per_s");
    check(|trial| trial.observations[0].value = f64::INFINITY, "throughput_per_s");
    check(|trial| trial.observations[0].metric = "speed".into(), "speed");
    check(|trial| trial.observations[0].metric = "trial_end".into(), "a word");
    check(|trial| trial.observations[0].unit = "ns".into(), "1/s, not in ns");
    check(|trial| trial.observations[0].role = String::new(), "`all`");
    check(|trial| trial.observations.push(trial.observations[0].clone()), "twice");
    check(
        |trial| drop(trial.factors.insert("dop".into(), FactorValue::Number(f64::NAN))),
        "the factor `dop`",
    );
    check(|trial| drop(trial.factors.insert("step".into(), FactorValue::Number(1.0))), "rename it");
    check(|trial| trial.warnings.push(Warning::CpuStolen { share: f64::NAN }), "CpuStolen");
}
