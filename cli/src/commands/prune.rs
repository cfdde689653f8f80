use mosaic_lifecycle::human_bytes;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_proto::launcher::v1::prune_item::Fate;
use mosaic_proto::launcher::v1::prune_response::Progress;

use super::print_line;
use crate::args::{Prune, PruneKind};
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach;
use crate::settings::Settings;
use crate::view::text::harmless;

pub(crate) async fn run(arguments: &Prune, settings: &Settings) -> Outcome {
    if arguments.older_than.is_none() && !settings.config.retention.has_rules() {
        let failure = Failure::usage("no retention rule is configured, so nothing is to go");
        return Err(
            failure.hint("add `retention` to the configuration, or name an age: `mosaic prune --older-than 30`")
        );
    }
    // The rules are the host's: it has to have the same configuration.
    let mut client = attach(settings).await?;
    let mut told = client.launches.prune(request(arguments)).await?.into_inner();
    let (mut shown, mut summary) = (false, None);
    while let Some(response) = told.message().await? {
        match response.progress {
            Some(Progress::Item(item)) if arguments.json => print_line(&item_json(&item)),
            Some(Progress::Item(item)) => {
                if !shown {
                    print_line(&row(["WHAT", "OF", "SIZE", "", "WHY"]));
                }
                shown = true;
                print_line(&item_line(&item));
            }
            Some(Progress::Summary(sum)) => summary = Some(sum),
            None => {}
        }
    }
    let sum = summary.ok_or_else(|| Failure::unreachable("the host ended before it was done; ask again"))?;
    print_line(&if arguments.json { summary_json(&sum, arguments.dry_run) } else { total(&sum, arguments.dry_run) });
    Ok(if sum.failed == 0 { Exit::Done } else { Exit::NotSucceeded })
}

fn request(arguments: &Prune) -> launcher::PruneRequest {
    let older_than = arguments.older_than.and_then(|age| age.try_into().ok());
    let kind = |kind: &PruneKind| match kind {
        PruneKind::Records => launcher::PruneKind::Records.into(),
        PruneKind::Output => launcher::PruneKind::Output.into(),
        PruneKind::Workspaces => launcher::PruneKind::Workspaces.into(),
        PruneKind::Sessions => launcher::PruneKind::Sessions.into(),
    };
    let overrides = launcher::PruneOverrides { older_than, only: arguments.only.iter().map(kind).collect() };
    launcher::PruneRequest { dry_run: arguments.dry_run, overrides: Some(overrides) }
}

const fn kind(kind: launcher::PruneKind) -> &'static str {
    match kind {
        launcher::PruneKind::Unspecified => "unknown",
        launcher::PruneKind::Records => "record",
        launcher::PruneKind::Output => "output",
        launcher::PruneKind::Workspaces => "workspace",
        launcher::PruneKind::Sessions => "session",
    }
}

const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Unspecified => "unknown",
        Fate::WouldGo => "would go",
        Fate::Gone => "gone",
        Fate::Left => "left",
        Fate::Failed => "FAILED",
    }
}

fn of(item: &launcher::PruneItem) -> &str {
    if item.run_id.is_empty() { &item.session } else { &item.run_id }
}

fn row(cells: [&str; 5]) -> String {
    let [what, of, size, fate, why] = cells;
    format!("{what:<10} {of:<32} {size:>10}  {fate:<8}  {why}").trim_end().to_owned()
}

fn item_line(item: &launcher::PruneItem) -> String {
    let size = human_bytes(item.size_bytes.unsigned_abs());
    let mut line = row([kind(item.kind()), of(item), &size, fate(item.fate()), &item.why]);
    let indent = " ".repeat(11);
    if !item.archive_name.is_empty() {
        let size = human_bytes(item.archive_size_bytes.unsigned_abs());
        let (name, digest) = (harmless(&item.archive_name), &item.archive_digest);
        line.push_str(&format!("\n{indent}archived as {name}, {size}, sha256:{digest}"));
    }
    for problem in item.problem.lines() {
        line.push_str(&format!("\n{indent}{}", harmless(problem)));
    }
    line
}

fn total(sum: &launcher::PruneSummary, dry_run: bool) -> String {
    let freed = human_bytes(sum.freed_bytes.unsigned_abs());
    let (verb, freeing) = if dry_run { ("would go", "would free") } else { ("went", "freed") };
    let mut text = match sum.items {
        0 => format!("nothing {verb}"),
        1 => format!("1 thing {verb} and {freeing} {freed}"),
        items => format!("{items} things {verb} and {freeing} {freed}"),
    };
    if sum.archived_bytes > 0 {
        text.push_str(&format!("; archives take {}", human_bytes(sum.archived_bytes.unsigned_abs())));
    }
    if sum.left > 0 {
        text.push_str(&format!("; {} left where they are", sum.left));
    }
    if sum.failed > 0 {
        text.push_str(&format!("; {} FAILED", sum.failed));
    }
    if sum.cut_runs > 0 {
        text.push_str(&format!("; cut {} events of {} runs from the ledger", sum.cut_events, sum.cut_runs));
    }
    text
}

fn item_json(item: &launcher::PruneItem) -> String {
    let text = |text: &str| if text.is_empty() { serde_json::Value::Null } else { text.into() };
    let archive = (!item.archive_name.is_empty()).then(|| {
        serde_json::json!({
            "name": item.archive_name, "digest": item.archive_digest, "sizeBytes": item.archive_size_bytes,
        })
    });
    let line = serde_json::json!({
        "kind": kind(item.kind()),
        "runId": text(&item.run_id),
        "session": text(&item.session),
        "sizeBytes": item.size_bytes,
        "why": item.why,
        "fate": fate(item.fate()).to_lowercase().replace(' ', "-"),
        "problem": text(&item.problem),
        "archive": archive,
    });
    line.to_string()
}

fn summary_json(sum: &launcher::PruneSummary, dry_run: bool) -> String {
    let line = serde_json::json!({
        "dryRun": dry_run,
        "items": sum.items,
        "freedBytes": sum.freed_bytes,
        "archivedBytes": sum.archived_bytes,
        "left": sum.left,
        "failed": sum.failed,
        "cutEvents": sum.cut_events,
        "cutRuns": sum.cut_runs,
    });
    line.to_string()
}
