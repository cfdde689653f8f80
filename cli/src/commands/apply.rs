//! `mosaic apply`: the work of a run becomes a branch of one's own repository.

mod fetch;

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use mosaic_ids::Digest;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::launcher::v1::integrate_check::State;
use mosaic_proto::launcher::v1::integrate_outcome::Result as Ended;
use mosaic_proto::launcher::v1::integrate_response::Progress;
use sha2::Digest as _;

use self::fetch::Repository;
use super::print_line;
use crate::args::Apply;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach;
use crate::settings::Settings;
use crate::view::text::harmless;

pub(crate) async fn run(arguments: &Apply, settings: &Settings) -> Outcome {
    let mut client = attach(settings).await?;
    let branch = arguments.branch.clone().unwrap_or_else(|| format!("mosaic/{}", arguments.run));
    fetch::check_name(&branch)?;
    let mut told = client.launches.integrate(request(arguments)).await?.into_inner();
    let (mut work, mut repository, mut checks) = (None::<launcher::IntegratedWork>, None, Vec::new());
    let mut bundle = tempfile::tempfile().map_err(|error| failed("write a temporary file", &error))?;
    let mut hash = sha2::Sha256::new();
    let outcome = loop {
        let response = told.message().await?;
        let Some(progress) = response.and_then(|response| response.progress) else {
            return Err(Failure::unreachable("the host ended before it was done; ask again"));
        };
        match progress {
            Progress::Work(found) => {
                // Before anything runs: a branch that is there is the person's.
                let opened = Repository::open(Path::new(&found.root), settings)?;
                opened.check_free(&branch)?;
                repository = Some(opened);
                if !arguments.json {
                    print_line(&head(&found));
                }
                work = Some(found);
            }
            Progress::Check(check) => {
                if !arguments.json {
                    print_line(&check_line(&check));
                }
                checks.push(check);
            }
            Progress::Chunk(bytes) => {
                hash.update(&bytes);
                bundle.write_all(&bytes).map_err(|error| failed("write a temporary file", &error))?;
            }
            Progress::Outcome(outcome) => break outcome,
        }
    };
    let created = match (outcome.result(), &work, &repository) {
        (Ended::HandedOut, Some(work), Some(repository)) => {
            if Digest::from_hash(&hash.finalize()).as_str() != work.bundle_digest {
                return Err(Failure::unreachable("the bundle did not arrive as it was sent; ask again"));
            }
            bundle.seek(SeekFrom::Start(0)).map_err(|error| failed("read a temporary file", &error))?;
            repository.take(bundle, work, &branch, &arguments.run)?;
            Some(branch.as_str())
        }
        _ => None,
    };
    finish(arguments, &outcome, work.as_ref(), &checks, created)
}

fn request(arguments: &Apply) -> launcher::IntegrateRequest {
    launcher::IntegrateRequest {
        run_id: arguments.run.to_string(),
        project: arguments.project.as_ref().map(ToString::to_string).unwrap_or_default(),
        branch: arguments.onto.clone().unwrap_or_default(),
        on_base: arguments.on_base,
        checks: arguments.check.iter().map(ToString::to_string).collect(),
    }
}

fn finish(
    arguments: &Apply,
    outcome: &launcher::IntegrateOutcome,
    work: Option<&launcher::IntegratedWork>,
    checks: &[launcher::IntegrateCheck],
    created: Option<&str>,
) -> Outcome {
    if arguments.json {
        print_line(&json(outcome, work, checks, created));
    }
    match (outcome.result(), created, work) {
        (Ended::HandedOut, Some(branch), Some(work)) => {
            if !arguments.json {
                print_line(&format!("branch {branch} of {} is at {}", work.root, work.tip));
            }
            Ok(Exit::Done)
        }
        (Ended::Conflicts, ..) => {
            for path in outcome.conflicts.iter().filter(|_| !arguments.json) {
                print_line(&format!("conflict  {}", harmless(path)));
            }
            crate::say!("both sides changed the same places; nothing was written");
            crate::say!("hint: take the work as it was with `--on-base`, and merge that branch yourself");
            Ok(Exit::NotSucceeded)
        }
        (Ended::ChecksFailed, ..) => {
            crate::say!("a check failed; nothing was written");
            Ok(Exit::NotSucceeded)
        }
        (Ended::NothingToApply, ..) => {
            crate::say!("the branch has all of it already; nothing was written");
            Ok(Exit::Done)
        }
        _ => Err(Failure::unreachable("the host said nothing that its contract allows")),
    }
}

fn head(work: &launcher::IntegratedWork) -> String {
    let onto = if work.branch.is_empty() { "its base" } else { &work.branch };
    let files = if work.files == 1 { "1 file".to_owned() } else { format!("{} files", work.files) };
    let mut line = format!(
        "{}: {files}, +{} -{}, as {} on {onto} ({})",
        work.project, work.added, work.removed, work.tip, work.onto
    );
    if work.tip != work.work {
        line.push_str(&format!("\n{}: the root has moved since; the work itself is {}", work.project, work.work));
    }
    line
}

fn check_line(check: &launcher::IntegrateCheck) -> String {
    let state = match check.state() {
        State::Unspecified => "unknown".to_owned(),
        State::Started => "runs".to_owned(),
        State::Passed => "passed".to_owned(),
        State::Failed => format!("FAILED ({}); `mosaic show {}`", harmless(&check.reason), check.run_id),
    };
    format!("check {}: {state}", check.name)
}

fn json(
    outcome: &launcher::IntegrateOutcome,
    work: Option<&launcher::IntegratedWork>,
    checks: &[launcher::IntegrateCheck],
    created: Option<&str>,
) -> String {
    let result = match outcome.result() {
        Ended::Unspecified => "unknown",
        Ended::HandedOut => "applied",
        Ended::Conflicts => "conflicts",
        Ended::ChecksFailed => "checks-failed",
        Ended::NothingToApply => "nothing-to-apply",
    };
    let ended = checks.iter().filter(|check| check.state() != State::Started);
    let checks: Vec<_> = ended
        .map(|check| {
            serde_json::json!({
                "name": check.name, "runId": check.run_id, "passed": check.state() == State::Passed, "reason": check.reason,
            })
        })
        .collect();
    let work = work.map(|work| {
        serde_json::json!({
            "project": work.project, "root": work.root, "onto": work.onto, "work": work.work, "tip": work.tip,
            "files": work.files, "added": work.added, "removed": work.removed,
        })
    });
    let line = serde_json::json!({
        "result": result, "branch": created, "work": work, "checks": checks, "conflicts": outcome.conflicts,
    });
    line.to_string()
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("can't {what}: {error}"))
}
