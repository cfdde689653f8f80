//! Records: final, once, and the same in the ledger and in the files that show it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use mosaic_proto::broker::v1::run::State;
use serde_json::Value;

use super::{Leftover, files};
use crate::Operator;

/// Kinds of events that end a run.
const ENDS: [&str; 4] = ["run.ended", "run.refused", "run.cancelled", "run.lost"];

/// Everything that is wrong with the records of a data root.
pub(super) fn wrong(data: &Path, operator: &Operator) -> Vec<Leftover> {
    let mut faults = Vec::new();
    match operator.verify() {
        Ok(verified) if verified.intact => {}
        Ok(verified) => faults.extend(verified.faults.iter().map(|fault| format!("the ledger: {fault:?}"))),
        Err(error) => faults.push(format!("the ledger can't be verified: {error}")),
    }
    let runs = operator.runs().unwrap_or_else(|error| {
        faults.push(format!("the runs can't be listed: {error}"));
        Vec::new()
    });
    let known: HashSet<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    let strangers = files::run_ids(data).into_iter().filter(|run| !known.contains(run.as_str()));
    faults.extend(strangers.map(|run| format!("{run}: a directory of a run that the ledger does not know")));
    for run in &runs {
        let of_this = match run.state() {
            State::Succeeded | State::Failed | State::Cancelled | State::Lost | State::Refused => {
                of_run(data, operator, &run.run_id)
            }
            unfinished => Err(format!("is {}", unfinished.as_str_name())),
        };
        faults.extend(of_this.err().map(|fault| format!("{}: {fault}", run.run_id)));
    }
    faults.into_iter().map(Leftover::Record).collect()
}

fn of_run(data: &Path, operator: &Operator, run: &str) -> Result<(), String> {
    let directory = data.join("runs").join(run);
    let read = |name: &str| fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"));
    let shown: Value = serde_json::from_str(&read("result.json")?).map_err(|error| error.to_string())?;
    let record = operator.record(run).map_err(|error| error.to_string())?;
    if shown != record {
        return Err(format!("result.json says {shown}, the ledger {record}"));
    }
    let events: Vec<Value> =
        read("events.jsonl")?.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let kind = |event: &Value| event["kind"].as_str().unwrap_or_default().to_owned();
    let ends: Vec<String> = events.iter().map(kind).filter(|kind| ENDS.contains(&kind.as_str())).collect();
    if ends.len() != 1 {
        return Err(format!("has {} ends: {ends:?}", ends.len()));
    }
    let rest: Vec<String> = events.iter().map(kind).skip_while(|kind| !ENDS.contains(&kind.as_str())).skip(1).collect();
    let ended_well = match (record["harvest"].is_null(), rest.split_last()) {
        (true, rest) => rest.is_none(),
        // Whoever harvests may have taken the run over.
        (false, Some((last, before))) => last == "run.harvested" && before.iter().all(|kind| kind == "run.claimed"),
        (false, None) => false,
    };
    if !ended_well {
        return Err(format!("goes on after its end: {events:?}"));
    }
    if !events.is_sorted_by(|a, b| a["sequence"].as_i64() < b["sequence"].as_i64()) {
        return Err(format!("is out of order: {events:?}"));
    }
    for key in ["durationMs", "latencyMs"] {
        let number = record[key].as_i64().or_else(|| record["activity"][key].as_i64());
        if number.is_some_and(|number| number < 0) {
            return Err(format!("{key} is negative: {record}"));
        }
    }
    let time = |key: &str| record[key].as_str().map(str::to_owned);
    if let (Some(started), Some(finished)) = (time("startedAt"), time("finishedAt"))
        && finished < started
    {
        return Err(format!("ended before it was started: {record}"));
    }
    Ok(())
}
