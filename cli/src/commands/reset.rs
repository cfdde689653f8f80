//! `mosaic reset`: everything that Mosaic has put into its data root goes.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use mosaic_data_root::{DataRoot, LockHeld, ProcessLock, Service, remove_tree};

use super::print_line;
use crate::args::Reset;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::Kind;
use crate::host::attach::{attach_any, leave, live_host, unfinished};
use crate::settings::Settings;

pub(crate) async fn run(arguments: &Reset, settings: &Settings) -> Outcome {
    let root = named_root(&arguments.data_root, &settings.config.data_root)?;
    let content = Content::of(&root);
    print_line(&format!("{} holds {content}", root.path().display()));
    for name in &content.foreign {
        print_line(&format!("stays: {name}"));
    }
    if !arguments.yes && !confirmed()? {
        return Err(Failure::usage("nothing was removed"));
    }
    end_hosts(&root, settings).await?;
    let _locks = lock(&root)?;
    for directory in root.own_directories() {
        let removed = tokio::task::spawn_blocking({
            let directory = directory.clone();
            move || remove_tree(&directory)
        });
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(stuck(&directory, &error.to_string())),
            Err(panicked) => return Err(stuck(&directory, &panicked.to_string())),
        }
    }
    print_line(&format!("{} is empty", root.path().display()));
    Ok(Exit::Done)
}

fn stuck(directory: &Path, why: &str) -> Failure {
    let failure = Failure::usage(format!("can't remove `{}`: {why}", directory.display()));
    failure.hint("what was before it is gone; mend this and reset again")
}

/// The data root, when it is the configured one: a slip of the finger names no other directory.
fn named_root(named: &Path, configured: &Path) -> Result<DataRoot, Failure> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| Failure::usage(format!("can't read `{}`: {error}", path.display())))
    };
    if real(named)? != real(configured)? {
        let message = format!("`{}` is not the configured data root, `{}`", named.display(), configured.display());
        return Err(Failure::usage(message).hint("name the data root of the configuration, or another `--config`"));
    }
    let root = DataRoot::open(configured).map_err(|error| Failure::usage(error.to_string()))?;
    let uid = nix::unistd::geteuid().as_raw();
    if root.owner() != uid {
        let message = format!("`{}` belongs to uid {}, and this is uid {uid}", configured.display(), root.owner());
        return Err(Failure::usage(message).hint("reset it as its owner"));
    }
    Ok(root)
}

/// What is in a data root.
struct Content {
    runs: usize,
    workspaces: usize,
    sessions: usize,
    /// Not ours to remove.
    foreign: Vec<String>,
}

impl Content {
    fn of(root: &DataRoot) -> Self {
        let count = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
        let own = root.own_directories();
        let foreign = std::fs::read_dir(root.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut foreign: Vec<String> = foreign
            .filter(|path| !own.contains(path) && !root.is_marker(path))
            // Without a file in it, there is nothing of anybody's in there.
            .filter(|path| *path != root.adapters() || count(path) > 0)
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        foreign.sort();
        Self {
            runs: count(&root.runs()),
            workspaces: count(&root.workspaces()),
            sessions: count(&root.sessions()),
            foreign,
        }
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runs, workspaces, sessions, .. } = self;
        write!(f, "{runs} run(s), {workspaces} named workspace(s), {sessions} session(s), the ledger and the tokens")
    }
}

/// Asks at a terminal; elsewhere nobody can be asked.
fn confirmed() -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let failure = Failure::usage("nothing was removed: nobody can be asked, standard input is no terminal");
        return Err(failure.hint("`--yes` removes it without asking"));
    }
    crate::say!("all of it is removed for good; write `reset` to go on:");
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(|error| Failure::usage(format!("can't read the answer: {error}")))?;
    Ok(answer.trim() == "reset")
}

/// Ends an idle background host. Where none lives one is started first: it proves gone what a host that was killed has
/// left outside of the data root. One that can't start, over a damaged ledger for example, is in nobody's way.
async fn end_hosts(root: &DataRoot, settings: &Settings) -> Result<(), Failure> {
    if let Err(failure) = attach_any(settings).await {
        tracing::debug!(?failure, "No host answers");
    }
    let Some(host) = live_host(root) else { return Ok(()) };
    if host.kind == Kind::Foreground {
        let failure = Failure::unreachable(format!("`mosaic up` works on this data root: process {}", host.pid));
        return Err(failure.hint("end it first"));
    }
    let runs = unfinished(root).await?;
    if runs > 0 {
        let failure = Failure::unreachable(format!("{runs} run(s) are unfinished"));
        return Err(failure.hint("wait for them, or end them with `mosaic stop RUN`"));
    }
    leave(root, &host).await
}

/// Keeps every host and service away meanwhile.
fn lock(root: &DataRoot) -> Result<Vec<ProcessLock>, Failure> {
    let services = Service::ALL.into_iter().map(|service| root.lock(service));
    std::iter::once(root.host_lock())
        .chain(services)
        .map(|path| {
            ProcessLock::acquire(&path).map_err(|held| match held {
                LockHeld::By { .. } => {
                    let failure = Failure::unreachable(format!("`{}` is {held}", path.display()));
                    failure.hint("end that process first")
                }
                LockHeld::File(error) => Failure::usage(error.to_string()),
            })
        })
        .collect()
}
