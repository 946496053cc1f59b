//! What can be planned with: the workloads, engines and experiments that this program holds, in the form planning takes.

use crate::cli::Question;
use crate::exit_code;
use crate::failure::Failure;
use crate::user_engines::{self, UserEngine};
use dbdyno_plan::{
    Catalogue, DatasetFacts, ENGINES, EXPERIMENTS, ExperimentSource, NamedText, Plan, PlanRequest,
    WorkloadFacts,
};
use dbdyno_workload::hot_row;
use dbdyno_workload::{HotRow, Seed, Settings, find_workload};

/// Plans what the command line asks for.
///
/// # Errors
/// With file, line and key, if an input is wrong.
pub fn plan(question: &Question) -> Result<Plan, Failure> {
    let workloads = workloads();
    let (names, own) = user_engines::take_out(&question.engine)?;
    let engines: Vec<NamedText<'_>> =
        ENGINES.iter().copied().chain(own.iter().map(UserEngine::as_text)).collect();
    let catalogue =
        Catalogue { workloads: &workloads, experiments: EXPERIMENTS, engines: &engines };
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

/// One entry per workload of `dbdyno_workload::WORKLOADS`, with what planning asks of it.
fn workloads() -> Vec<WorkloadFacts> {
    let entry = find_workload(hot_row::NAME).expect("the list of workloads holds its own");
    vec![WorkloadFacts {
        name: entry.name,
        version: entry.version,
        about: entry.about,
        parameters: entry.parameters,
        needs: &["update-by-key"],
        check_needs: &["counter-check"],
        validate: |settings| {
            HotRow::from_settings(settings).map(drop).map_err(|error| (error.key, error.message))
        },
        not_run: |settings, dop| {
            HotRow::from_settings(settings).ok().and_then(|workload| workload.not_run(dop))
        },
        dataset: |settings, seed| dataset_facts(settings, Seed(seed)),
    }]
}

fn dataset_facts(settings: &Settings, seed: Seed) -> DatasetFacts {
    let Ok(workload) = HotRow::from_settings(settings) else {
        // Settings that do not fit together are refused by `validate` first.
        return DatasetFacts { fingerprint: String::new(), rows: 0, bytes: 0, aging_updates: 0 };
    };
    let dataset = workload.dataset(seed);
    DatasetFacts {
        fingerprint: dataset.fingerprint(),
        rows: dataset.rows * u64::from(dataset.tables),
        bytes: dataset.bytes_estimate(),
        aging_updates: dataset.age_updates().left(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dbdyno_plan::{ExperimentFile, PlanRequest};
    use dbdyno_workload::WORKLOADS;

    /// Every shipped experiment plans at every scale, for every engine, with the real workloads.
    #[test]
    fn every_experiment_and_engine_plans() {
        let workloads = workloads();
        let catalogue =
            Catalogue { workloads: &workloads, experiments: EXPERIMENTS, engines: ENGINES };
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

    /// Planning knows every workload that there is.
    #[test]
    fn every_workload_can_be_planned() {
        let known: Vec<&str> = workloads().iter().map(|workload| workload.name).collect();
        let all: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(known, all);
    }
}
