//! What the configuration of a clone says as long as nobody has touched it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::parse::{Entry, is_branch_name};

/// The settings that no untouched clone of `root` has, or that are there a second time, each with its name. Where `root` is
/// not known, the clone may be one of any directory.
pub(crate) fn foreign<'e>(entries: &'e [Entry], root: Option<&OsStr>) -> impl Iterator<Item = (String, &'e Entry)> {
    let mut seen = std::collections::HashSet::new();
    entries.iter().filter_map(move |entry| {
        let name = format!("{}.{}", entry.section, entry.key);
        let fits = is_own(entry, root) && !seen.contains(&name);
        if fits {
            seen.insert(name);
            return None;
        }
        Some((name, entry))
    })
}

/// True for the setting that says what root a clone is of.
pub(crate) fn names_root(entry: &Entry) -> bool {
    entry.section == "remote.origin" && entry.key == "url"
}

/// True for what `git clone` writes, and for the name and address of whoever works in it.
fn is_own(entry: &Entry, root: Option<&OsStr>) -> bool {
    let Some(value) = entry.value.as_deref() else { return false };
    match (entry.section.as_str(), entry.key.as_str()) {
        ("core", "repositoryformatversion") => value == "0",
        ("core", "filemode" | "logallrefupdates") => value == "true",
        ("core", "bare") => value == "false",
        ("remote.origin", "url") => match root {
            Some(root) => value.as_bytes() == root.as_bytes(),
            None => value.starts_with('/'),
        },
        ("remote.origin", "fetch") => value == "+refs/heads/*:refs/remotes/origin/*" || is_of_one(value),
        ("remote.origin", "tagopt") => value == "--no-tags",
        ("user", "name" | "email") => true,
        (section, "remote") if section.starts_with("branch.") => value == "origin" || value == ".",
        (section, "merge") if section.starts_with("branch.") => value.starts_with("refs/heads/"),
        _ => false,
    }
}

/// True for the refspec of a clone that follows one branch.
fn is_of_one(refspec: &str) -> bool {
    let sides = refspec.strip_prefix("+refs/heads/").and_then(|rest| rest.split_once(":refs/remotes/origin/"));
    sides.is_some_and(|(from, to)| from == to && is_branch_name(from.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_config;

    fn found(text: &str, root: Option<&str>) -> Vec<String> {
        let entries = parse_config(text.as_bytes()).expect("well formed");
        foreign(&entries, root.map(OsStr::new)).map(|(name, _)| name).collect()
    }

    #[test]
    fn what_git_clone_writes_is_a_clones_own_and_nothing_else_is() {
        let own = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
                   [remote \"origin\"]\n\turl = /srv/x\n\ttagOpt = --no-tags\n\
                   \tfetch = +refs/heads/main:refs/remotes/origin/main\n\
                   [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n";
        assert_eq!(found(own, Some("/srv/x")), [""; 0]);
        assert_eq!(found(own, None), [""; 0]);
        assert_eq!(found(own, Some("/srv/y")), ["remote.origin.url"]);
        let twice = format!("{own}[core]\n\tbare = false\n\tfsmonitor = x\n\tbare\n");
        assert_eq!(found(&twice, None), ["core.bare", "core.fsmonitor", "core.bare"]);
        for value in ["ext::sh -c x", "https://example.invalid/x", "../x"] {
            assert_eq!(found(&format!("[remote \"origin\"]\nurl = {value}\n"), None), ["remote.origin.url"]);
        }
        for value in [
            "+refs/heads/a:refs/remotes/origin/b",
            "+refs/heads/*:refs/heads/*",
            "+refs/heads/a*:refs/remotes/origin/a*",
        ] {
            assert_eq!(found(&format!("[remote \"origin\"]\nfetch = {value}\n"), None), ["remote.origin.fetch"]);
        }
    }
}
