//! Single files of `.git` that git would believe: configuration, index, rules.

use std::ffi::OsStr;
use std::path::Path;

use mosaic_record::Distrust;

use super::Look;
use crate::at::{Directory, Fault, shown};
use crate::look::{CONFIG_BYTES, INDEX_BYTES};
use crate::parse::{Index, parse_config, parse_index};
use crate::settings::{foreign, names_root};

/// Extensions that every index may have, and that say nothing of files: trees of what is staged, conflicts that were
/// resolved, and where parts of the file begin.
const EXTENSIONS: [&[u8; 4]; 4] = [b"TREE", b"REUC", b"EOIE", b"IEOT"];
/// Largest file of rules that is read, in bytes.
const RULES_BYTES: usize = 1024 * 1024;

pub(super) fn config(look: &mut Look<'_>, git: &Directory) {
    let found = match git.read(OsStr::new("config"), CONFIG_BYTES) {
        // What is no plain file was seen by the walk.
        Err(Fault::NotPlain) => return,
        Err(fault) => Err(fault.to_string()),
        Ok(content) => parse_config(&content).map_err(|malformed| malformed.to_string()),
    };
    let entries = match found {
        Ok(entries) => entries,
        Err(why) => return look.found.add(Distrust::Config, || format!(".git/config: {why}")),
    };
    for (name, entry) in foreign(&entries, look.root.map(Path::as_os_str)) {
        let what = if name == "core.worktree" { Distrust::Elsewhere } else { Distrust::Config };
        let value = entry.value.as_deref().map(|value| format!(" = {}", shown(value.as_bytes())));
        look.found.add(what, || format!(".git/config: {}{}", shown(name.as_bytes()), value.unwrap_or_default()));
    }
    if !entries.iter().any(names_root) {
        look.found.add(Distrust::Config, || ".git/config: names no root".to_owned());
    }
}

pub(super) fn index(look: &mut Look<'_>, git: &Directory) {
    let found = match git.read(OsStr::new("index"), INDEX_BYTES) {
        // Without one, git takes nothing for staged.
        Err(Fault::Missing | Fault::NotPlain) => return,
        Err(fault) => Err(fault.to_string()),
        Ok(content) => parse_index(&content).map_err(|malformed| malformed.to_string()),
    };
    match found {
        Ok(index) => index_parts(look, &index),
        Err(why) => look.found.add(Distrust::MalformedIndex, || format!(".git/index: {why}")),
    }
}

fn index_parts(look: &mut Look<'_>, index: &Index) {
    let mut hidden = index.entries.iter().filter(|entry| entry.hides);
    if let Some(first) = hidden.next() {
        let count = 1 + hidden.count();
        let at = || format!(".git/index: {count} path(s) are marked, the first is `{}`", shown(&first.path));
        look.found.add(Distrust::IndexBits, at);
    }
    if let Some(entry) = index.entries.iter().find(|entry| !is_below(&entry.path)) {
        look.found.add(Distrust::MalformedIndex, || format!(".git/index: names `{}`", shown(&entry.path)));
    }
    for name in index.extensions.iter().filter(|name| !EXTENSIONS.contains(name)) {
        look.found.add(Distrust::IndexExtension, || format!(".git/index: extension `{}`", shown(name.as_slice())));
    }
}

/// True for a path of a file in a work tree, which is neither outside of it nor in a `.git`.
fn is_below(path: &[u8]) -> bool {
    let never = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part.eq_ignore_ascii_case(b".git");
    !path.split(|byte| *byte == b'/').any(never)
}

/// A file of `.git` whose rules change what git sees; without a rule it says nothing.
pub(super) fn rules(look: &mut Look<'_>, git: &Directory, what: Distrust, path: &str) {
    let path = Path::new(path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let at = |text: &str| format!(".git/{}: {text}", path.display());
    match git.below(parent).and_then(|directory| directory.read(name, RULES_BYTES)) {
        Err(Fault::Missing | Fault::NotPlain) => {}
        Err(fault) => look.found.add(what, || at(&fault.to_string())),
        Ok(content) => {
            let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            let mut rules = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
            if let Some(first) = rules.next() {
                let count = 1 + rules.count();
                look.found.add(what, || at(&format!("{count} rule(s), the first is `{}`", shown(first))));
            }
        }
    }
}
