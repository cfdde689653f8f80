//! What the configuration of a clone says as long as nobody has touched it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::parse::Entry;

/// What is known of a clone whose settings are looked at; what is not known may be anything of its kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// The root that it is a clone of.
    pub(crate) root: Option<&'a OsStr>,
    /// The root's branch.
    pub(crate) branch: Option<&'a str>,
}

/// The settings that no untouched clone has, or that are there a second time, each with its name.
pub(crate) fn foreign<'e>(entries: &'e [Entry], known: Known<'_>) -> impl Iterator<Item = (String, &'e Entry)> {
    let mut seen = std::collections::HashSet::new();
    entries.iter().filter_map(move |entry| {
        let name = format!("{}.{}", entry.section, entry.key);
        let fits = is_own(entry, known) && !seen.contains(&name);
        if fits {
            seen.insert(name);
            return None;
        }
        Some((name, entry))
    })
}

/// True for what `git clone` writes, and for the name and address of whoever works in it.
fn is_own(entry: &Entry, known: Known<'_>) -> bool {
    let Some(value) = entry.value.as_deref() else { return false };
    match (entry.section.as_str(), entry.key.as_str()) {
        ("core", "repositoryformatversion") => value == "0",
        ("core", "filemode" | "logallrefupdates") => value == "true",
        ("core", "bare") => value == "false",
        ("remote.origin", "url") => match known.root {
            Some(root) => value.as_bytes() == root.as_bytes(),
            None => value.starts_with('/'),
        },
        ("remote.origin", "fetch") => value == "+refs/heads/*:refs/remotes/origin/*" || is_of_one(value, known.branch),
        ("remote.origin", "tagopt") => value == "--no-tags",
        ("user", "name" | "email") => true,
        (section, "remote") if section.starts_with("branch.") => value == "origin" || value == ".",
        (section, "merge") if section.starts_with("branch.") => value.starts_with("refs/heads/"),
        _ => false,
    }
}

/// True for the refspec of a clone that follows one branch.
fn is_of_one(refspec: &str, branch: Option<&str>) -> bool {
    let sides = refspec.strip_prefix("+refs/heads/").and_then(|rest| rest.split_once(":refs/remotes/origin/"));
    sides.is_some_and(|(from, to)| from == to && branch.is_none_or(|branch| from == branch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_config;

    fn found(text: &str, known: Known<'_>) -> Vec<String> {
        let entries = parse_config(text.as_bytes()).expect("well formed");
        foreign(&entries, known).map(|(name, _)| name).collect()
    }

    #[test]
    fn what_git_clone_writes_is_a_clones_own_and_nothing_else_is() {
        let own = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
                   [remote \"origin\"]\n\turl = /srv/x\n\ttagOpt = --no-tags\n\
                   \tfetch = +refs/heads/main:refs/remotes/origin/main\n\
                   [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n";
        let known = Known { root: Some(OsStr::new("/srv/x")), branch: Some("main") };
        assert_eq!(found(own, known), [""; 0]);
        assert_eq!(found(own, Known::default()), [""; 0]);
        let other = Known { root: Some(OsStr::new("/srv/y")), branch: Some("next") };
        assert_eq!(found(own, other), ["remote.origin.url", "remote.origin.fetch"]);
        let twice = format!("{own}[core]\n\tbare = false\n\tfsmonitor = x\n\tbare\n");
        assert_eq!(found(&twice, known), ["core.bare", "core.fsmonitor", "core.bare"]);
        for value in ["ext::sh -c x", "https://example.invalid/x", "../x"] {
            assert_eq!(
                found(&format!("[remote \"origin\"]\nurl = {value}\n"), Known::default()),
                ["remote.origin.url"]
            );
        }
    }
}
