use mosaic_ids::RunId;
use mosaic_record::{Actor, EventMeta, RunEvent};

use super::super::{Denial, Draft, LeaseChange, NewRun, Run, from_nanos, to_nanos};
use super::{Decision, Situation};

/// Records a new run, or returns the one that the same request made before.
pub(super) fn create(situation: Situation, actor: &Actor, new: &NewRun) -> Result<Decision, Denial> {
    let Situation { run, next_sequence, now, random, .. } = situation;
    if let Some(run) = run {
        return again(run, new);
    }
    let run_id = RunId::new(now, random);
    let meta = EventMeta { time: from_nanos(to_nanos(now)), actor: actor.clone(), trace_id: new.trace_id.clone() };
    let run = Run::queued(&run_id, &meta, &new.event, next_sequence)
        .map_err(|source| Denial::Illegal { run_id: run_id.clone(), source })?;
    let draft = Draft {
        time: meta.time,
        kind: RunEvent::kind(&new.event),
        actor: meta.actor,
        subject: run_id.into(),
        payload: new.payload.clone(),
        trace_id: meta.trace_id,
    };
    Ok(Decision { run, drafts: vec![draft], save: true, lease: LeaseChange::Keep, sequence: next_sequence })
}

fn again(run: Run, new: &NewRun) -> Result<Decision, Denial> {
    if run.request_digest != new.digest {
        return Err(Denial::OtherSpec { request_id: new.request_id.clone(), run_id: run.id().clone() });
    }
    let sequence = run.first_sequence;
    Ok(Decision { run, drafts: vec![], save: false, lease: LeaseChange::Keep, sequence })
}
