use mosaic_proto::launcher::v1 as launcher;

use super::print_line;
use super::run::final_record;
use crate::args::Stop;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;

pub(crate) async fn run(arguments: &Stop, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let request = launcher::StopRequest { run_id: arguments.run.to_string() };
    let response = client.launches.stop(request).await?.into_inner();
    if response.already_terminal {
        print_line(&format!("{} is over already", arguments.run));
        return Ok(Exit::Done);
    }
    if response.unrecorded {
        crate::say!("the broker does not answer; that `{}` was stopped is recorded once it is back", arguments.run);
    }
    if arguments.wait {
        let record = final_record(settings, &arguments.run).await?;
        print_line(&format!("{} is {}", arguments.run, record.status));
    } else {
        print_line(&format!("stopping {}", arguments.run));
    }
    Ok(Exit::Done)
}
