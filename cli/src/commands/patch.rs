//! `mosaic patch`: the work of a run, for whoever reviews it.

use std::io::IsTerminal as _;

use mosaic_ids::Name;
use mosaic_proto::launcher::v1 as launcher;
use mosaic_record::{FileChange, Handoff, Harvest, HarvestState, ProjectHarvest, RunRecord, Work};
use tonic::Streaming;

use super::run::record;
use crate::args::{Patch, When};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;
use crate::view::describe::left_out;
use crate::view::pager::Pager;
use crate::view::patch::Painter;
use crate::view::record::line;
use crate::view::text::harmless;

/// Largest `handoff.json` that is read, in bytes.
const HANDOFF_BYTES: usize = 256 * 1024 * 1024;

/// Most things to look at that are listed.
const FLAGS: usize = 50;

pub(crate) async fn run(arguments: &Patch, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let record = record(&mut client, &arguments.run).await?;
    let (project, work) = work(&record, arguments.project.as_ref())?;
    let mut wanted = Wanted { client, record: &record, project };
    if arguments.json {
        return wanted.copy(launcher::HarvestPart::Handoff).await;
    }
    let terminal = std::io::stdout().is_terminal();
    let colors = match arguments.color {
        When::Auto => terminal && may_colour(),
        When::Always => true,
        When::Never => false,
    };
    let handoff = if arguments.stat || work.flags > 0 { Some(wanted.handoff().await?) } else { None };
    let mut head = head(&record, project, work, handoff.as_ref());
    if arguments.stat {
        head.push_str(&stat(&handoff.map(|handoff| handoff.files).unwrap_or_default()));
    } else if !terminal && !colors {
        // The patch alone, byte for byte, so that it can be applied.
        crate::say!("{}", head.trim_end());
        return wanted.copy(launcher::HarvestPart::Patch).await;
    }
    let mut pager = if terminal && !arguments.no_pager { Pager::start() } else { Pager::None };
    let shown = if pager.write(head.as_bytes()).await && !arguments.stat {
        wanted.show(&mut pager, colors).await
    } else {
        Ok(())
    };
    pager.finish().await;
    shown.map(|()| Exit::Done)
}

/// What the environment says about colours.
fn may_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The project that is meant, and its work.
fn work<'a>(record: &'a RunRecord, project: Option<&Name>) -> Result<(&'a Name, &'a Work), Failure> {
    let run = &record.run_id;
    let projects = match &record.harvest {
        None => return Err(Failure::usage(format!("run {run} has no clone that work was taken out of"))),
        Some(Harvest { state: HarvestState::Pending, .. }) => {
            let failure = Failure::usage(format!("the work of run {run} is not taken out yet"));
            return Err(failure.hint("the host does so now, or as soon as one is there"));
        }
        Some(harvest) => &harvest.projects,
    };
    let known = || projects.iter().map(|of| of.project.as_str()).collect::<Vec<_>>().join(" ");
    let found = match (project, projects.as_slice()) {
        (None, [only]) => only,
        (None, _) => {
            let failure = Failure::usage(format!("run {run} has several projects: {}", known()));
            return Err(failure.hint("name one with --project"));
        }
        (Some(name), all) => all
            .iter()
            .find(|of| of.project == *name)
            .ok_or_else(|| Failure::usage(format!("run {run} has no project {name}; it has: {}", known())))?,
    };
    let ProjectHarvest { project, work, failure, detail, .. } = found;
    let work = work.as_ref().ok_or_else(|| {
        let why = failure.map(|failure| failure.to_string()).unwrap_or_default();
        let detail = harmless(detail.as_deref().unwrap_or_default()).into_owned();
        Failure::usage(format!("the work of run {run} in project {project} could not be taken out: {why}: {detail}"))
    })?;
    Ok((project, work))
}

/// What is known of the work without its patch.
fn head(record: &RunRecord, project: &Name, work: &Work, handoff: Option<&Handoff>) -> String {
    let mut text = String::new();
    line(&mut text, "run", &record.run_id);
    line(&mut text, "project", project);
    line(&mut text, "base", &work.base);
    line(&mut text, "commit", &work.commit);
    line(&mut text, "tree", &work.tree);
    line(&mut text, "files", format_args!("{}, +{} -{}", work.files, work.added, work.removed));
    let flags = handoff.map(|handoff| handoff.flags.as_slice()).unwrap_or_default();
    for flagged in flags.iter().take(FLAGS) {
        line(&mut text, "look at", format_args!("{}: {}", flagged.flag, harmless(&flagged.path)));
    }
    if flags.len() > FLAGS {
        line(&mut text, "", format_args!("and {} more, see --json", flags.len() - FLAGS));
    }
    for left in &work.left_out {
        line(&mut text, "left out", left_out(left).trim_start_matches("left out, "));
    }
    text.push('\n');
    text
}

/// A line for each file.
fn stat(files: &[FileChange]) -> String {
    let count = |lines: Option<u64>| lines.map_or_else(|| "-".to_owned(), |lines| lines.to_string());
    let line = |file: &FileChange| {
        let FileChange { path, status, added, removed, .. } = file;
        let (added, removed) = (count(*added), count(*removed));
        format!("{status} {:>6} {:>6} {}\n", format!("+{added}"), format!("-{removed}"), harmless(path))
    };
    files.iter().map(line).collect()
}

/// The work that is asked for.
struct Wanted<'a> {
    client: Client,
    record: &'a RunRecord,
    project: &'a Name,
}

impl Wanted<'_> {
    async fn part(&mut self, part: launcher::HarvestPart) -> Result<Streaming<launcher::GetHarvestResponse>, Failure> {
        let (run_id, project) = (self.record.run_id.to_string(), self.project.to_string());
        let request = launcher::GetHarvestRequest { run_id, project, part: part.into() };
        Ok(self.client.launches.get_harvest(request).await?.into_inner())
    }

    /// Writes a file to standard output as it is.
    async fn copy(&mut self, part: launcher::HarvestPart) -> Outcome {
        let (mut chunks, mut stdout) = (self.part(part).await?, Pager::None);
        while let Some(response) = chunks.message().await? {
            if !stdout.write(&response.chunk).await {
                break;
            }
        }
        Ok(Exit::Done)
    }

    /// Writes the patch for people.
    async fn show(&mut self, pager: &mut Pager, colors: bool) -> Result<(), Failure> {
        let (mut chunks, mut painter) = (self.part(launcher::HarvestPart::Patch).await?, Painter::new(colors));
        while let Some(response) = chunks.message().await? {
            if !pager.write(painter.paint(&response.chunk).as_bytes()).await {
                return Ok(());
            }
        }
        pager.write(painter.finish().as_bytes()).await;
        Ok(())
    }

    async fn handoff(&mut self) -> Result<Handoff, Failure> {
        let (mut chunks, mut text) = (self.part(launcher::HarvestPart::Handoff).await?, Vec::new());
        while let Some(response) = chunks.message().await? {
            text.extend(response.chunk);
            if text.len() > HANDOFF_BYTES {
                return Err(Failure::usage(format!("the list of changes has more than {HANDOFF_BYTES} bytes")));
            }
        }
        serde_json::from_slice(&text).map_err(|error| Failure::unreachable(format!("a list that is none: {error}")))
    }
}
