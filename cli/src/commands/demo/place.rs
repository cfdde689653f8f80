//! Where the demo happens: configuration, data root, task and a small repository as workspace.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mosaic_config::Config;
use mosaic_data_root::DataRoot;
use mosaic_ids::{Name, RunId};
use mosaic_record::Backend;
use similar::TextDiff;

use crate::commands::config::{sensible, write};
use crate::exit::Failure;

/// The repository, before.
const FILES: [(&str, &str); 3] = [
    ("README.md", "# Greeter\n\nSays hello.\n\n    sh greet.sh\n"),
    ("greet.sh", "#!/bin/sh\n# Greets whoever runs it.\necho \"Helo, world\"\n"),
    (".gitignore", "*.log\n"),
];

/// What the agent does.
const SCRIPT: &str = r#"# This is the request: with the adapter `scripted` it is a shell script.
echo "reading the repository" >&2
ls >&2
sleep 0.5
activity
echo "The greeting is misspelt, and it can't greet anybody by name."
sleep 0.7
cat >greet.sh <<'END'
#!/bin/sh
# Greets whoever is named, or the world.
echo "Hello, ${1:-world}"
END
echo "Mended greet.sh: spelling, and an optional name."
sleep 0.7
cat >README.md <<'END'
# Greeter

Says hello, to the world or to somebody.

    sh greet.sh
    sh greet.sh Ada
END
echo "Brought README.md up to date."
sleep 0.5
echo "Checked: $(sh greet.sh Ada)"
"#;

/// Largest file of the demo that is shown, in bytes.
const SHOWN_BYTES: u64 = 64 * 1024;

/// The demo's directory.
#[derive(Debug)]
pub(crate) struct Place {
    /// As the user named it.
    pub shown: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Its task.
    pub task: PathBuf,
    workspace: PathBuf,
}

impl Place {
    /// Makes the directory, or a further task and repository in one that an earlier demo has made.
    ///
    /// # Errors
    /// When something else is there, or it can't be written.
    pub(crate) fn make(directory: &Path, backend: Backend) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::usage(format!("can't make `{}`: {error}", directory.display()));
        let absolute = std::path::absolute(directory).map_err(failed)?;
        let config = absolute.join("config.json");
        let is_a_demo = DataRoot::open(&absolute.join("data")).is_ok();
        let is_empty = std::fs::read_dir(&absolute).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty && !is_a_demo {
            let failure = Failure::usage(format!("`{}` is there and is no demo", directory.display()));
            return Err(failure.hint("name another directory with `--directory DIR`"));
        }
        std::fs::create_dir_all(&absolute).map_err(failed)?;
        let file = sensible(&absolute.join("data"), backend)?;
        write(&config, &file)?;
        let resolved = Config::resolve("config.json", file).map_err(|error| Failure::rejected(error.to_string()))?;
        let root = DataRoot::create_or_open(&resolved.data_root).map_err(|error| {
            Failure::rejected(error.to_string()).hint("name a directory with a shorter path with `--directory DIR`")
        })?;
        let name = unused_workspace(&root);
        let workspace = root.workspace(&name);
        make_repository(&workspace, resolved.sandbox_uid())?;
        let task = serde_json::json!({
            "taskVersion": 1,
            "id": "demo",
            "prompt": SCRIPT,
            "workspace": name,
            "capabilities": { "tools": ["read", "edit", "bash"] },
        });
        let task_path = directory.join("task.json");
        let text = serde_json::to_string_pretty(&task).expect("a task serializes");
        std::fs::write(&task_path, text + "\n").map_err(failed)?;
        Ok(Self { shown: directory.to_owned(), config, task: task_path, workspace })
    }

    /// What the agent changed, as a diff. The sandbox is gone; still, nothing it left is followed or run.
    ///
    /// # Errors
    /// When a file can't be read.
    pub(crate) fn changes(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for (name, before) in FILES {
            let after = read_plain(&self.workspace.join(name))
                .map_err(|error| Failure::usage(format!("can't read `{name}` of the workspace: {error}")))?;
            if after != before {
                let diff = TextDiff::from_lines(before, &after);
                let diff = diff.unified_diff().header(&format!("a/{name}"), &format!("b/{name}")).to_string();
                text.push_str(&crate::view::text::harmless(&diff));
            }
        }
        Ok(text)
    }

    /// Commands that work as they are printed.
    #[must_use]
    pub(crate) fn commands(&self, run: &RunId) -> Vec<String> {
        let mosaic = format!("{} --config {}", program(), shell_word(&self.shown.join("config.json")));
        let task = shell_word(&self.task);
        vec![
            format!("{mosaic} show {run}"),
            format!("{mosaic} watch {run}"),
            format!("{mosaic} list"),
            format!("{mosaic} run {task}"),
            format!("{mosaic} ledger verify"),
        ]
    }
}

/// `site`, or the first of `site-2`, `site-3`, ... that no earlier demo has used.
fn unused_workspace(root: &DataRoot) -> Name {
    let name = |number: usize| if number == 1 { "site".to_owned() } else { format!("site-{number}") };
    let names = (1..).map(|number| name(number).parse::<Name>().expect("a name"));
    let mut unused = names.filter(|name| !root.workspace(name).exists());
    unused.next().expect("there are endlessly many")
}

/// A repository with one commit. No agent has been here: plain git, without anybody's configuration.
fn make_repository(path: &Path, owner: u32) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("can't make the demo's repository: {error}"));
    std::fs::create_dir(path).map_err(failed)?;
    for (name, content) in FILES {
        std::fs::write(path.join(name), content).map_err(failed)?;
    }
    for arguments in [
        &["init", "--quiet", "--initial-branch=main", "--template="][..],
        &["add", "--all"],
        &["-c", "user.name=Demo", "-c", "user.email=demo@localhost", "commit", "--quiet", "--message=Greeter"],
    ] {
        git(path, arguments)?;
    }
    if nix::unistd::geteuid().is_root() {
        hand_over(path, owner).map_err(failed)?;
    }
    Ok(())
}

fn git(directory: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("git");
    command.current_dir(directory).args(arguments).env_clear();
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let output = command.output().map_err(|error| {
        Failure::usage(format!("can't run git: {error}")).hint("install git, for example with `apt-get install git`")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::usage(format!("git {} failed: {message}", arguments[0])))
}

/// Gives a tree that this process has just made to the uid that sandboxes run under.
fn hand_over(path: &Path, owner: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(owner), Some(owner))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            hand_over(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

/// Reads a regular file, following no link and waiting for no FIFO.
fn read_plain(path: &Path) -> std::io::Result<String> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = std::fs::File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(SHOWN_BYTES).read_to_end(&mut content)?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// How this program is called from here.
fn program() -> String {
    let Ok(exe) = std::env::current_exe() else { return "mosaic".to_owned() };
    let in_path = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .any(|directory| directory.join("mosaic").canonicalize().ok() == exe.canonicalize().ok())
    });
    if in_path {
        return "mosaic".to_owned();
    }
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| exe.strip_prefix(here).ok().map(|path| Path::new(".").join(path)));
    shell_word(&relative.unwrap_or(exe))
}

/// A path as one word of a shell command.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_word() {
        assert_eq!(shell_word(Path::new("a/b-c.json")), "a/b-c.json");
        assert_eq!(shell_word(Path::new("my demo's")), r"'my demo'\''s'");
    }
}
