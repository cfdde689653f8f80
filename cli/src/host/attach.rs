//! Finding the host of a data root, or starting one.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use mosaic_data_root::{DataRoot, ProcessLock, Service};
use mosaic_proto::launcher::v1::GetStatusResponse;
use mosaic_rpc::Reason;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::background;
use super::{HostFile, Identity, Kind};
use crate::client::Client;
use crate::exit::Failure;
use crate::settings::Settings;

/// How long a host may take to start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long an idle background host may take to make room.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
/// How long the successor of a host that has ended is waited for, before one is started.
const SUCCESSOR_LIMIT: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(20);

/// Which hosts a command can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// One of the same build with the same configuration: it decides what runs, and how.
    Same,
    /// Any: what is recorded, and what runs, is the same whoever hosts it.
    Any,
}

/// Attaches to the live host of the configured data root; starts one in the background where none lives.
///
/// # Errors
/// When the host is another build or has another configuration and is not to be replaced, or does not start.
pub(crate) async fn attach(settings: &Settings) -> Result<Client, Failure> {
    attach_to(settings, Match::Same).await
}

/// Attaches to whatever host lives, to look at what it has or to stop it; starts one where none lives.
///
/// # Errors
/// When it does not answer, or does not start.
pub(crate) async fn attach_any(settings: &Settings) -> Result<Client, Failure> {
    attach_to(settings, Match::Any).await
}

async fn attach_to(settings: &Settings, which: Match) -> Result<Client, Failure> {
    let root = prepare_root(settings)?;
    let ours = Identity::of_this_process(&settings.config);
    let mut deadline = Instant::now() + START_LIMIT;
    let (mut child, mut said, mut spawn_from): (Option<Child>, bool, Instant) = (None, false, Instant::now());
    loop {
        if let Some(host) = live_host(&root) {
            match ours.difference(&host.identity).filter(|_| which == Match::Same) {
                None => {
                    if let Some((client, status)) = connect(&root).await? {
                        // One that ends launches nothing: its successor will, once what runs is over.
                        if which == Match::Any || !status.ending {
                            return Ok(client);
                        }
                        if !std::mem::replace(&mut said, true) {
                            let (pid, runs) = (host.pid, status.runs_in_hand);
                            crate::say!("waiting for {runs} run(s) of the host that ends, process {pid}");
                        }
                        deadline = Instant::now() + START_LIMIT;
                        spawn_from = Instant::now() + SUCCESSOR_LIMIT;
                    }
                }
                Some(difference) => replace(&root, &host, &difference).await?,
            }
        } else if is_free(&root) && launcher_lives(&root) {
            // Services in processes of their own: the launcher decides by its own configuration.
            if let Some(client) = Client::connect(&root).await? {
                return Ok(client);
            }
        } else if child.is_none() && Instant::now() >= spawn_from && is_free(&root) {
            let spawned = background::spawn(&root, &settings.path);
            child = Some(spawned.map_err(|error| {
                let log = root.host_log().display().to_string();
                Failure::unreachable(format!("can't start a host with the log `{log}`: {error}"))
            })?);
        }
        // A second command may have started one at the same time: then ours ends at once, and that one is attached to.
        if let Some(process) = &mut child
            && let Ok(Some(status)) = process.try_wait()
        {
            // One that somebody killed could have started: another one is started in its place.
            if !status.success() && status.signal() != Some(Signal::SIGKILL as i32) {
                return Err(Failure::unreachable(background::last_words(&root.host_log())));
            }
            child = None;
        }
        if Instant::now() > deadline {
            let log = root.host_log().display().to_string();
            return Err(Failure::unreachable("the host does not answer").hint(format!("its log is `{log}`")));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Connects to a host, and asks what it has in hand; `None` when it does not answer, or has gone in the meantime.
async fn connect(root: &DataRoot) -> Result<Option<(Client, GetStatusResponse)>, Failure> {
    let Some(mut client) = Client::connect(root).await? else { return Ok(None) };
    match client.status().await {
        Ok(status) => Ok(Some((client, status))),
        Err(error) if error.reason == Reason::Unavailable => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The data root of the configuration, made when it is missing.
fn prepare_root(settings: &Settings) -> Result<DataRoot, Failure> {
    let path = &settings.config.data_root;
    DataRoot::create_or_open(path).map_err(|error| {
        let mut message = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            message = format!("{message}: {source}");
        }
        Failure::rejected(format!("{}: dataRoot: {message}", settings.path.display()))
    })
}

/// The host that lives now: its file counts only while the process that it names holds the lock.
#[must_use]
pub(crate) fn live_host(root: &DataRoot) -> Option<HostFile> {
    let holder = ProcessLock::holder(&root.host_lock())?;
    HostFile::read(root).filter(|host| Some(host.pid) == holder.pid)
}

/// True where the launcher works in a process of its own, with or without the services that it needs.
fn launcher_lives(root: &DataRoot) -> bool {
    ProcessLock::holder(&root.lock(Service::Launcher)).is_some()
}

fn is_free(root: &DataRoot) -> bool {
    ProcessLock::holder(&root.host_lock()).is_none()
}

/// Makes an idle background host leave.
async fn replace(root: &DataRoot, host: &HostFile, difference: &str) -> Result<(), Failure> {
    let refused = |why: &str| {
        let message = format!("the host of this data root (process {}) has {difference}, and {why}", host.pid);
        Failure::unreachable(message)
    };
    if host.kind == Kind::Foreground {
        return Err(refused("was started by `mosaic up`").hint("end it and start it again"));
    }
    if unfinished(root).await? > 0 {
        return Err(refused("has unfinished runs").hint("wait for them, or end them with `mosaic stop RUN`"));
    }
    leave(root, host).await
}

/// Asks a host to end and waits until its data root is free.
///
/// # Errors
/// When it does not end in time.
pub(crate) async fn leave(root: &DataRoot, host: &HostFile) -> Result<(), Failure> {
    let deadline = Instant::now() + LEAVE_LIMIT;
    // Looked at once more, so that a process that has got the id meanwhile is not asked.
    if live_host(root).as_ref() == Some(host)
        && let Ok(pid) = i32::try_from(host.pid)
        && let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM)
    {
        tracing::debug!(%error, "Could not ask the host to end");
    }
    while !is_free(root) {
        if Instant::now() > deadline {
            return Err(Failure::unreachable(format!("the background host (process {}) does not end", host.pid)));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// How many runs the host of a data root has in hand.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn unfinished(root: &DataRoot) -> Result<i64, Failure> {
    match Client::connect(root).await? {
        Some(mut client) => Ok(client.status().await?.runs_in_hand),
        None => Err(Failure::unreachable("the host does not answer")),
    }
}
