//! Taking one commit out of a bundle into a person's own repository, by their own git and under their own uid. Nothing of it is
//! written but objects and one new branch.

use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mosaic_checkout::parse::{ObjectId, bundle_header, is_branch_name};
use mosaic_checkout::{RESULT, locate};
use mosaic_ids::RunId;
use mosaic_proto::launcher::v1::IntegratedWork;

use crate::exit::Failure;
use crate::settings::Settings;
use crate::view::text::harmless;

/// What a git is told here: it starts nothing, asks nobody, and tidies nothing up.
const SETTINGS: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.logAllRefUpdates=true",
    "advice.detachedHead=false",
];
/// What update-ref(1) takes for a ref that must not be there.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// A person's repository.
#[derive(Debug)]
pub(super) struct Repository {
    git: PathBuf,
    root: PathBuf,
}

/// Checks that a name is one that a branch may have.
pub(super) fn check_name(branch: &str) -> Result<(), Failure> {
    if is_branch_name(branch.as_bytes()) {
        return Ok(());
    }
    Err(Failure::usage(format!("`{}` is no name for a branch", harmless(branch))))
}

impl Repository {
    /// The repository at `root`.
    pub(super) fn open(root: &Path, settings: &Settings) -> Result<Self, Failure> {
        let git = settings.config.git_path.clone();
        let git = git.or_else(|| locate("git", std::env::var_os("PATH").as_deref()));
        let git = git.ok_or_else(|| Failure::usage("there is no git in PATH").hint("install git, or set `gitPath`"))?;
        let repository = Self { git, root: root.to_owned() };
        repository.git(&["rev-parse", "--git-dir"], None)?;
        Ok(repository)
    }

    /// Checks that there is no such branch, and that there can be one.
    pub(super) fn check_free(&self, branch: &str) -> Result<(), Failure> {
        let taken = |what: &str| {
            let failure = Failure::usage(format!("{} has the branch `{what}` already", self.root.display()));
            Err(failure.hint("name another one with `--branch`"))
        };
        let listed = self.git(&["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"], None)?;
        for other in listed.lines() {
            let within = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
            if other == branch || within(other, branch) || within(branch, other) {
                return taken(other);
            }
        }
        Ok(())
    }

    /// Takes the one commit of a bundle as the new branch.
    ///
    /// By index-pack(1) and update-ref(1): unlike git-fetch(1) of git 2.39, these check each object of a bundle, and
    /// create a branch only where there is none.
    pub(super) fn take(&self, bundle: File, work: &IntegratedWork, branch: &str, run: &RunId) -> Result<(), Failure> {
        let wrong = |what: &str| Failure::unreachable(format!("the bundle {what}; nothing was written"));
        let mut bundle = BufReader::new(bundle);
        let header = bundle_header(&mut bundle).map_err(|malformed| wrong(&malformed.to_string()))?;
        let tip = ObjectId::from_hex(work.tip.as_bytes()).ok_or_else(|| wrong("has no commit"))?;
        if header.refs != [(RESULT.to_owned(), tip)] {
            return Err(wrong("does not have the one commit that was announced"));
        }
        let pack = rest(bundle).map_err(|error| super::failed("read a temporary file", &error))?;
        self.git(&["index-pack", "--stdin", "--fix-thin", "--strict"], Some(pack))?;
        let (name, tip) = (format!("refs/heads/{branch}"), tip.to_string());
        let message = format!("mosaic apply {run}");
        self.git(&["update-ref", "-m", &message, "--create-reflog", &name, &tip, NOTHING], None)?;
        Ok(())
    }

    /// Runs git here. Nothing of the environment names another repository.
    fn git(&self, arguments: &[&str], input: Option<File>) -> Result<String, Failure> {
        let mut command = Command::new(&self.git);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
            command.env_remove(name);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_LAZY_FETCH", "1").env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("LC_ALL", "C").arg("-C").arg(&self.root);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        let output = command.output().map_err(|error| super::failed("run git", &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let what = arguments.first().copied().unwrap_or_default();
        Err(Failure::usage(format!("git {what} in {} failed: {}", self.root.display(), harmless(said.trim()))))
    }
}

/// What was not read yet, as a file that another program reads on from there.
fn rest(mut bundle: BufReader<File>) -> std::io::Result<File> {
    let at = bundle.stream_position()?;
    let mut file = bundle.into_inner();
    file.seek(SeekFrom::Start(at))?;
    Ok(file)
}
