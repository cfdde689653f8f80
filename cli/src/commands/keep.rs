use mosaic_proto::broker::v1 as broker;

use super::print_line;
use super::run::record;
use crate::args::Keep;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;

pub(crate) async fn run(arguments: &Keep, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let before = record(&mut client, &arguments.run).await?.kept;
    let kept = !arguments.undo;
    if kept != before {
        let request = broker::KeepRunRequest { run_id: arguments.run.to_string(), kept };
        client.retention.keep_run(request).await?;
    }
    let what = match (kept, before) {
        (true, false) => "is kept: nothing of it is pruned",
        (true, true) => "is kept already",
        (false, true) => "is no longer kept",
        (false, false) => "is not kept",
    };
    print_line(&format!("{} {what}", arguments.run));
    Ok(Exit::Done)
}
