//! The sandbox as bubblewrap is told to make it. [`arguments`] is the whole of it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use mosaic_shim::protocol::Identity;

use super::plan::{Places, Plan};

/// Where the shim is inside.
const SHIM: &str = "/opt/mosaic/shim";

/// Shared memory of a sandbox at most, in bytes; it comes on top of the temporary files.
const SHARED_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// Directories beside /usr that hold programs and libraries.
const SYSTEM_DIRECTORIES: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The files of the host's /etc that are seen inside: how libraries are found, which of several programs a name means,
/// whom TLS trusts, and what time it is.
const ETC: [&str; 7] = [
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// One of the host's directories of programs and libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SystemPath {
    /// A directory of its own.
    Directory(PathBuf),
    /// A link, on most hosts to a directory in /usr.
    Link {
        /// The link.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
}

/// What the host's system looks like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Directories of programs and libraries beside /usr.
    pub(crate) paths: Vec<SystemPath>,
    /// Those of the known files of /etc that exist.
    pub(crate) etc: Vec<PathBuf>,
}

impl System {
    /// Looks at the host.
    pub(crate) fn look() -> Self {
        let system_path = |path: &Path| match std::fs::read_link(path) {
            Ok(target) => Some(SystemPath::Link { path: path.into(), target }),
            Err(_) if path.is_dir() => Some(SystemPath::Directory(path.into())),
            Err(_) => None,
        };
        Self {
            paths: SYSTEM_DIRECTORIES.iter().filter_map(|path| system_path(Path::new(path))).collect(),
            etc: ETC.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
        }
    }
}

/// Descriptors that bubblewrap and the shim are given, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The shim's control socket.
    pub(crate) control: i32,
    /// Where bubblewrap says which process is the first inside.
    pub(crate) status: i32,
    /// Programs of the system call filter.
    pub(crate) filters: Vec<i32>,
    /// Generated files, with their paths inside.
    pub(crate) files: Vec<(&'static str, i32)>,
}

/// Contents of the generated files, with their paths inside.
pub(crate) fn generated_files(uid: u32, gid: u32) -> Vec<(&'static str, String)> {
    vec![
        ("/etc/passwd", format!("agent:x:{uid}:{gid}:agent:/var/lib/mosaic/state/home:/bin/sh\n")),
        ("/etc/group", format!("agent:x:{gid}:\n")),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
        ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
    ]
}

/// Everything that bubblewrap is told, as a pure function: this is the place to review.
///
/// With an identity to switch to, the services run as root: then there is no user namespace, which would map the
/// sandbox's uid to the real root, and the shim keeps the two capabilities that it needs to become somebody else. Without
/// one, a user namespace gives the right to make the others, and maps nothing but the own uid.
pub(crate) fn arguments(plan: &Plan, system: &System, descriptors: &Descriptors) -> Vec<OsString> {
    let mut list = Arguments::default();
    list.namespaces(plan.identity);
    list.root(system);
    for (path, descriptor) in &descriptors.files {
        list.directories_above(Path::new(path));
        list.add(&["--perms", "0444", "--file", &descriptor.to_string(), path]);
    }
    list.mounts(plan);
    for filter in &descriptors.filters {
        list.add(&["--add-seccomp-fd", &filter.to_string()]);
    }
    list.add(&["--json-status-fd", &descriptors.status.to_string()]);
    list.add(&["--remount-ro", "/", "--chdir", "/", "--"]);
    list.add(&[SHIM, mosaic_shim::COMMAND, &descriptors.control.to_string()]);
    list.list
}

#[derive(Default)]
struct Arguments {
    list: Vec<OsString>,
    directories: BTreeSet<PathBuf>,
}

impl Arguments {
    fn add(&mut self, arguments: &[&str]) {
        self.list.extend(arguments.iter().map(OsString::from));
    }

    fn mount(&mut self, option: &str, source: &Path, target: &Path) {
        self.directories_above(target);
        self.list.extend([option.into(), source.into(), target.into()]);
    }

    /// Makes the directories on the way to `target`, which bubblewrap by itself makes for root only.
    fn directories_above(&mut self, target: &Path) {
        let above: Vec<PathBuf> =
            target.ancestors().skip(1).filter(|path| path.parent().is_some()).map(Into::into).collect();
        for directory in above.into_iter().rev() {
            if self.directories.insert(directory.clone()) {
                self.add(&["--perms", "0755"]);
                self.list.extend(["--dir".into(), directory.into()]);
            }
        }
    }

    fn namespaces(&mut self, identity: Option<Identity>) {
        self.add(&["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        self.add(&["--new-session", "--die-with-parent", "--as-pid-1", "--clearenv", "--hostname", "mosaic"]);
        match identity {
            Some(_) => self.add(&["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]),
            None => self.add(&["--unshare-user"]),
        }
    }

    fn root(&mut self, system: &System) {
        self.mount("--ro-bind", Path::new("/usr"), Path::new("/usr"));
        for path in &system.paths {
            match path {
                SystemPath::Directory(path) => self.mount("--ro-bind", path, path),
                SystemPath::Link { path, target } => self.mount("--symlink", target, path),
            }
        }
        for path in &system.etc {
            self.mount("--ro-bind", path, path);
        }
        self.add(&["--proc", "/proc", "--dev", "/dev"]);
    }

    fn mounts(&mut self, plan: &Plan) {
        let temporary = plan.limits.temporary_bytes;
        let shared = temporary.min(SHARED_MEMORY_BYTES);
        self.add(&["--perms", "1777", "--size", &shared.to_string(), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
        self.add(&["--perms", "1777", "--size", &temporary.to_string(), "--tmpfs", "/tmp"]);
        let places = Places::contained(plan);
        self.mount("--ro-bind", &plan.shim, Path::new(SHIM));
        self.mount("--ro-bind", &plan.adapter_dir, Path::new(&places.adapter_dir));
        for name in &plan.documents {
            self.mount("--ro-bind", &plan.bundle.join(name), &Path::new(&places.bundle).join(name));
        }
        self.mount("--bind", &plan.state, Path::new(&places.state));
        if let (Some(source), Some(target)) = (&plan.workspace, &places.workspace) {
            self.mount("--bind", source, Path::new(target));
        }
        if let (Some(source), Some(target)) = (&plan.session, &places.session) {
            self.mount("--bind", source, Path::new(target));
        }
    }
}

/// A file in memory that holds `content` and is read from its beginning.
pub(crate) fn memory_file(name: &std::ffi::CStr, content: &[u8]) -> std::io::Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::{Whence, lseek, write};
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = write(file.as_fd(), rest)?;
        rest = &rest[written..];
    }
    lseek(file.as_fd(), 0, Whence::SeekSet)?;
    debug_assert!(file.as_raw_fd() > 2, "the standard descriptors are open");
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(identity: Option<Identity>) -> Plan {
        Plan {
            name: "r-1-nonce".to_owned(),
            shim: "/data/state/shim/abc".into(),
            adapter: "pi".parse().expect("a name"),
            adapter_dir: "/data/runs/r-1/bundle/adapter".into(),
            bundle: "/data/runs/r-1/bundle".into(),
            documents: vec!["request.txt".to_owned(), "system-prompt.md".to_owned()],
            workspace: Some("/data/workspaces/site".into()),
            session: Some("/data/sessions/s".into()),
            state: "/data/runs/r-1/private".into(),
            limits: mosaic_record::Limits::default(),
            identity,
        }
    }

    fn shown(plan: &Plan) -> String {
        let system = System {
            paths: vec![
                SystemPath::Link { path: "/bin".into(), target: "usr/bin".into() },
                SystemPath::Directory("/lib64".into()),
            ],
            etc: vec!["/etc/ld.so.cache".into()],
        };
        let descriptors =
            Descriptors { control: 10, status: 11, filters: vec![12, 13], files: vec![("/etc/passwd", 14)] };
        let mut text = String::new();
        for argument in arguments(plan, &system, &descriptors) {
            let argument = argument.to_str().expect("utf-8");
            text.push_str(if argument.starts_with("--") && !text.is_empty() { "\n" } else { " " });
            text.push_str(argument);
        }
        format!("{}\n", text.trim())
    }

    /// The security review: a change of these files is a change of the containment.
    #[test]
    fn the_sandbox_is_the_one_that_was_reviewed() {
        insta::assert_snapshot!("as-root", shown(&plan(Some(Identity { uid: 65532, gid: 65532 }))));
        insta::assert_snapshot!("as-user", shown(&plan(None)));
    }

    #[test]
    fn nothing_that_is_absent_is_mounted() {
        let bare = Plan { workspace: None, session: None, ..plan(None) };
        let text = shown(&bare);
        assert!(!text.contains("/var/lib/mosaic/workspace") && !text.contains("/var/lib/mosaic/session"), "{text}");
    }
}
