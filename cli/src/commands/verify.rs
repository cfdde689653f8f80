use mosaic_proto::launcher::v1 as launcher;

use super::run::{Launch, What, see_through, show_end};
use crate::args::Verify;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;
use crate::task_file::Documents;
use crate::view::progress::Progress;

/// What an agent answers when it understands its contracts.
const MARKER: &str = "MOSAIC_HELLO_OK";
/// Adapters that run what they are told instead of understanding it.
const CAN_NOT_ANSWER: &[&str] = &["scripted"];

pub(crate) async fn run(arguments: Verify, settings: &Settings) -> Outcome {
    let adapter = arguments.overrides.adapter.as_ref().unwrap_or(&settings.config.execution.adapter);
    if CAN_NOT_ANSWER.contains(&adapter.as_str()) {
        let failure = Failure::rejected(format!("the adapter `{adapter}` runs scripts and can't answer a question"));
        return Err(failure.hint("verify an adapter that drives a model, with `--adapter NAME`"));
    }
    let task = serde_json::json!({
        "taskVersion": 1,
        "id": "start-up",
        "prompt": "Return the start-up marker.",
        "expectExact": MARKER,
    });
    let task = launcher::Document { name: "start-up task".to_owned(), content: task.to_string() };
    let documents = Documents { task, mission: None };
    let launch = Launch { what: What::Task(documents), overrides: arguments.overrides, no_wait: false };
    let (client, run) = launch.begin(settings).await?;
    let progress = if arguments.json { Progress::silent() } else { Progress::for_people() };
    match see_through(settings, client, &run, progress).await? {
        Some(record) => Ok(show_end(&record, arguments.json)),
        None => Ok(Exit::Left),
    }
}
