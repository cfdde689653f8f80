//! A root, a clone of it that an agent works in, and what is taken out of it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mosaic_checkout::{
    About, Containment, HarvestLimits, HarvestRequest, Place, Recorded, Request, harvest, sync, tree_identity,
};
use mosaic_record::{Handoff, ProjectHarvest, Work};

/// Uid of the agent.
pub(crate) fn agent() -> u32 {
    if nix::unistd::geteuid().is_root() { 65_532 } else { nix::unistd::geteuid().as_raw() }
}

pub(crate) struct Bed {
    scratch: tempfile::TempDir,
    tip: Option<String>,
    pub(crate) limits: HarvestLimits,
}

impl Bed {
    /// A root with some files on `main`, and a clone.
    pub(crate) fn new() -> Self {
        Self::with(|root| {
            write(root, "README", "hello\n");
            write(root, "src/a.txt", "one\ntwo\nthree\n");
            write(root, "src/deep/b.txt", "b\n");
            write(root, "tool.sh", "#!/bin/sh\n");
            write(root, ".gitignore", "build/\n*.log\n");
        })
    }

    /// A root with what `fill` writes on `main`, and a clone.
    pub(crate) fn with(fill: impl FnOnce(&Path)) -> Self {
        let scratch = tempfile::tempdir().expect("scratch");
        let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        open(scratch.path());
        std::fs::create_dir(scratch.path().join("workspace")).expect("made");
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(scratch.path().join("workspace"), Some(agent()), Some(agent())).expect("owned");
        }
        let mut bed = Self { scratch, tip: None, limits: HarvestLimits { entries: 50_000, bytes: 256 * 1024 * 1024 } };
        std::fs::create_dir(bed.root()).expect("made");
        git(&bed.root(), &["init", "--quiet", "--initial-branch=main"]);
        fill(&bed.root());
        git(&bed.root(), &["add", "--all"]);
        git(&bed.root(), &["commit", "--quiet", "--message=first"]);
        bed.sync();
        bed
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    pub(crate) fn clone(&self) -> PathBuf {
        self.scratch.path().join("workspace/clone")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.scratch.path().join("out")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn containment() -> Containment {
        let bubblewrap = std::env::var_os("CHECKOUT_BWRAP").map_or_else(|| "/usr/bin/bwrap".into(), PathBuf::from);
        Containment::detect(&bubblewrap, agent()).expect("something contains git")
    }

    pub(crate) fn sync(&mut self) {
        let request = Request {
            clone: self.clone(),
            root: self.root(),
            branch: None,
            state: self.scratch.path().join("state"),
            git: git_path(),
            owner: agent(),
            containment: Some(Self::containment()),
        };
        self.tip = sync(&request).expect("synced").tip;
    }

    /// Runs a script as the agent, in the clone.
    pub(crate) fn agent(&self, script: &str) {
        self.agent_in(&self.clone(), script);
    }

    /// Runs a script as the agent, in the workspace.
    pub(crate) fn agent_in_workspace(&self, script: &str) {
        self.agent_in(&self.path("workspace"), script);
    }

    /// Gives the clone to `uid`.
    pub(crate) fn own(&self, uid: u32) {
        let status = Command::new("chown").args(["-hR", &format!("{uid}:{uid}")]).arg(self.clone()).status();
        assert!(status.expect("chown runs").success());
    }

    fn agent_in(&self, directory: &Path, script: &str) {
        let mut command = Command::new("setpriv");
        if nix::unistd::geteuid().is_root() {
            let uid = agent().to_string();
            command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        }
        command.args(["--no-new-privs", "--", "/bin/sh", "-euc", script]);
        identity(&mut command);
        let output = command.current_dir(directory).output().expect("ran");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn request(&self) -> HarvestRequest {
        HarvestRequest {
            clone: self.clone(),
            root: self.root(),
            state: self.scratch.path().join("state"),
            git: git_path(),
            owner: agent(),
            containment: Some(Self::containment()),
            tip: self.tip.clone(),
            out: self.out(),
            named: "harvest/site".to_owned(),
            about: About {
                run_id: "r-1".parse().expect("a run id"),
                project: "site".parse().expect("a name"),
                task_id: "task".parse().expect("a name"),
                requirement: Some("REQ-X-1".to_owned()),
                adapter: "scripted".parse().expect("a name"),
                model: Some("m".to_owned()),
                finished_at: jiff::Timestamp::from_second(1_700_000_000).expect("a time"),
            },
            limits: self.limits,
        }
    }

    /// What integration needs of the work.
    pub(crate) fn recorded(&self, work: &Work) -> (Place, Recorded) {
        let HarvestRequest { root, state, git, owner, containment, about, .. } = self.request();
        let Work { base, commit, tree, .. } = work.clone();
        let bundle = self.out().join("work.bundle");
        (Place { root, state, git, owner, containment }, Recorded { bundle, base, commit, tree, about })
    }

    pub(crate) fn harvest(&self) -> ProjectHarvest {
        harvest(&self.request())
    }

    pub(crate) fn tree(&self) -> Option<String> {
        tree_identity(&self.request())
    }

    /// The work, which must have been taken out.
    pub(crate) fn work(&self) -> (Work, Handoff) {
        let harvest = self.harvest();
        let work = harvest.work.unwrap_or_else(|| panic!("{:?} {:?}", harvest.failure, harvest.detail));
        let text = std::fs::read(self.out().join("handoff.json")).expect("written");
        (work, serde_json::from_slice(&text).expect("a handoff"))
    }

    /// A repository at the base of the work, with the bundle fetched.
    pub(crate) fn elsewhere(&self, work: &Work) -> PathBuf {
        let path = self.scratch.path().join("elsewhere");
        let _none = std::fs::remove_dir_all(&path);
        git(self.scratch.path(), &["clone", "--quiet", "root", "elsewhere"]);
        git(&path, &["checkout", "--quiet", "--detach", &work.base]);
        let bundle = self.out().join("work.bundle");
        let bundle = bundle.to_str().expect("text");
        git(&path, &["-c", "transfer.fsckObjects=true", "fetch", "--quiet", bundle, "+refs/agent/*:refs/agent/*"]);
        path
    }
}

/// The git under test: `CHECKOUT_GIT`, else Debian's.
pub(crate) fn git_path() -> PathBuf {
    std::env::var_os("CHECKOUT_GIT").map_or_else(|| "/usr/bin/git".into(), PathBuf::from)
}

fn identity(command: &mut Command) {
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
    for (name, value) in [("NAME", "A"), ("EMAIL", "a@example.org")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
}

/// Runs git as a person would, and returns what it wrote without the line's end.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(git_path());
    identity(&mut command);
    let output = command.current_dir(directory).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub(crate) fn write(top: &Path, path: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
    let path = top.join(path.as_ref());
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    std::fs::write(path, content).expect("written");
}

/// Everything of a directory but access times, as text.
pub(crate) fn state_of(directory: &Path) -> String {
    let listed = Command::new("find").arg(directory).args(["-printf", "%P %y %m %s %T@ %C@ %l\\n"]).output();
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&listed.expect("find runs").stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}
