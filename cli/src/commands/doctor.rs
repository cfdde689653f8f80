//! What this machine offers, and how to mend what it lacks.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use mosaic_record::{Backend, Enforcement};
use mosaic_runner::probe;
use nix::unistd::AccessFlags;

use super::print_line;
use crate::args::Doctor;
use crate::exit::{Exit, Outcome};
use crate::settings::Settings;

/// Less free space than this is worth a warning, in bytes.
const LOW_DISK: u64 = 2 * 1024 * 1024 * 1024;
/// A machine whose clock is before this has none that runs.
const EARLIEST: &str = "2026-01-01T00:00:00Z";
/// How long a program may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it should be.
    Ok,
    /// Works, with less.
    Warning,
    /// Nothing can run.
    Missing,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    hint: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { name, state, found: found.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

pub(crate) async fn run(arguments: &Doctor, flag: Option<&Path>) -> Outcome {
    let settings = Settings::load(flag).ok();
    let mut checks = vec![configuration(settings.as_ref())];
    checks.push(version("git", State::Missing, "install it, for example `apt-get install git`").await);
    let needed = settings.as_ref().is_none_or(|settings| settings.config.execution.backend == Backend::Bubblewrap);
    let host = tokio::task::spawn_blocking(probe::host).await;
    if let Ok(host) = host {
        checks.push(bubblewrap(&host, needed));
        checks.push(user_namespaces(&host));
        checks.push(cgroups(&host));
    }
    checks.push(
        version("docker", State::Warning, "only the backend `docker` needs it, which is not in this build").await,
    );
    checks.push(clock());
    if let Some(settings) = &settings {
        checks.push(disk(&settings.config.data_root));
        checks.push(permissions(&settings.config.data_root));
    }
    for check in &checks {
        print_line(&if arguments.json { json(check) } else { text(check) });
    }
    let usable = checks.iter().all(|check| check.state != State::Missing);
    Ok(if usable { Exit::Done } else { Exit::NotSucceeded })
}

fn text(check: &Check) -> String {
    let mut text = format!("{:<16} {:<8} {}", check.name, check.state.as_str(), check.found);
    if let Some(hint) = &check.hint {
        text.push_str(&format!("\n{:<25} hint: {hint}", ""));
    }
    text
}

fn json(check: &Check) -> String {
    let Check { name, state, found, hint } = check;
    serde_json::json!({ "check": name, "state": state.as_str(), "found": found, "hint": hint }).to_string()
}

fn configuration(settings: Option<&Settings>) -> Check {
    match settings {
        Some(settings) => Check::new("configuration", State::Ok, settings.path.display().to_string()),
        None => Check::new("configuration", State::Warning, "none that is valid").hint(
            "`mosaic config init` writes one; `mosaic config check` says what is wrong with the one that is there",
        ),
    }
}

/// Asks a program for its version.
async fn version(program: &'static str, otherwise: State, hint: &str) -> Check {
    let mut command = tokio::process::Command::new(program);
    let output = command.arg("--version").kill_on_drop(true).output();
    match tokio::time::timeout(VERSION_LIMIT, output).await {
        Ok(Ok(output)) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Check::new(program, State::Ok, text.lines().next().unwrap_or_default())
        }
        _ => Check::new(program, otherwise, "not found").hint(hint),
    }
}

fn bubblewrap(host: &probe::Host, needed: bool) -> Check {
    match &host.bubblewrap {
        Ok(version) => Check::new("bubblewrap", State::Ok, format!("{version}, makes sandboxes here")),
        Err(missing) => {
            let missing = missing.to_string();
            let (found, hint) = missing.split_once("\nhint: ").unwrap_or((&missing, "see docs/containment.md"));
            let state = if needed { State::Missing } else { State::Warning };
            Check::new("bubblewrap", state, found).hint(hint)
        }
    }
}

fn user_namespaces(host: &probe::Host) -> Check {
    const NAME: &str = "user namespaces";
    if nix::unistd::geteuid().is_root() {
        return Check::new(NAME, State::Ok, "not needed: the services run as root and drop to an unprivileged uid");
    }
    if host.bubblewrap.is_ok() {
        return Check::new(NAME, State::Ok, "available to this user");
    }
    let restriction = restrictions()
        .into_iter()
        .find(|(file, value, _)| std::fs::read_to_string(file).is_ok_and(|found| found.trim() == *value));
    match restriction {
        Some((file, value, mend)) => Check::new(NAME, State::Missing, format!("{file} is {value}")).hint(mend),
        None => Check::new(NAME, State::Warning, "no restriction that is known is in force"),
    }
}

/// What distributions restrict user namespaces by, and the very fix.
const fn restrictions() -> [(&'static str, &'static str, &'static str); 3] {
    [
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "Ubuntu: `printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) \
             {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`",
        ),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "Debian: `echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/90-userns.conf && sudo sysctl --system`",
        ),
        (
            "/proc/sys/user/max_user_namespaces",
            "0",
            "`echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/90-userns.conf && sudo sysctl --system`",
        ),
    ]
}

fn cgroups(host: &probe::Host) -> Check {
    let found =
        |(key, by): &(&str, Option<Enforcement>)| format!("{key} by {}", by.map_or("rlimits", Enforcement::as_str));
    let found = host.groups.iter().map(found).collect::<Vec<_>>().join(", ");
    if host.groups.iter().all(|(_, by)| by.is_some()) {
        return Check::new("cgroups", State::Ok, found);
    }
    Check::new("cgroups", State::Warning, found).hint(
        "for limits of a whole sandbox run the services as root, or start them with a delegated group: \
         `systemd-run --user --scope -p Delegate=yes mosaic up`",
    )
}

fn clock() -> Check {
    let now = jiff::Timestamp::now();
    let earliest: jiff::Timestamp = EARLIEST.parse().expect("a timestamp");
    if now < earliest {
        return Check::new("clock", State::Warning, now.to_string()).hint("the machine's clock is wrong; set it");
    }
    Check::new("clock", State::Ok, now.to_string())
}

fn disk(data_root: &Path) -> Check {
    let existing = data_root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match nix::sys::statvfs::statvfs(existing) {
        Ok(disk) => {
            let free = disk.blocks_available() * disk.fragment_size();
            let found = format!("{} GiB free for {}", free / (1024 * 1024 * 1024), data_root.display());
            let state = if free < LOW_DISK { State::Warning } else { State::Ok };
            Check::new("disk", state, found)
        }
        Err(error) => Check::new("disk", State::Warning, format!("{}: {error}", existing.display())),
    }
}

fn permissions(data_root: &Path) -> Check {
    const NAME: &str = "permissions";
    const HINT: &str = "name another `dataRoot`, or run this as its owner";
    if let Err(error) = mosaic_data_root::check_path(data_root) {
        return Check::new(NAME, State::Missing, error.to_string()).hint(HINT);
    }
    let uid = nix::unistd::geteuid().as_raw();
    let existing = data_root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let is_there = existing == data_root;
    if nix::unistd::access(existing, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        return Check::new(NAME, State::Missing, format!("uid {uid} may not write to `{}`", existing.display()))
            .hint(HINT);
    }
    if !is_there {
        return Check::new(NAME, State::Ok, "the data root is made with the first run");
    }
    let is_empty = std::fs::read_dir(data_root).is_ok_and(|mut entries| entries.next().is_none());
    match (mosaic_data_root::DataRoot::open(data_root), std::fs::metadata(data_root)) {
        (Err(error), _) if !is_empty => Check::new(NAME, State::Missing, error.to_string()).hint(HINT),
        (_, Ok(metadata)) if metadata.uid() != uid => {
            let found = format!("`{}` belongs to uid {}, this is uid {uid}", data_root.display(), metadata.uid());
            Check::new(NAME, State::Missing, found).hint(HINT)
        }
        _ => Check::new(NAME, State::Ok, "the data root is this user's own"),
    }
}
