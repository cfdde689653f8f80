//! An agent at work on a clone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::bed::{git, git_command, is_root};
use crate::check::Fingerprint;
use crate::roots::{Root, commit, write};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// One agent with its clone, and with what must be as it was once the host is done.
pub(crate) struct Agent<'a> {
    /// The clone.
    pub(crate) clone: PathBuf,
    /// The root that it is of.
    pub(crate) root: &'a Root,
    /// A directory that is none of the clone's.
    pub(crate) outside: PathBuf,
    /// Touched by whatever of the agent's gets executed.
    pub(crate) marker: PathBuf,
    /// Files of the clone that nothing may change.
    pub(crate) own: HashMap<String, Vec<u8>>,
    watched: Option<Fingerprint>,
}

impl<'a> Agent<'a> {
    pub(crate) fn begin(scratch: &Path, root: &'a Root) -> Self {
        let name = format!("c{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let clone = scratch.join("clones").join(&name);
        let copied = std::process::Command::new("cp").arg("-a").arg(&root.template).arg(&clone).status();
        assert!(copied.expect("cp runs").success());
        Self::at(scratch, root, clone)
    }

    /// An agent that was given a clone of `root`.
    pub(crate) fn at(scratch: &Path, root: &'a Root, clone: PathBuf) -> Self {
        let name = format!("a{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let outside = scratch.join("outside").join(&name);
        std::fs::create_dir(&outside).expect("created");
        let marker = scratch.join("markers").join(&name);
        Self { clone, root, outside, marker, own: HashMap::new(), watched: None }
    }

    /// The agent is done; its files belong to `owner` and its own git's traces don't count.
    pub(crate) fn end(&mut self, owner: u32) {
        let _its_own_git_ran_it = std::fs::remove_file(&self.marker);
        if is_root() && self.clone.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            give(&self.clone, owner, 0);
        }
        self.watched = Some(Fingerprint::of(&self.outside));
    }

    /// What happened that must never happen.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.marker.symlink_metadata().is_ok() {
            faults.push("EXECUTED".to_owned());
        }
        let before = self.watched.as_ref().expect("the agent is done");
        faults.extend(before.difference(&Fingerprint::of(&self.outside)).map(|at| format!("OUTSIDE CHANGED: {at}")));
        for (path, content) in &self.own {
            if std::fs::read(self.clone.join(path)).ok().as_ref() != Some(content) {
                faults.push(format!("LOST {path}"));
            }
        }
        faults
    }

    pub(crate) fn remove(&self) {
        for path in [&self.clone, &self.outside] {
            // Whatever can't be removed goes with the whole bed, or stays for the machine's own clean-up.
            let _removed = std::process::Command::new("rm").arg("-rf").arg(path).status();
        }
    }

    pub(crate) fn dot_git(&self) -> PathBuf {
        self.clone.join(".git")
    }

    /// Runs git in the clone, which must succeed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.root.home, &self.clone, arguments)
    }

    /// Runs git in the clone, whatever comes of it.
    pub(crate) fn try_git(&self, arguments: &[&str]) {
        let _whatever = git_command(&self.root.home, &self.clone).args(arguments).output().expect("git runs");
    }

    /// Runs git in the clone and returns all that it says.
    pub(crate) fn ask_git(&self, arguments: &[&str]) -> String {
        let output = git_command(&self.root.home, &self.clone).args(arguments).output().expect("git runs");
        [output.stdout, output.stderr].map(|words| String::from_utf8_lossy(&words).into_owned()).concat()
    }

    /// Runs git in the clone with something on its standard input.
    pub(crate) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        use std::io::Write as _;
        let mut command = git_command(&self.root.home, &self.clone);
        command.args(arguments).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("git runs");
        child.stdin.take().expect("a pipe").write_all(input).expect("written");
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Writes a file of the clone, and makes its directory.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.clone, path, content);
    }

    /// Writes such a file, which must be as it is afterwards whatever becomes of the clone.
    pub(crate) fn write_own(&mut self, path: &str, content: &str) {
        self.write(path, content);
        self.own.insert(path.to_owned(), content.into());
    }

    /// Writes a file with a name that is no text.
    pub(crate) fn write_bytes_name(&self, name: &[u8], content: &str) {
        std::fs::write(self.clone.join(OsStr::from_bytes(name)), content).expect("written");
    }

    pub(crate) fn append(&self, path: &str, content: &str) {
        let path = self.clone.join(path);
        let mut all = std::fs::read(&path).unwrap_or_default();
        all.extend_from_slice(content.as_bytes());
        std::fs::write(path, all).expect("written");
    }

    /// Appends to `.git/config`; `CMD` is a command that touches the marker.
    pub(crate) fn config(&self, text: &str) {
        self.append(".git/config", &text.replace("CMD", &self.command()));
    }

    pub(crate) fn remove_file(&self, path: &str) {
        std::fs::remove_file(self.clone.join(path)).expect("removed");
    }

    pub(crate) fn remove_all(&self, path: &str) {
        let path = self.clone.join(path);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            std::fs::remove_dir_all(path).expect("removed");
        } else {
            let _none = std::fs::remove_file(path);
        }
    }

    /// Puts a link in the place of whatever is at `path`.
    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        self.remove_all(path);
        let path = self.clone.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        symlink(target, path).expect("linked");
    }

    /// Puts a pipe in the place of whatever is at `path`.
    pub(crate) fn pipe(&self, path: &str) {
        self.remove_all(path);
        let path = self.clone.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
    }

    /// Grows a file to `size` bytes of nothing.
    pub(crate) fn grow(&self, path: &str, size: u64) {
        let path = self.clone.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opened");
        file.set_len(size).expect("a file with holes");
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.clone.join(path), std::fs::Permissions::from_mode(mode)).expect("set");
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        commit(&self.root.home, &self.clone, message)
    }

    /// A shell command that touches the marker.
    pub(crate) fn command(&self) -> String {
        format!("touch '{}'", self.marker.display())
    }

    /// An executable file that touches the marker.
    pub(crate) fn script(&self, path: &str) {
        self.write(path, format!("#!/bin/sh\n{}\nexit 0\n", self.command()));
        self.mode(path, 0o755);
    }

    /// A file outside of the clone.
    pub(crate) fn canary(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        write(&self.outside, name, content);
        self.outside.join(name)
    }

    /// A repository outside of the clone, with a commit that the root does not have.
    pub(crate) fn other_repository(&self) -> PathBuf {
        let path = self.outside.join("evil");
        let (from, to) = (self.clone.to_string_lossy(), path.to_string_lossy());
        git(&self.root.home, &self.outside, &["clone", "--quiet", "--no-hardlinks", &from, &to]);
        write(&path, "EVIL", "evil\n");
        commit(&self.root.home, &path, "evil");
        path
    }

    /// Makes all files of the work tree old, so that nothing in an index is racy and nothing in one fits.
    pub(crate) fn age(&self, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        for path in self.git(&["ls-files", "-z"]).split('\0').filter(|path| !path.is_empty()) {
            let path = self.clone.join(path);
            if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                std::fs::File::open(&path).and_then(|file| file.set_modified(then)).expect("set");
            }
        }
    }

    /// Stores `id` as the loose object that has the content of another, `source`.
    pub(crate) fn poison(&self, id: &str, source: &str) {
        let path = |id: &str| self.dot_git().join("objects").join(&id[..2]).join(&id[2..]);
        let content = std::fs::read(path(source)).expect("a loose object");
        let _none = std::fs::remove_file(path(id));
        std::fs::create_dir_all(path(id).parent().expect("a parent")).expect("created");
        std::fs::write(path(id), content).expect("written");
    }

    /// Turns all packs into loose objects.
    pub(crate) fn unpack(&self) {
        let packs = self.dot_git().join("objects/pack");
        let Ok(listing) = std::fs::read_dir(&packs) else { return };
        let found: Vec<PathBuf> = listing.map(|entry| entry.expect("an entry").path()).collect();
        let packed: Vec<Vec<u8>> = found
            .iter()
            .filter(|path| path.extension() == Some(OsStr::new("pack")))
            .map(|path| std::fs::read(path).expect("read"))
            .collect();
        found.iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
        for pack in packed {
            self.git_with(&["unpack-objects", "-q"], &pack);
        }
    }
}

/// Gives a tree to `owner`, as deep as an agent's honest tree is.
fn give(path: &Path, owner: u32, depth: usize) {
    lchown(path, Some(owner), Some(owner)).expect("given");
    let is_directory = path.symlink_metadata().expect("there").is_dir();
    if !is_directory || depth > 300 {
        return;
    }
    for entry in std::fs::read_dir(path).expect("read") {
        give(&entry.expect("an entry").path(), owner, depth + 1);
    }
}
