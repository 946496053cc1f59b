//! What can be planned with: the workloads, engines and experiments that this program holds, in the form planning takes.

use crate::cli::Question;
use crate::exit_code;
use crate::failure::Failure;
use crate::user_engines::{self, UserEngine};
use dbdyno_plan::{
    Catalogue, ENGINES, EXPERIMENTS, ExperimentSource, NamedText, Plan, PlanRequest,
};
use dbdyno_workload::WORKLOADS;

/// Plans what the command line asks for.
///
/// # Errors
/// With file, line and key, if an input is wrong.
pub fn plan(question: &Question) -> Result<Plan, Failure> {
    let (names, own) = user_engines::take_out(&question.engine)?;
    let engines: Vec<NamedText<'_>> =
        ENGINES.iter().copied().chain(own.iter().map(UserEngine::as_text)).collect();
    let catalogue = Catalogue { workloads: WORKLOADS, experiments: EXPERIMENTS, engines: &engines };
    let request = PlanRequest { engines: names, ..request(question)? };
    dbdyno_plan::plan(&catalogue, &request)
        .map_err(|error| Failure::new(exit_code::WRONG_INPUT, error.to_string()))
}

/// Whether an experiment is given by its path and not by its name.
pub fn is_path(experiment: &str) -> bool {
    experiment.contains('/') || experiment.ends_with(".toml")
}

/// The shipped experiments, for messages.
fn names() -> String {
    let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    names.join(", ")
}

fn request(question: &Question) -> Result<PlanRequest, Failure> {
    let wrong = |message: String| Failure::new(exit_code::WRONG_INPUT, message);
    let Some(name) = &question.experiment else {
        let names = names();
        let message = format!("which experiment? Name one ({names}) or give the path of a file");
        return Err(wrong(message));
    };
    let experiment = if is_path(name) {
        let text = std::fs::read_to_string(name).map_err(|error| {
            let names = names();
            wrong(format!(
                "{name}: cannot read this experiment file: {error}; give the path of one, or a name ({names})"
            ))
        })?;
        ExperimentSource::File { file: name.clone(), text }
    } else {
        ExperimentSource::Shipped(name.clone())
    };
    Ok(PlanRequest {
        experiment,
        engines: Vec::new(),
        scale: question.scale.clone(),
        quick: question.quick,
        set: question.set.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dbdyno_plan::{ExperimentFile, PlanRequest};

    /// Every shipped experiment plans at every scale, for every engine, with the real workloads.
    #[test]
    fn every_experiment_and_engine_plans() {
        let catalogue =
            Catalogue { workloads: WORKLOADS, experiments: EXPERIMENTS, engines: ENGINES };
        for experiment in EXPERIMENTS {
            let file = ExperimentFile::parse(experiment.file, experiment.text).expect("parses");
            assert!(!file.scales.is_empty(), "{} has scales", experiment.name);
            for scale in file.scales.iter().map(|scale| &scale.name) {
                let mut request = PlanRequest::shipped(experiment.name);
                request.scale = Some(scale.clone());
                request.engines = ENGINES.iter().map(|engine| engine.name.to_owned()).collect();
                let plan = dbdyno_plan::plan(&catalogue, &request);
                let plan =
                    plan.unwrap_or_else(|error| panic!("{} {scale}: {error}", experiment.name));
                assert!(plan.trials_to_run().count() > 0);
                assert_eq!(Plan::from_json(&plan.to_json()).expect("reads back"), plan);
            }
        }
    }
}
