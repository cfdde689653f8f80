use jiff::Timestamp;
use mosaic_proto::broker::v1 as broker;
use mosaic_record::RunStatus;

use super::print_line;
use crate::args::List;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;

/// Most runs that one call returns.
const PAGE: usize = 200;

pub(crate) async fn run(arguments: List, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let states: Vec<i32> = arguments.status.iter().map(|status| state(*status).into()).collect();
    let (mut left, mut page_token, mut first) = (arguments.limit, String::new(), true);
    while left > 0 {
        let page_size = i32::try_from(left.min(PAGE)).map_err(|_too_many| Failure::usage("--limit is too large"))?;
        let request = broker::ListRunsRequest { page_size, page_token, states: states.clone(), ..Default::default() };
        let page = client.runs.list_runs(request).await?.into_inner();
        if first && !arguments.json {
            match page.runs.is_empty() {
                true => crate::say!("no runs yet"),
                false => print_line(&row(["RUN", "STATUS", "REASON", "TASK", "ADAPTER", "CREATED", "KEPT"])),
            }
        }
        first = false;
        for run in &page.runs {
            print_line(&if arguments.json { json(run) } else { line(run) });
        }
        left -= page.runs.len().min(left);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    Ok(Exit::Done)
}

fn row(cells: [&str; 7]) -> String {
    let [run, status, reason, task, adapter, created, kept] = cells;
    let row = format!("{run:<32} {status:<10} {reason:<20} {task:<20} {adapter:<10} {created:<19} {kept}");
    row.trim_end().to_owned()
}

fn line(run: &broker::Run) -> String {
    let status = status(run.state()).map_or("unknown", RunStatus::as_str);
    let created = time(run.create_time).map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default();
    let kept = if run.kept { "kept" } else { "" };
    row([&run.run_id, status, &run.reason, &run.task_id, &run.adapter, &created, kept])
}

fn json(run: &broker::Run) -> String {
    let text = |text: &str| if text.is_empty() { serde_json::Value::Null } else { text.into() };
    let time = |at| time(at).map(|time| time.to_string());
    let line = serde_json::json!({
        "runId": run.run_id,
        "status": status(run.state()).map(RunStatus::as_str),
        "reason": text(&run.reason),
        "taskId": run.task_id,
        "adapter": run.adapter,
        "model": text(&run.model),
        "workspace": text(&run.workspace),
        "session": text(&run.session),
        "createdAt": time(run.create_time),
        "startedAt": time(run.start_time),
        "finishedAt": time(run.end_time),
        "kept": run.kept,
    });
    line.to_string()
}

fn time(at: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok())
}

const fn status(state: broker::run::State) -> Option<RunStatus> {
    use broker::run::State;
    Some(match state {
        State::Unspecified => return None,
        State::Queued => RunStatus::Queued,
        State::Preparing => RunStatus::Preparing,
        State::Running => RunStatus::Running,
        State::Succeeded => RunStatus::Succeeded,
        State::Failed => RunStatus::Failed,
        State::Cancelled => RunStatus::Cancelled,
        State::Lost => RunStatus::Lost,
        State::Refused => RunStatus::Refused,
    })
}

const fn state(status: RunStatus) -> broker::run::State {
    use broker::run::State;
    match status {
        RunStatus::Queued => State::Queued,
        RunStatus::Preparing => State::Preparing,
        RunStatus::Running => State::Running,
        RunStatus::Succeeded => State::Succeeded,
        RunStatus::Failed => State::Failed,
        RunStatus::Cancelled => State::Cancelled,
        RunStatus::Lost => State::Lost,
        RunStatus::Refused => State::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_leads_back_from_the_wire() {
        for &value in RunStatus::ALL {
            assert_eq!(status(state(value)), Some(value));
        }
    }
}
