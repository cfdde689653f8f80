//! Commands that an agent asks git to run: in the configuration, in hooks, in nested repositories. None may run.

use mosaic_checkout::Reason::{self, ConfigChanged, Dirty, HiddenChanges, NotAClone};

use crate::agent::Agent;
use crate::bed::{Bed, Entry, git, kept, moved};
use crate::roots::{Flavour, commit, write};

const CHANGED: &[Reason] = &[ConfigChanged];

/// Every hook that git knows.
const HOOKS: [&str; 23] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-merge-commit",
    "pre-push",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
    "reference-transaction",
    "push-to-checkout",
    "update",
    "pre-receive",
    "post-receive",
    "proc-receive",
];

#[test]
fn commands_in_the_configuration_do_not_run() {
    Bed::new().hold(&configured());
}

#[test]
fn settings_that_change_what_git_sees_are_refused() {
    Bed::new().hold(&bent());
}

#[test]
fn hooks_and_nested_repositories_do_not_run() {
    Bed::new().hold(&nested());
}

fn replace_url(agent: &Agent<'_>, with: &str) {
    let path = agent.dot_git().join("config");
    let text = std::fs::read_to_string(&path).expect("read");
    let url = format!("\turl = {}\n", agent.root.path.display());
    assert!(text.contains(&url), "{text}");
    std::fs::write(&path, text.replace(&url, with)).expect("written");
}

fn configured() -> Vec<Entry> {
    vec![
        kept("a file system monitor", CHANGED, |agent| agent.config("[core]\n\tfsmonitor = CMD\n")),
        kept("a monitor in other letters", CHANGED, |agent| agent.config("[CoRe]\n\tFSMONITOR = CMD\n")),
        kept("a monitor behind the section's name", CHANGED, |agent| agent.config("[core] fsmonitor = CMD\n")),
        kept("a monitor in an old subsection", CHANGED, |agent| agent.config("[core.x]\n\tfsmonitor = CMD\n")),
        kept("hooks elsewhere", CHANGED, |agent| {
            for hook in ["post-merge", "reference-transaction", "post-index-change", "post-checkout"] {
                agent.script(&format!("build/h/{hook}"));
            }
            agent.config(&format!("[core]\n\thooksPath = {}\n", agent.clone.join("build/h").display()));
        }),
        kept("hooks of the configuration", CHANGED, |agent| {
            for (number, event) in ["reference-transaction", "post-merge", "post-index-change"].iter().enumerate() {
                agent.config(&format!("[hook \"h{number}\"]\n\tcommand = CMD\n\tevent = {event}\n"));
            }
        }),
        kept("an included file", CHANGED, |agent| {
            agent.write("build/more", format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            agent.config("[include]\n\tpath = ../build/more\n");
        }),
        kept("a file included for a directory", CHANGED, |agent| {
            agent.write("build/more", format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            agent.config("[includeIf \"gitdir:/**\"]\n\tpath = ../build/more\n");
        }),
        kept("a filter by .git/info/attributes", &[ConfigChanged, NotAClone], |agent| {
            agent.age(9000);
            agent.config("[filter \"x\"]\n\tclean = CMD; cat\n\tsmudge = CMD; cat\n");
            agent.write(".git/info/attributes", "* filter=x\n");
        }),
        kept("a filter process", CHANGED, |agent| {
            agent.config("[filter \"x\"]\n\tprocess = CMD\n\trequired = true\n");
            agent.write(".gitattributes", "* filter=x\n");
        }),
        kept("diff and merge drivers", CHANGED, |agent| {
            agent.config("[diff]\n\texternal = CMD\n[diff \"x\"]\n\ttextconv = CMD\n\tcommand = CMD\n");
            agent.config("[merge \"x\"]\n\tdriver = CMD\n");
        }),
        kept("a transport by ssh", CHANGED, |agent| {
            agent.config("[core]\n\tsshCommand = CMD\n[protocol \"ssh\"]\n\tallow = always\n");
            replace_url(agent, "\turl = ssh://localhost/x\n");
        }),
        kept("a transport by a command", CHANGED, |agent| {
            agent.config("[protocol \"ext\"]\n\tallow = always\n");
            let url = format!("\turl = \"ext::sh -c touch% {}\"\n", agent.marker.display());
            replace_url(agent, &url);
        }),
        kept("a rewritten address", CHANGED, |agent| {
            let (marker, root) = (agent.marker.display(), agent.root.path.display());
            agent.config(&format!("[url \"ext::sh -c touch% {marker}\"]\n\tinsteadOf = {root}\n"));
        }),
        kept("another program for fetching", CHANGED, |agent| {
            agent.config("[remote \"origin\"]\n\tuploadpack = CMD; git-upload-pack\n");
        }),
        kept("a remote helper", CHANGED, |agent| agent.config("[remote \"origin\"]\n\tvcs = ext\n")),
        kept("a command for alternates", CHANGED, |agent| {
            agent.config("[core]\n\talternateRefsCommand = CMD; true\n");
        }),
        kept("pagers, editors, helpers and aliases", CHANGED, |agent| {
            agent.config("[core]\n\tpager = CMD\n\teditor = CMD\n\taskPass = CMD\n\tgitProxy = CMD\n");
            agent.config("[gpg]\n\tprogram = CMD\n[credential]\n\thelper = !CMD\n[alias]\n\tstatus = !CMD\n");
        }),
        kept("a promising remote", CHANGED, |agent| {
            agent.config("[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\tpromisor = true\n");
        }),
        kept("automatic clean-up", CHANGED, |agent| {
            agent.config("[gc]\n\tauto = 1\n\tautoDetach = false\n\trecentObjectsHook = CMD\n");
        }),
        kept("a hook of the server's side", CHANGED, |agent| {
            agent.config("[uploadpack]\n\tpackObjectsHook = CMD\n[submodule]\n\trecurse = true\n");
        }),
        kept("the branch's remote is an address", CHANGED, |agent| {
            agent.config(&format!("[branch \"x\"]\n\tremote = ext::sh -c touch% {}\n", agent.marker.display()));
        }),
        kept("a value with a line end in it", CHANGED, |agent| {
            agent.config("[user]\n\tname = \"x\\n[core]\\n\\tfsmonitor = CMD\"\n\tname = \\\n\tx\n");
        }),
        kept("a value that goes on in the next line", CHANGED, |agent| {
            agent.config("[user]\n\temail = a\\\n[core]\n\tfsmonitor = CMD\n");
        }),
        kept("line ends of another system", CHANGED, |agent| agent.config("[core]\r\n\tfsmonitor = CMD\r\n")),
        kept("a byte order mark", CHANGED, |agent| {
            let path = agent.dot_git().join("config");
            let text = std::fs::read(&path).expect("read");
            std::fs::write(path, [&b"\xef\xbb\xbf[core]\n\tfsmonitor = x\n"[..], &text].concat()).expect("written");
        }),
    ]
}

fn bent() -> Vec<Entry> {
    vec![
        kept("another work tree", CHANGED, |agent| {
            let outside = agent.outside.display().to_string();
            for name in ["README.md", "src/new.py"] {
                agent.canary(name, "precious\n");
            }
            agent.config(&format!("[core]\n\tworktree = {outside}\n"));
        }),
        kept("a configuration of the work tree", &[ConfigChanged, NotAClone], |agent| {
            agent.git(&["config", "core.repositoryformatversion", "1"]);
            agent.config("[extensions]\n\tworktreeConfig = true\n");
            agent.write(".git/config.worktree", format!("[core]\n\tfsmonitor = {}\n", agent.command()));
        }),
        kept("two addresses", CHANGED, |agent| {
            let other = agent.other_repository();
            let root = agent.root.path.display().to_string();
            replace_url(agent, &format!("\turl = {}\n\turl = {root}\n", other.display()));
        }),
        kept("another address", CHANGED, |agent| {
            let other = agent.other_repository();
            replace_url(agent, &format!("\turl = {}\n", other.display()));
        }),
        kept("the root's address with a slash", CHANGED, |agent| {
            let root = agent.root.path.display().to_string();
            replace_url(agent, &format!("\turl = {root}/.\n"));
        }),
        kept("the same address twice", CHANGED, |agent| {
            let root = agent.root.path.display().to_string();
            agent.config(&format!("[remote \"origin\"]\n\turl = {root}\n"));
        }),
        kept("the root's address in other letters", CHANGED, |agent| {
            let root = agent.root.path.display().to_string();
            replace_url(agent, &format!("\turl = {}\n", root.to_uppercase()));
        }),
        kept("the root's address with two slashes", CHANGED, |agent| {
            let root = agent.root.path.display().to_string();
            replace_url(agent, &format!("\turl = /{root}\n"));
        }),
        kept("the root's address, quoted in part", CHANGED, |agent| {
            let root = agent.root.path.display().to_string();
            replace_url(agent, &format!("\turl = {root}\"\"\n"));
        }),
        kept("an address to push to", CHANGED, |agent| {
            agent.config("[remote \"origin\"]\n\tpushurl = ext::CMD\n");
        }),
        kept("the same setting twice", CHANGED, |agent| agent.config("[core]\n\tbare = false\n")),
        kept("a setting without a value", CHANGED, |agent| agent.config("[user]\n\tname\n")),
        kept("no address", CHANGED, |agent| replace_url(agent, "")),
        kept("a remote of old", &[ConfigChanged, NotAClone], |agent| {
            let other = agent.other_repository();
            replace_url(agent, "");
            agent.write(".git/remotes/origin", format!("URL: {}\nPull: refs/heads/main\n", other.display()));
        }),
        kept("a remote of very old", &[NotAClone], |agent| {
            agent.write(".git/branches/origin", "/somewhere#main\n");
        }),
        kept("another refspec", CHANGED, |agent| {
            agent.config("[remote \"origin\"]\n\tfetch = +refs/heads/main:refs/heads/main\n");
        }),
        kept("modes overlooked", CHANGED, |agent| {
            agent.git(&["config", "core.filemode", "false"]);
            agent.mode("README.md", 0o755);
        }),
        kept("links overlooked", CHANGED, |agent| {
            agent.config("[core]\n\tsymlinks = false\n");
            agent.remove_file("link");
            agent.write("link", "src/a.py");
        }),
        kept("untracked files overlooked", CHANGED, |agent| {
            agent.config("[status]\n\tshowUntrackedFiles = no\n");
            agent.write("mine.txt", "m\n");
        }),
        kept("an excludes file", CHANGED, |agent| {
            agent.write("build/x", "mine.txt\n");
            agent.config("[core]\n\texcludesFile = ../build/x\n");
            agent.write("mine.txt", "m\n");
        }),
        kept("a sparse checkout", &[ConfigChanged, NotAClone], |agent| {
            agent.git(&["sparse-checkout", "set", "src"]);
        }),
        kept("a bare repository", CHANGED, |agent| {
            agent.git(&["config", "core.bare", "true"]);
        }),
        kept("line ends converted", CHANGED, |agent| agent.config("[core]\n\tautocrlf = true\n")),
        kept("letters of both cases alike", CHANGED, |agent| agent.config("[core]\n\tignoreCase = true\n")),
        kept("another format", CHANGED, |agent| {
            agent.git(&["config", "core.repositoryformatversion", "1"]);
            agent.config("[extensions]\n\tobjectFormat = sha1\n");
        }),
        kept("an address for bundles", CHANGED, |agent| {
            agent.config(&format!("[fetch]\n\tbundleURI = file://{}/b\n", agent.outside.display()));
        }),
        kept("a huge configuration", CHANGED, |agent| {
            agent.append(".git/config", &format!("# {}\n", "x".repeat(1021)).repeat(8 * 1024));
        }),
        kept("a configuration that is no text", CHANGED, |agent| {
            let path = agent.dot_git().join("config");
            std::fs::write(path, b"[core]\n\tx = \xff\0\n").expect("written");
        }),
        kept("an empty configuration", CHANGED, |agent| agent.write(".git/config", "")),
    ]
}

fn nested() -> Vec<Entry> {
    vec![
        moved("every hook", |agent| {
            HOOKS.iter().for_each(|hook| agent.script(&format!(".git/hooks/{hook}")));
        }),
        kept("the clone itself pretends to be a bare repository", &[NotAClone], |agent| {
            for name in ["objects", "refs"] {
                let from = agent.dot_git().join(name);
                let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(&agent.clone).status();
                assert!(copied.expect("cp runs").success());
            }
            for name in ["index", "HEAD"] {
                std::fs::copy(agent.dot_git().join(name), agent.clone.join(name)).expect("copied");
            }
            let (clone, command) = (agent.clone.display().to_string(), agent.command());
            agent.write(
                "config",
                format!("[core]\n\tbare = false\n\tworktree = {clone}\n[filter \"x\"]\n\tclean = {command}; cat\n"),
            );
            agent.write("info/attributes", "* filter=x\n");
            agent.write("info/exclude", "/HEAD\n/objects\n/refs\n/config\n/index\n/info\n/logs\n");
            agent.age(9000);
            agent.write(".git/HEAD", "");
        }),
        kept("a nested repository that is staged", &[Dirty], |agent| {
            let nested = agent.clone.join("nested");
            hostile_repository(agent, &nested);
            agent.try_git(&["add", "nested"]);
        }),
        kept("a nested repository that is not staged", &[Dirty], |agent| {
            let nested = agent.clone.join("nested");
            hostile_repository(agent, &nested);
        }),
        kept("a repository in a tracked directory", &[HiddenChanges], |agent| {
            agent.write("src/.git/HEAD", "ref: refs/heads/main\n");
            agent.write("src/.git/config", format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            std::fs::create_dir_all(agent.clone.join("src/.git/objects")).expect("created");
            std::fs::create_dir_all(agent.clone.join("src/.git/refs")).expect("created");
            agent.write("src/.git/payload.py", "hidden\n");
        }),
        kept("a file .git in a tracked directory", &[HiddenChanges], |agent| {
            let other = agent.other_repository();
            agent.write("src/.git", format!("gitdir: {}/.git\n", other.display()));
        }),
        moved("a submodule made hostile: fetching on demand", |agent| {
            submodule(agent);
            let command = format!("{}; git-upload-pack", agent.command());
            git(&agent.root.home, &agent.clone.join("mod"), &["config", "remote.origin.uploadpack", &command]);
        })
        .of(Flavour::Super),
        moved("a submodule made hostile: filters and monitors", |agent| {
            submodule(agent);
            agent.append("mod/.git/config", &format!("[core]\n\tfsmonitor = {}\n", agent.command()));
            agent.append("mod/.git/config", &format!("[filter \"x\"]\n\tclean = {}; cat\n", agent.command()));
            agent.write("mod/.git/info/attributes", "* filter=x\n");
            agent.write("mod/m.txt", "changed\n");
        })
        .of(Flavour::Super),
        moved("a submodule's place with a hostile file in it", |agent| {
            agent.write("mod/.git", format!("gitdir: {}\n", agent.outside.display()));
        })
        .of(Flavour::Super),
    ]
}

/// A repository with a filter that runs when git only looks at it.
fn hostile_repository(agent: &Agent<'_>, path: &std::path::Path) {
    std::fs::create_dir_all(path).expect("created");
    git(&agent.root.home, path, &["init", "--quiet", "."]);
    write(path, "f", "f\n");
    commit(&agent.root.home, path, "n");
    let config = path.join(".git/config");
    let text = std::fs::read_to_string(&config).expect("read");
    let command = agent.command();
    let more = format!("[filter \"x\"]\n\tclean = {command}; cat\n[core]\n\tfsmonitor = {command}\n");
    std::fs::write(config, text + &more).expect("written");
    write(path, ".git/info/attributes", "* filter=x\n");
    write(path, "f", "g\n");
}

/// Checks out the root's submodule as the clone records it.
fn submodule(agent: &Agent<'_>) {
    let module = agent.root.module.as_ref().expect("a root with a submodule");
    agent.git(&["clone", "--quiet", "--no-hardlinks", &module.to_string_lossy(), "mod"]);
    let commit = agent.git(&["rev-parse", "HEAD:mod"]);
    git(&agent.root.home, &agent.clone.join("mod"), &["reset", "--quiet", "--hard", &commit]);
}
