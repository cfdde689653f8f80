use std::time::Duration;

use mosaic_data_root::{DataRoot, LockHeld};
use mosaic_lifecycle::{Lifecycle, shut_down_on_signals};
use mosaic_telemetry::{LogFormat, Telemetry};

use super::flush;
use crate::args::Up;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::{leave, live_host, unfinished};
use crate::host::{HostError, HostOptions, Kind, serve};
use crate::settings::{Settings, log_filter};

/// How often a busy background host is looked at.
const POLL: Duration = Duration::from_millis(500);

pub(crate) async fn run(arguments: Up, settings: Settings) -> Outcome {
    let kind = if arguments.background { Kind::Background } else { Kind::Foreground };
    let telemetry = telemetry(&settings, kind)?;
    if kind == Kind::Foreground {
        take_place(&settings).await?;
    }
    let shutdown = Lifecycle::new();
    let signals = shutdown.clone();
    tokio::spawn(async move {
        if let Err(error) = shut_down_on_signals(&signals).await {
            tracing::error!(%error, "Can't listen to signals");
        }
    });
    let options =
        HostOptions { config: settings.config.clone(), kind, idle_exit: arguments.idle_exit, drain: arguments.drain };
    let served = serve(options, &shutdown, |root| {
        if kind == Kind::Foreground {
            crate::say!("hosting {}; Ctrl-C ends it", root.path().display());
        }
    })
    .await;
    flush(telemetry).await;
    match served {
        Ok(()) => Ok(Exit::Done),
        // A command started a background host at the same time as another one did: that one serves both.
        Err(HostError::Held(LockHeld::By { .. })) if kind == Kind::Background => Ok(Exit::Done),
        Err(HostError::Held(LockHeld::By { pid })) => {
            let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            let message = format!("another host has this data root: process {pid}");
            Err(Failure::unreachable(message).hint("end it first; one data root has one host"))
        }
        Err(error) => Err(Failure::unreachable(chain(&error))),
    }
}

/// Takes the place of a background host, once its runs are over.
async fn take_place(settings: &Settings) -> Result<(), Failure> {
    let Ok(root) = DataRoot::open(&settings.config.data_root) else { return Ok(()) };
    let mut said = false;
    while let Some(host) = live_host(&root).filter(|host| host.kind == Kind::Background) {
        match unfinished(&root).await {
            Ok(0) => return leave(&root, &host).await,
            Ok(runs) if !said => {
                crate::say!("waiting for {runs} run(s) of the background host, process {}", host.pid);
                said = true;
            }
            // It ends by itself just now.
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// A host writes its log: JSON into the file of a background one, text for whoever watches `mosaic up`.
fn telemetry(settings: &Settings, kind: Kind) -> Result<Telemetry, Failure> {
    let options = mosaic_telemetry::Options {
        service_name: "mosaic".to_owned(),
        otlp_endpoint: settings.otlp_endpoint(),
        log_format: if kind == Kind::Background { LogFormat::Json } else { LogFormat::Text },
        log_filter: log_filter().unwrap_or_else(|| "info".to_owned()),
    };
    Telemetry::init(&options).map_err(|error| Failure::usage(error.to_string()))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
