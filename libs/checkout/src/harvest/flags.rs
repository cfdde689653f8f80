//! What a reviewer should look at, told from names and modes.

use mosaic_record::ReviewFlag;

use super::diff::Delta;
use super::files::{EXECUTABLE, LINK};
use crate::tree::GITLINK;

/// Directories and files that something runs, wherever they are.
const HOOKS: [&str; 7] =
    [".husky/", ".githooks/", "hooks/", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".git-hooks/"];
const CI: [&str; 11] = [
    ".github/",
    ".gitlab-ci.yml",
    ".gitlab/",
    ".circleci/",
    ".travis.yml",
    ".drone.yml",
    ".buildkite/",
    ".woodpecker.yml",
    ".woodpecker/",
    "Jenkinsfile",
    "azure-pipelines.yml",
];
const BUILD: [&str; 35] = [
    "Makefile",
    "GNUmakefile",
    "makefile",
    "CMakeLists.txt",
    "meson.build",
    "BUILD",
    "BUILD.bazel",
    "WORKSPACE",
    "configure",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "yarn.lock",
    ".yarnrc.yml",
    "pnpm-lock.yaml",
    "build.rs",
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "conftest.py",
    "tox.ini",
    "noxfile.py",
    "Gemfile",
    "Rakefile",
    "build.gradle",
    "build.gradle.kts",
    "gradlew",
    "pom.xml",
    "justfile",
    "Dockerfile",
    "compose.yaml",
    "docker-compose.yml",
];
const EDITOR: [&str; 8] =
    [".vscode/", ".idea/", ".envrc", ".devcontainer/", ".editorconfig", ".vimrc", ".exrc", ".dir-locals.el"];
const GIT_RULES: [&str; 4] = [".gitattributes", ".gitignore", ".mailmap", ".gitconfig"];

/// Flags of one path that differs; `target` is where it leads, for a link.
pub(super) fn of(delta: &Delta, target: Option<&[u8]>) -> Vec<ReviewFlag> {
    let mut flags = Vec::new();
    let gone = delta.status == b'D';
    if delta.mode == EXECUTABLE && delta.before != EXECUTABLE {
        flags.push(ReviewFlag::Executable);
    }
    if delta.mode == LINK {
        let leaves = target.is_none_or(|target| leaves_tree(&delta.path, target));
        flags.push(if leaves { ReviewFlag::LinkLeavesTree } else { ReviewFlag::Link });
    }
    if delta.mode == GITLINK || delta.before == GITLINK || is_named(&delta.path, &[".gitmodules"]) {
        flags.push(ReviewFlag::Submodule);
    }
    for (names, flag) in [
        (&HOOKS[..], ReviewFlag::Hook),
        (&CI[..], ReviewFlag::Ci),
        (&BUILD[..], ReviewFlag::Build),
        (&EDITOR[..], ReviewFlag::Editor),
        (&GIT_RULES[..], ReviewFlag::GitRules),
    ] {
        if is_named(&delta.path, names) {
            flags.push(flag);
        }
    }
    let plain = std::str::from_utf8(&delta.path).is_ok_and(|path| !path.chars().any(char::is_control));
    if !plain {
        flags.push(ReviewFlag::OddName);
    }
    if delta.lines.is_none() && !gone && delta.mode != GITLINK {
        flags.push(ReviewFlag::Binary);
    }
    flags
}

/// True when a path has one of these names as its last part or, with a slash at its end, as one of its directories.
fn is_named(path: &[u8], names: &[&str]) -> bool {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = parts.pop().unwrap_or_default();
    names.iter().any(|name| match name.strip_suffix('/') {
        Some(directory) => parts.iter().any(|part| part.eq_ignore_ascii_case(directory.as_bytes())),
        None => last.eq_ignore_ascii_case(name.as_bytes()),
    })
}

/// True when the link at `path` with this target leads out of the tree, as its text says.
fn leaves_tree(path: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::ObjectId;

    fn delta(path: &str, before: u32, mode: u32) -> Delta {
        let lines = Some((1, 0));
        Delta { path: path.into(), status: b'M', before, mode, id: ObjectId::from_bytes([1; 20]), lines }
    }

    #[test]
    fn each_flag_has_a_path_that_raises_it() {
        let flags =
            |path, before, mode, target: Option<&str>| of(&delta(path, before, mode), target.map(str::as_bytes));
        let plain = 0o100_644;
        assert_eq!(flags("a", plain, EXECUTABLE, None), [ReviewFlag::Executable]);
        assert_eq!(flags("a", EXECUTABLE, EXECUTABLE, None), []);
        assert_eq!(flags("d/l", 0, LINK, Some("../a")), [ReviewFlag::Link]);
        for target in ["../../a", "/etc/passwd", "x/../../../y"] {
            assert_eq!(flags("d/l", 0, LINK, Some(target)), [ReviewFlag::LinkLeavesTree], "{target}");
        }
        assert_eq!(flags("s", 0, GITLINK, None), [ReviewFlag::Submodule]);
        assert_eq!(flags(".husky/pre-commit", plain, plain, None), [ReviewFlag::Hook]);
        assert_eq!(flags(".github/workflows/x.yml", plain, plain, None), [ReviewFlag::Ci]);
        assert_eq!(flags("x/MAKEFILE", plain, plain, None), [ReviewFlag::Build]);
        assert_eq!(flags(".vscode/tasks.json", plain, plain, None), [ReviewFlag::Editor]);
        assert_eq!(flags("a/.gitattributes", plain, plain, None), [ReviewFlag::GitRules]);
        assert_eq!(flags("a\u{1b}[31m", plain, plain, None), [ReviewFlag::OddName]);
        let binary = Delta { lines: None, ..delta("a", plain, plain) };
        assert_eq!(of(&binary, None), [ReviewFlag::Binary]);
    }
}
