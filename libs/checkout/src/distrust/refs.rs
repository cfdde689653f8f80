//! Names that are no plain refs: symbolic, odd, or in the way of others.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mosaic_record::Distrust;

use super::Look;
use crate::at::{Directory, Fault, shown};
use crate::look::{PACKED_REFS_BYTES, REF_BYTES};
use crate::parse::{is_branch_name, packed_refs, parse_head, parse_loose_ref};

/// Most names that are compared with each other.
const NAMES: usize = 100_000;

/// The names of branches and tags, as git looks for what is not named in full.
#[derive(Debug, Default)]
pub(super) struct Names {
    heads: BTreeSet<Vec<u8>>,
    tags: BTreeSet<Vec<u8>>,
}

impl Names {
    fn add(&mut self, name: &[u8]) {
        let found = [(&b"refs/heads/"[..], &mut self.heads), (b"refs/tags/", &mut self.tags)];
        for (prefix, names) in found {
            if let Some(short) = name.strip_prefix(prefix)
                && names.len() < NAMES
            {
                names.insert(short.to_vec());
            }
        }
    }
}

/// Looks at `HEAD` and `packed-refs`, then at what the names of all refs together mean.
pub(super) fn look_at_all(look: &mut Look<'_>, git: &Directory, mut names: Names) {
    let said = |text: &str| format!(".git/HEAD: {text}");
    match git.read(OsStr::new("HEAD"), REF_BYTES) {
        // What is no plain file was seen by the walk.
        Err(Fault::NotPlain) => {}
        Err(fault) => look.found.add(Distrust::Ref, || said(&fault.to_string())),
        Ok(content) if parse_head(&content).is_err() => {
            look.found.add(Distrust::Ref, || said(&format!("says `{}`", shown(content.trim_ascii_end()))));
        }
        Ok(_) => {}
    }
    packed(look, git, &mut names);
    for tag in names.tags.intersection(&names.heads) {
        look.found.add(Distrust::Ref, || format!(".git/refs/tags/{}: has the name of a branch", shown(tag)));
    }
    for (place, short) in [("heads", &names.heads), ("tags", &names.tags)] {
        for name in short.iter().filter(|name| name.starts_with(b"origin/")) {
            let at = || format!(".git/refs/{place}/{}: has the name of a branch of the root", shown(name));
            look.found.add(Distrust::Ref, at);
        }
    }
}

/// Looks at a file below `.git/refs`; `path` is what it has below `.git`.
pub(super) fn look_at(look: &mut Look<'_>, directory: &Directory, path: &Path, names: &mut Names) {
    let bytes = path.as_os_str().as_bytes();
    if path.starts_with("refs/replace") {
        // The directory itself is listed.
        return;
    }
    names.add(bytes);
    check_name(look, bytes);
    let Some(name) = path.file_name() else { return };
    let content = match directory.read(name, REF_BYTES) {
        Err(Fault::NotPlain) => return,
        Err(fault) => return look.found.add(Distrust::Ref, || format!(".git/{}: {fault}", shown(bytes))),
        Ok(content) => content,
    };
    if parse_loose_ref(&content).is_err() && !is_remote_head(bytes, &content) {
        let at = || format!(".git/{}: says `{}`", shown(bytes), shown(content.trim_ascii_end()));
        look.found.add(Distrust::Ref, at);
    }
}

/// A file of `.git` that git would take for a ref, before it looks among the branches.
pub(super) fn look_for_stray(look: &mut Look<'_>, directory: &Directory, path: &Path) {
    let Some(name) = path.file_name() else { return };
    let of_git = name.as_bytes().iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    if path.components().count() == 1 && (of_git || name == "shallow") {
        return;
    }
    let Ok(content) = directory.read(name, REF_BYTES) else { return };
    if parse_loose_ref(&content).is_ok() || content.starts_with(b"ref:") {
        let at = || format!(".git/{}: a ref outside of refs", shown(path.as_os_str().as_bytes()));
        look.found.add(Distrust::Ref, at);
    }
}

fn packed(look: &mut Look<'_>, git: &Directory, names: &mut Names) {
    let content = match git.read(OsStr::new("packed-refs"), PACKED_REFS_BYTES) {
        Err(Fault::Missing | Fault::NotPlain) => return,
        Err(fault) => return look.found.add(Distrust::Ref, || format!(".git/packed-refs: {fault}")),
        Ok(content) => content,
    };
    let mut seen = HashSet::new();
    for line in packed_refs(&content) {
        let Ok(line) = line else {
            // What follows can't be told from it.
            return look.found.add(Distrust::Ref, || ".git/packed-refs: is not in its format".to_owned());
        };
        if !seen.insert(line.name) {
            look.found.add(Distrust::Ref, || format!(".git/packed-refs: {} is there twice", shown(line.name)));
            continue;
        }
        if line.name.starts_with(b"refs/replace/") {
            look.found.add(Distrust::Replaced, || format!(".git/packed-refs: {}", shown(line.name)));
            continue;
        }
        names.add(line.name);
        check_name(look, line.name);
    }
}

fn check_name(look: &mut Look<'_>, name: &[u8]) {
    if !name.strip_prefix(b"refs/").is_some_and(is_branch_name) {
        look.found.add(Distrust::Ref, || format!(".git/{}: an odd name", shown(name)));
    }
}

/// What git notes of the branch that a remote has checked out.
fn is_remote_head(path: &[u8], content: &[u8]) -> bool {
    let Some(remote) = path.strip_prefix(b"refs/remotes/").and_then(|rest| rest.strip_suffix(b"/HEAD")) else {
        return false;
    };
    let within = [b"ref: refs/remotes/", remote, b"/"].concat();
    let branch = content.strip_prefix(within.as_slice()).and_then(|rest| rest.strip_suffix(b"\n"));
    branch.is_some_and(is_branch_name)
}
