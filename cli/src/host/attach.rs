//! Finding the host of a data root, or starting one.

use std::process::Child;
use std::time::{Duration, Instant};

use mosaic_data_root::{DataRoot, LockHeld, ProcessLock};
use mosaic_proto::broker::v1 as broker;
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
const LEAVE_LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(20);

/// Attaches to the live host of the configured data root; starts one in the background where none lives.
///
/// # Errors
/// When the host is another build or has another configuration and is not to be replaced, or does not start.
pub(crate) async fn attach(settings: &Settings) -> Result<Client, Failure> {
    let root = prepare_root(settings)?;
    let ours = Identity::of_this_process(&settings.config);
    let deadline = Instant::now() + START_LIMIT;
    let mut child: Option<Child> = None;
    loop {
        if let Some(host) = live_host(&root) {
            match ours.difference(&host.identity) {
                None => {
                    if let Some(client) = Client::connect(&root).await? {
                        return Ok(client);
                    }
                }
                Some(difference) => replace(&root, &host, difference).await?,
            }
        } else if child.is_none() && is_free(&root) {
            let spawned = background::spawn(&root, &settings.path);
            child = Some(spawned.map_err(|error| Failure::unreachable(format!("can't start a host: {error}")))?);
        }
        // A second command may have started one at the same time: then ours ends at once, and that one is attached to.
        if let Some(process) = &mut child
            && let Ok(Some(status)) = process.try_wait()
        {
            if !status.success() {
                let log = background::log_tail(&root.host_log());
                return Err(Failure::unreachable(format!("the host did not start:\n{log}")));
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

/// The host that lives now. A file that a killed one has left does not count.
#[must_use]
pub(crate) fn live_host(root: &DataRoot) -> Option<HostFile> {
    if is_free(root) { None } else { HostFile::read(root) }
}

fn is_free(root: &DataRoot) -> bool {
    !matches!(ProcessLock::acquire(&root.host_lock()), Err(LockHeld::By { .. }))
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
    ask_to_end(host);
    let deadline = Instant::now() + LEAVE_LIMIT;
    while !is_free(root) {
        if Instant::now() > deadline {
            return Err(Failure::unreachable(format!("the background host (process {}) does not end", host.pid)));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// The lock proved a moment ago that the process with this id is the host.
fn ask_to_end(host: &HostFile) {
    if let Ok(pid) = i32::try_from(host.pid)
        && let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM)
    {
        tracing::debug!(%error, "Could not ask the host to end");
    }
}

/// How many runs the host of a data root has not finished.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn unfinished(root: &DataRoot) -> Result<usize, Failure> {
    use broker::run::State;
    let Some(mut client) = Client::connect(root).await? else { return Ok(0) };
    let states = [State::Queued, State::Preparing, State::Running].map(i32::from).to_vec();
    let request = broker::ListRunsRequest { page_size: 200, page_token: String::new(), states };
    Ok(client.runs.list_runs(request).await?.into_inner().runs.len())
}
