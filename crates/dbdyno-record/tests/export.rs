//! The long format has the promised columns, a row for every end and observation, and rows for what was never measured.

mod common;

use std::collections::BTreeMap;

use dbdyno_record::{FactorValue, LongFormat, PlannedTrial, Run};

fn planned(trial: u32) -> PlannedTrial {
    PlannedTrial {
        trial,
        engine: "lmdb".to_owned(),
        engine_version: "0.9.70".to_owned(),
        configuration: "default".to_owned(),
        workload: "hot_row".to_owned(),
        workload_version: 1,
        block: 2,
        factors: BTreeMap::from([("skew".to_owned(), FactorValue::Text("uniform".to_owned()))]),
        reason: "the run was stopped before this trial".to_owned(),
    }
}

#[test]
fn every_trial_has_its_rows_under_the_promised_columns() {
    let results = common::scratch();
    let run = Run::open(&common::sealed(results.path())).unwrap();
    let planned = [planned(1), planned(5)];
    let long = LongFormat::new(&run, &planned);
    let columns = long.columns().join(",");
    assert_eq!(
        columns,
        "run,trial,engine,version,configuration,workload,workload_version,step,role,class,block,\
         restart,assignment,dop,skew,tables,metric,value,text,unit"
    );
    let start = format!("{},0,lmdb,0.9.70,default,hot_row,1", common::RUN);
    let rows: Vec<String> = long.rows().map(|row| row.fields().join(",")).collect();
    assert_eq!(rows[0], format!("{start},all,all,all,0,0,pinned,1,,1,trial_end,,Measured,"));
    assert_eq!(
        rows[1],
        format!("{start},measure,all,all,0,0,pinned,1,,1,throughput_per_s,123456.7890123,,1/s")
    );
    assert_eq!(rows.len(), 4 + 5 + 2);
    assert!(rows[4].ends_with("trial_end,,NotRun,"));
    assert!(rows[5].ends_with("trial_end_reason,,DOP 2 is less than 4 tables,"));
    let start = format!("{},5,lmdb,0.9.70,default,hot_row,1", common::RUN);
    assert_eq!(rows[9], format!("{start},all,all,all,2,,,,uniform,,trial_end,,NotRun,"));
    assert!(rows[10].contains("stopped before"));
    for row in long.rows() {
        assert_eq!(row.fields().len(), long.columns().len());
    }
}

#[test]
fn json_rows_have_the_columns_in_order_and_null_for_nothing() {
    let results = common::scratch();
    let run = Run::open(&common::sealed(results.path())).unwrap();
    let planned = [planned(5)];
    let long = LongFormat::new(&run, &planned);
    let rows: Vec<_> = long.rows().collect();
    assert_eq!(
        serde_json::to_string(&rows[3]).unwrap(),
        "{\"run\":\"20261121-041512-tiny-3f9a\",\"trial\":0,\"engine\":\"lmdb\",\
         \"version\":\"0.9.70\",\"configuration\":\"default\",\"workload\":\"hot_row\",\
         \"workload_version\":1,\"step\":\"measure\",\"role\":\"all\",\"class\":\"all\",\
         \"block\":0,\"restart\":0,\"assignment\":\"pinned\",\"dop\":1,\"skew\":null,\
         \"tables\":1,\"metric\":\"acknowledged\",\"value\":308641.0,\"text\":null,\
         \"unit\":\"requests\"}"
    );
}
