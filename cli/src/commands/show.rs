use super::print_line;
use super::run::record;
use crate::args::Show;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;
use crate::view::record::details;

pub(crate) async fn run(arguments: &Show, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let record = record(&mut client, &arguments.run).await?;
    if arguments.json {
        print_line(&serde_json::to_string(&record).expect("a record serializes"));
    } else {
        print_line(details(&record).trim_end());
    }
    Ok(Exit::Done)
}
