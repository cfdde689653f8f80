use std::time::Duration;

use mosaic_data_root::{DataRoot, LockHeld};
use mosaic_lifecycle::{Lifecycle, error_chain, shut_down_on_signals};
use mosaic_proto::launcher::v1 as launcher;
use mosaic_telemetry::{LogFormat, Telemetry};

use crate::args::Up;
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::live_host;
use crate::host::{HostError, HostOptions, Kind, serve};
use crate::settings::{Settings, log_filter};

/// How often a background host that ends is looked at.
const POLL: Duration = Duration::from_millis(50);

pub(crate) async fn run(arguments: Up, settings: Settings) -> Outcome {
    let kind = if arguments.background { Kind::Background } else { Kind::Foreground };
    let telemetry = telemetry(&settings, kind)?;
    let shutdown = Lifecycle::new();
    let signals = shutdown.clone();
    tokio::spawn(async move {
        if let Err(error) = shut_down_on_signals(&signals).await {
            tracing::error!(%error, "Can't listen to signals");
        }
    });
    let served = loop {
        if kind == Kind::Foreground && shutdown.soft().run_until_cancelled(take_place(&settings)).await.is_none() {
            break Ok(());
        }
        let options = HostOptions {
            config: settings.config.clone(),
            kind,
            idle_exit: arguments.idle_exit,
            drain: arguments.drain,
        };
        let served = serve(options, &shutdown, |root| {
            if kind == Kind::Foreground {
                crate::say!("hosting {}; Ctrl-C ends it", root.path().display());
            }
        })
        .await;
        // A command may have started another background host in the meantime: its place is taken too.
        if kind == Kind::Background || !matches!(served, Err(HostError::Held(_))) || !background_lives(&settings) {
            break served;
        }
    };
    telemetry.flush().await;
    match served {
        Ok(()) => Ok(Exit::Done),
        // A command started a background host at the same time as another one did: that one serves both.
        Err(HostError::Held(LockHeld::By { .. })) if kind == Kind::Background => Ok(Exit::Done),
        Err(HostError::Held(LockHeld::By { pid })) => {
            let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            let message = format!("another host has this data root: process {pid}");
            Err(Failure::unreachable(message).hint("end it first; one data root has one host"))
        }
        Err(error) => Err(Failure::unreachable(error_chain(&error))),
    }
}

/// Takes the place of a background host: it takes nothing more, and ends once what runs is over.
async fn take_place(settings: &Settings) {
    let Ok(root) = DataRoot::open(&settings.config.data_root) else { return };
    let mut said = false;
    while let Some(host) = live_host(&root).filter(|host| host.kind == Kind::Background) {
        // One that does not answer ends by itself just now.
        if let Ok(Some(mut client)) = Client::connect(&root).await
            && let Ok(response) = client.launches.hand_over(launcher::HandOverRequest {}).await
            && let runs @ 1.. = response.into_inner().runs_in_hand
            && !std::mem::replace(&mut said, true)
        {
            crate::say!("waiting for {runs} run(s) of the background host, process {}", host.pid);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn background_lives(settings: &Settings) -> bool {
    let root = DataRoot::open(&settings.config.data_root).ok();
    root.and_then(|root| live_host(&root)).is_some_and(|host| host.kind == Kind::Background)
}

/// A host writes its log: JSON into the file of a background one, text for whoever watches `mosaic up`.
fn telemetry(settings: &Settings, kind: Kind) -> Result<Telemetry, Failure> {
    let options = mosaic_telemetry::Options {
        service_name: "mosaic".to_owned(),
        otlp_endpoint: settings.otlp_endpoint(),
        log_format: match (kind, DataRoot::open(&settings.config.data_root)) {
            (Kind::Foreground, _) => LogFormat::Text,
            (Kind::Background, Ok(root)) => LogFormat::Rotating(root.host_log()),
            (Kind::Background, Err(_not_there_yet)) => LogFormat::Json,
        },
        log_filter: log_filter().unwrap_or_else(|| "info".to_owned()),
    };
    Telemetry::init(&options).map_err(|error| Failure::usage(error.to_string()))
}
