//! The whole path once: a small repository, an agent that edits it, the record.

mod place;

use mosaic_record::{Backend, RunStatus};
use mosaic_telemetry::LogFormat;

use super::init_telemetry;
use super::run::{Launch, What, see_through};
use crate::args::{Demo, Overrides};
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;
use crate::task_file::Documents;
use crate::view::progress::Progress;
use crate::view::record::summary;
use place::Place;

pub(crate) async fn run(arguments: Demo) -> Outcome {
    if arguments.backend == Backend::Bubblewrap
        && let Err(missing) = mosaic_runner::probe::host().bubblewrap
    {
        let failure = Failure::rejected(format!("this machine can't contain an agent yet: {missing}"));
        return Err(
            failure.hint("`mosaic doctor` says more; `mosaic demo --backend host` runs it without any containment")
        );
    }
    let place = Place::make(&arguments.directory, arguments.backend)?;
    crate::say!("Made {} with a configuration, a data root and a small repository.", place.shown.display());
    if arguments.backend == Backend::Host {
        crate::say!("The backend is `host`: nothing contains the agent.");
    }
    crate::say!("An agent now works on the repository. It is a script, so no model and no credential is needed.\n");

    let settings = Settings::load(Some(&place.config))?;
    let telemetry = init_telemetry(&settings, "mosaic", LogFormat::Text)?;
    let outcome = follow(&place, &settings).await;
    telemetry.flush().await;
    outcome
}

async fn follow(place: &Place, settings: &Settings) -> Outcome {
    let documents = Documents::read(&place.task)?;
    let overrides = Overrides { adapter: None, model: None, mock_response: None };
    let launch = Launch { what: What::Task(documents), overrides, no_wait: false };
    let (client, run) = launch.begin(settings).await?;
    let Some(record) = see_through(settings, client, &run, Progress::for_people()).await? else {
        return Ok(Exit::Left);
    };
    crate::tell!("\nThe record:\n{}", summary(&record));
    if record.status == RunStatus::Succeeded {
        crate::tell!("What it changed:\n{}", place.changes()?);
    }
    crate::tell!("Go on with:");
    for command in place.commands(&run) {
        crate::tell!("  {command}");
    }
    Ok(Exit::of_run(record.status))
}
