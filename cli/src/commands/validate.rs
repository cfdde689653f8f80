use mosaic_proto::launcher::v1 as launcher;

use super::print_line;
use crate::args::Validate;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach;
use crate::settings::Settings;
use crate::task_file::Documents;

pub(crate) async fn run(arguments: Validate, settings: &Settings) -> Outcome {
    let Documents { task, mission } = Documents::read(&arguments.file)?;
    let overrides = Some(settings.with_mock_response(arguments.overrides).into());
    let mut client = attach(settings).await?;
    let request = launcher::ValidateRequest { task: Some(task), mission, overrides };
    let valid = client.launches.validate(request).await?.into_inner();
    if arguments.json {
        let line = serde_json::json!({
            "taskId": valid.task_id, "missionId": Some(valid.mission_id).filter(|id| !id.is_empty()),
            "tools": valid.tools, "adapter": valid.adapter, "provider": valid.provider, "model": valid.model,
            "backend": valid.backend, "notes": valid.notes, "warnings": valid.warnings,
        });
        print_line(&line.to_string());
        return Ok(Exit::Done);
    }
    let tools = if valid.tools.is_empty() { "none".to_owned() } else { valid.tools.join(" ") };
    print_line(&format!("{} is valid", arguments.file.display()));
    print_line(&format!(
        "task {}, adapter {}, backend {}, tools: {tools}",
        valid.task_id, valid.adapter, valid.backend
    ));
    for note in valid.notes.iter().chain(&valid.warnings) {
        print_line(&format!("note: {note}"));
    }
    Ok(Exit::Done)
}
