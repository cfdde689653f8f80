//! The box that a program looks at a clone in, and writes to it: it sees what it is shown and nothing else, and has no
//! network.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};

use super::process::{Bounds, Failed, Input, Output, limited, run};

/// What contains a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Containment {
    /// Namespaces, made by the program bubblewrap at this path.
    Bubblewrap(PathBuf),
    /// The kernel's Landlock, where namespaces can't be made.
    Landlock,
}

/// A directory that is shown in a box.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// Where it is.
    pub(crate) host: &'a Path,
    /// Where it is seen, where the box has names of its own.
    pub(crate) inside: &'a str,
    /// Whether it may be written to.
    pub(crate) writable: bool,
}

/// Directories of the system that programs need to run.
const SYSTEM: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib64", "/lib32"];
/// Where the dynamic linker finds libraries.
const LINKER_CACHE: &str = "/etc/ld.so.cache";
/// What has been in Landlock since Linux 6.7: files, their truncation, moves between directories, and TCP.
const LANDLOCK: ABI = ABI::V4;

/// A box.
#[derive(Debug)]
pub(crate) struct Boxed<'a> {
    /// What makes it.
    pub(crate) containment: &'a Containment,
    /// Uid that the program runs under.
    pub(crate) owner: u32,
    /// What is shown in it.
    pub(crate) shown: &'a [Shown<'a>],
    /// The program; one outside of the system's directories is shown with its installation.
    pub(crate) program: &'a Path,
    /// Another program that it starts.
    pub(crate) also: Option<&'a Path>,
}

impl Containment {
    /// The strongest that works here for programs that run under `owner`: bubblewrap at this path, else Landlock.
    #[must_use]
    pub fn detect(bubblewrap: &Path, owner: u32) -> Option<Self> {
        let works = |containment: &Self| {
            let boxed = Boxed { containment, owner, shown: &[], program: Path::new("/usr/bin/true"), also: None };
            let bounds = Bounds { time: std::time::Duration::from_secs(10), output: 64 };
            boxed.run(&[], &[], b"".into(), bounds).is_ok()
        };
        [Self::Bubblewrap(bubblewrap.to_owned()), Self::Landlock].into_iter().find(works)
    }

    /// The name under which a program in a box finds what is shown.
    pub(crate) fn path_of<'s>(&self, shown: &Shown<'s>) -> Cow<'s, str> {
        match self {
            Self::Bubblewrap(_) => Cow::Borrowed(shown.inside),
            Self::Landlock => shown.host.to_string_lossy(),
        }
    }
}

impl Boxed<'_> {
    /// Runs the program with these variables and arguments in the box.
    ///
    /// # Errors
    /// When it fails, or the box can't be made.
    pub(crate) fn run(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        input: Input<'_>,
        bounds: Bounds,
    ) -> Result<Output, Failed> {
        self.run_holding(variables, arguments, input, bounds, None)
    }

    /// The same; the program holds a file as [`run`] says.
    ///
    /// # Errors
    /// When it fails, or the box can't be made.
    pub(crate) fn run_holding(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
        input: Input<'_>,
        bounds: Bounds,
        held: Option<File>,
    ) -> Result<Output, Failed> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        match self.containment {
            Containment::Bubblewrap(bubblewrap) => {
                let mut command = limited(&bubblewrap.to_string_lossy());
                command.args(self.bubblewrap_arguments(variables)).args(arguments);
                run(command, &name, input, bounds, held)
            }
            Containment::Landlock => {
                let mut command = self.landlock_command();
                command.envs(variables.iter().copied()).args(arguments);
                // A thread is restricted for good, and so is what it starts; this one ends with the program.
                let restricted = std::thread::scope(|threads| {
                    let thread = threads.spawn(|| {
                        self.restrict().map_err(|error| Failed::Start {
                            program: name.to_string(),
                            source: std::io::Error::other(error),
                        })?;
                        run(command, &name, input, bounds, held)
                    });
                    thread.join()
                });
                restricted.unwrap_or_else(|_panicked| {
                    let source = std::io::Error::other("the thread that runs it panicked");
                    Err(Failed::Start { program: name.to_string(), source })
                })
            }
        }
    }

    fn bubblewrap_arguments(&self, variables: &[(&str, &str)]) -> Vec<OsString> {
        let is_root = nix::unistd::geteuid().is_root();
        let mut line: Vec<OsString> = Vec::new();
        let mut add = |parts: &[&str]| line.extend(parts.iter().map(OsString::from));
        add(&["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        add(&["--new-session", "--die-with-parent", "--clearenv", "--hostname", "checkout", "--cap-drop", "ALL"]);
        if is_root {
            // No map of uids: it would give the program root's files. It changes to its uid by itself instead.
            add(&["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]);
        } else {
            add(&["--unshare-user"]);
        }
        add(&["--ro-bind", "/usr", "/usr"]);
        for directory in SYSTEM {
            match std::fs::read_link(directory) {
                Ok(target) => add(&["--symlink", &target.to_string_lossy(), directory]),
                Err(_no_link) => add(&["--ro-bind-try", directory, directory]),
            }
        }
        add(&["--ro-bind-try", LINKER_CACHE, LINKER_CACHE, "--dev", "/dev", "--size", "67108864", "--tmpfs", "/tmp"]);
        for prefix in self.foreign_prefixes() {
            let prefix = prefix.to_string_lossy();
            add(&["--ro-bind", &prefix, &prefix]);
        }
        for (name, value) in variables {
            add(&["--setenv", name, value]);
        }
        for shown in self.shown {
            line.push(if shown.writable { "--bind" } else { "--ro-bind" }.into());
            line.push(shown.host.into());
            line.push(shown.inside.into());
        }
        let mut add = |parts: &[&str]| line.extend(parts.iter().map(OsString::from));
        add(&["--remount-ro", "/", "--chdir", "/", "--"]);
        if is_root {
            let owner = self.owner.to_string();
            add(&["/usr/bin/setpriv", "--reuid", &owner, "--regid", &owner, "--clear-groups", "--inh-caps=-all"]);
            add(&["--no-new-privs", "--"]);
        }
        line.push(self.program.into());
        line
    }

    /// As root, the program changes to its uid and keeps one capability: to pass through the private directories that lead
    /// to what it is shown. Landlock bounds what it reaches by that.
    fn landlock_command(&self) -> Command {
        let mut command = limited("/usr/bin/setpriv");
        // Nothing goes on when the host is killed.
        command.args(["--pdeathsig", "KILL"]);
        if !nix::unistd::geteuid().is_root() {
            command.args(["--no-new-privs", "--"]).arg(self.program);
            return command;
        }
        let owner = self.owner.to_string();
        command.args(["--reuid", &owner, "--regid", &owner, "--clear-groups", "--no-new-privs"]);
        command.args(["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]);
        // Without that bit, access(2) would not count the capability.
        command.args(["--bounding-set=-all,+dac_read_search", "--securebits=+no_setuid_fixup", "--"]).arg(self.program);
        command
    }

    /// Restricts this thread, and what it starts from now on, to the system's programs and what is shown.
    fn restrict(&self) -> Result<(), String> {
        let said = |error: landlock::RulesetError| error.to_string();
        let mut readable: Vec<&Path> = ["/usr", LINKER_CACHE].iter().chain(&SYSTEM).map(Path::new).collect();
        readable.extend(self.foreign_prefixes());
        readable.extend(self.shown.iter().filter(|shown| !shown.writable).map(|shown| shown.host));
        let writable = self.shown.iter().filter(|shown| shown.writable).map(|shown| shown.host);
        let writable: Vec<&Path> = writable.chain([Path::new("/dev/null")]).collect();
        readable.extend(["/dev/random", "/dev/urandom", "/dev/zero"].map(Path::new));
        let status = Ruleset::default()
            // Less than this would not hold a program.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(LANDLOCK))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
            .and_then(Ruleset::create)
            .map(|rules| rules.set_compatibility(CompatLevel::BestEffort))
            .and_then(|rules| rules.add_rules(path_beneath_rules(readable, AccessFs::from_read(LANDLOCK))))
            .and_then(|rules| rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(LANDLOCK))))
            .and_then(landlock::RulesetCreated::restrict_self)
            .map_err(said)?;
        match status.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
            RulesetStatus::NotEnforced => Err("the kernel has no Landlock".to_owned()),
        }
    }

    /// Where programs that the system's directories don't hold are installed.
    fn foreign_prefixes(&self) -> impl Iterator<Item = &Path> {
        let programs = [Some(self.program), self.also].into_iter().flatten();
        programs.filter(|program| !program.starts_with("/usr")).filter_map(|program| program.parent()?.parent())
    }
}
