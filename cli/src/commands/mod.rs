//! One module a command.

mod apply;
mod checkout;
mod completions;
mod config;
mod demo;
mod doctor;
mod keep;
mod ledger;
mod list;
mod patch;
mod prune;
mod reset;
mod run;
mod show;
mod stop;
mod up;
mod validate;
mod verify;
mod watch;

use std::process::ExitCode;

use mosaic_telemetry::{LogFormat, Telemetry};

use crate::args::{Arguments, Command};
use crate::exit::{Failure, Outcome};
use crate::settings::{Settings, log_filter};

/// Does what the command line says.
pub(crate) async fn run(arguments: Arguments) -> ExitCode {
    match dispatch(arguments).await {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

async fn dispatch(arguments: Arguments) -> Outcome {
    let flag = arguments.config.as_deref();
    match arguments.command {
        Command::Completions(arguments) => return completions::run(&arguments),
        Command::Checkout(command) => return checkout::run(command, flag),
        Command::Config(command) => return config::run(command, flag),
        Command::Doctor(arguments) => return doctor::run(&arguments, flag).await,
        Command::Demo(arguments) => return demo::run(arguments).await,
        Command::Up(arguments) => return up::run(arguments, Settings::load(flag)?).await,
        _ => {}
    }
    let settings = Settings::load(flag)?;
    let telemetry = init_telemetry(&settings, "mosaic", LogFormat::Text)?;
    let outcome = with_host(arguments.command, &settings).await;
    telemetry.flush().await;
    outcome
}

/// Commands that need a host.
async fn with_host(command: Command, settings: &Settings) -> Outcome {
    match command {
        Command::Run(arguments) => run::run(arguments, settings).await,
        Command::Retry(arguments) => run::retry(arguments, settings).await,
        Command::Watch(arguments) => watch::run(arguments, settings).await,
        Command::Show(arguments) => show::run(&arguments, settings).await,
        Command::Patch(arguments) => patch::run(&arguments, settings).await,
        Command::List(arguments) => list::run(arguments, settings).await,
        Command::Stop(arguments) => stop::run(&arguments, settings).await,
        Command::Validate(arguments) => validate::run(arguments, settings).await,
        Command::Verify(arguments) => verify::run(arguments, settings).await,
        Command::Reset(arguments) => reset::run(&arguments, settings).await,
        Command::Apply(arguments) => apply::run(&arguments, settings).await,
        Command::Keep(arguments) => keep::run(&arguments, settings).await,
        Command::Prune(arguments) => prune::run(&arguments, settings).await,
        Command::Ledger(arguments) => ledger::run(&arguments, settings).await,
        _ => Err(Failure::usage("this command needs no host")),
    }
}

/// Spans of this process, and log lines where somebody asked for some.
fn init_telemetry(settings: &Settings, name: &str, format: LogFormat) -> Result<Telemetry, Failure> {
    let filter = log_filter();
    let options = mosaic_telemetry::Options {
        service_name: name.to_owned(),
        otlp_endpoint: settings.otlp_endpoint(),
        log_format: if filter.is_some() { format } else { LogFormat::Off },
        log_filter: filter.unwrap_or_default(),
    };
    Telemetry::init(&options).map_err(|error| Failure::usage(error.to_string()))
}

/// Prints a line on standard output.
fn print_line(text: &str) {
    crate::tell!("{text}");
}
