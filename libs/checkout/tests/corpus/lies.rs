//! Lies about what is clean, and about what the root holds.

use std::time::{Duration, SystemTime};

use mosaic_checkout::Reason::{self, Dirty, HiddenChanges, NotAClone, NotFastForward};

use crate::agent::Agent;
use crate::bed::{Bed, Entry, kept, moved};
use crate::index::{Index, SIZE};

const HIDDEN: &[Reason] = &[Dirty, HiddenChanges];

#[test]
fn an_index_that_lies_is_not_believed() {
    Bed::new().hold(&index());
}

#[test]
fn broken_indexes_are_kept() {
    Bed::new().hold(&broken_index());
}

#[test]
fn attributes_and_exclusions_of_the_agents_hide_nothing() {
    Bed::new().hold(&attributes());
}

#[test]
fn objects_and_names_of_the_agents_are_not_the_roots() {
    Bed::new().hold(&objects());
}

fn edit(agent: &Agent<'_>, change: impl FnOnce(&mut Index)) {
    let path = agent.dot_git().join("index");
    let mut index = Index::read(&path);
    change(&mut index);
    index.write(&path);
}

fn old(agent: &Agent<'_>, path: &str) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::open(agent.clone.join(path)).and_then(|file| file.set_modified(then)).expect("set");
}

fn index() -> Vec<Entry> {
    vec![
        kept("assumed to be unchanged", HIDDEN, |agent| {
            agent.git(&["update-index", "--assume-unchanged", "lib/keep.txt"]);
            agent.write("lib/keep.txt", "hidden\n");
        }),
        kept("skipped in the work tree", HIDDEN, |agent| {
            agent.git(&["update-index", "--skip-worktree", "lib/keep.txt"]);
            agent.write("lib/keep.txt", "hidden\n");
        }),
        kept("skipped and gone", HIDDEN, |agent| {
            agent.git(&["update-index", "--skip-worktree", "lib/keep.txt", "lib/mod.txt"]);
            agent.remove_all("lib");
        }),
        moved("skipped and unchanged", |agent| {
            agent.git(&["update-index", "--skip-worktree", "lib/keep.txt"]);
            agent.git(&["update-index", "--assume-unchanged", "lib/mod.txt"]);
        }),
        kept("what was seen of a file is forged", HIDDEN, |agent| {
            agent.age(3600);
            agent.git(&["update-index", "--refresh"]);
            agent.write("lib/keep.txt", "hidden\n");
            old(agent, "lib/keep.txt");
            let clone = agent.clone.clone();
            edit(agent, |index| index.forge(&clone, "lib/keep.txt"));
        }),
        kept("an untracked cache that knows of nothing", HIDDEN, |agent| {
            agent.write(".git/info/exclude", "mine.txt\n");
            agent.write("src/mine.txt", "m\n");
            agent.git(&["update-index", "--untracked-cache"]);
            agent.git(&["status", "--porcelain"]);
            agent.git(&["status", "--porcelain"]);
            agent.write(".git/info/exclude", "#nothing\n");
        }),
        kept("a monitor's word that nothing changed", HIDDEN, |agent| {
            agent.write("lib/keep.txt", "hidden\n");
            let mut content = 1_u32.to_be_bytes().to_vec();
            content.extend(u64::MAX.to_be_bytes());
            content.extend(4_u32.to_be_bytes());
            content.extend([0; 4]);
            edit(agent, |index| index.extensions.push((*b"FSMN", content)));
        }),
        kept("staged under another id with the right file", HIDDEN, |agent| {
            let id = agent.git_with(&["hash-object", "-w", "--stdin"], b"other\n");
            agent.git(&["update-index", "--cacheinfo", &format!("100644,{id},lib/keep.txt")]);
        }),
        kept("the cached tree is another's", HIDDEN, |agent| {
            agent.write("README.md", "mine\n");
            agent.git(&["add", "README.md"]);
            agent.git(&["write-tree"]);
            agent.git(&["commit", "--quiet", "--message", "x"]);
            agent.git(&["update-ref", "refs/heads/main", &agent.root.base]);
        }),
        kept("an entry that is in no directory order", HIDDEN, |agent| {
            let path = agent.dot_git().join("index");
            let mut index = Index::read(&path);
            index.entries.swap(0, 1);
            std::fs::write(path, index.bytes()).expect("written");
        }),
        kept("an entry twice", HIDDEN, |agent| {
            edit(agent, |index| {
                let entry = index.entry("README.md").clone();
                index.entries.push(entry);
            });
        }),
        kept("a split index", HIDDEN, |agent| {
            agent.git(&["update-index", "--split-index"]);
        }),
        kept("an extension that must be understood", HIDDEN, |agent| {
            edit(agent, |index| index.extensions.push((*b"evil", vec![0; 8])));
        }),
        moved("an extension that may be overlooked", |agent| {
            edit(agent, |index| index.extensions.push((*b"EVIL", vec![0xff; 100])));
        }),
    ]
}

fn broken_index() -> Vec<Entry> {
    vec![
        kept("an empty index", HIDDEN, |agent| agent.write(".git/index", "")),
        kept("an index that is none", HIDDEN, |agent| agent.write(".git/index", [0xff; 4096])),
        kept("an index cut off", HIDDEN, |agent| {
            let path = agent.dot_git().join("index");
            let bytes = std::fs::read(&path).expect("read");
            std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
        }),
        kept("more entries promised than there are", HIDDEN, |agent| {
            let path = agent.dot_git().join("index");
            let mut bytes = std::fs::read(&path).expect("read");
            bytes[8..12].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
            std::fs::write(path, bytes).expect("written");
        }),
        kept("an extension longer than the file", HIDDEN, |agent| {
            let path = agent.dot_git().join("index");
            let mut bytes = Index::read(&path).bytes();
            let end = bytes.len() - 20;
            bytes.truncate(end);
            bytes.extend(b"UNTR\xff\xff\xff\xf0");
            bytes.extend([0; 20]);
            std::fs::write(path, bytes).expect("written");
        }),
        moved("an untracked cache that crashes git", |agent| {
            agent.git(&["update-index", "--untracked-cache"]);
            agent.git(&["status", "--porcelain"]);
            edit(agent, |index| {
                for (name, content) in &mut index.extensions {
                    let length = content.len();
                    if name == b"UNTR" && length > 397 {
                        content[length - 397..length - 393].fill(0xff);
                    }
                }
            });
        }),
        kept("version 4 with a prefix that is not there", HIDDEN, |agent| {
            agent.git(&["update-index", "--index-version", "4"]);
            let path = agent.dot_git().join("index");
            let mut bytes = std::fs::read(&path).expect("read");
            // The first entry drops bytes of a path before it, of which there is none.
            bytes[12 + 62] = 0x7f;
            std::fs::write(path, bytes).expect("written");
        }),
        kept("names that lead out", HIDDEN, |agent| {
            let victim = agent.canary("victim.txt", "precious\n");
            let up = "../".repeat(agent.clone.components().count() - 1);
            edit(agent, |index| {
                let mut entry = index.entries[0].clone();
                entry.path = format!("{up}{}", victim.strip_prefix("/").expect("absolute").display()).into_bytes();
                index.entries.push(entry);
            });
        }),
        kept("a name in .git", HIDDEN, |agent| {
            edit(agent, |index| {
                let mut entry = index.entries[0].clone();
                entry.path = b".git/hooks/post-checkout".to_vec();
                index.entries.push(entry);
            });
        }),
        kept("a size of nothing for a file that grew without bounds", HIDDEN, |agent| {
            agent.grow("lib/keep.txt", 400 << 30);
            let clone = agent.clone.clone();
            edit(agent, |index| {
                index.forge(&clone, "lib/keep.txt");
                index.entry("lib/keep.txt").stat[SIZE] = 0;
            });
        }),
    ]
}

fn attributes() -> Vec<Entry> {
    vec![
        kept("an untracked file excluded by .git/info/exclude", HIDDEN, |agent| {
            agent.write(".git/info/exclude", "mine.txt\n");
            agent.write_own("mine.txt", "m\n");
        }),
        kept("text that does not count", &[NotAClone], |agent| {
            agent.write(".git/info/attributes", "id.txt ident\n");
            agent.write("id.txt", "head\n$Id: anything that the agent likes $\ntail\n");
            agent.git(&["add", "id.txt"]);
        }),
        kept("an encoding of the agent's", &[NotAClone], |agent| {
            agent.write(".git/info/attributes", "*.py working-tree-encoding=UTF-16LE\n");
            let wide: Vec<u8> = "print('b')\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
            agent.write("src/b.py", wide);
            agent.git(&["add", "src/b.py"]);
        }),
        kept("untracked attributes in a tracked directory", HIDDEN, |agent| {
            agent.write(".git/info/exclude", ".gitattributes\n");
            agent.write("lib/keep.txt", "keep\r\n");
            agent.write("lib/.gitattributes", "*.txt text eol=crlf\n");
            agent.git(&["add", "lib/keep.txt"]);
        }),
        kept("untracked attributes that the tracked rules ignore", HIDDEN, |agent| {
            agent.write("gen/.gitattributes", "* text eol=crlf\n");
            agent.write("src/.gitignore", "*\n");
            agent.write("src/.gitattributes", "* text eol=crlf\n");
        }),
        moved("rules of the agent's that ignore themselves", |agent| {
            agent.write("src/.gitignore", "*\n");
            agent.write_own("src/mine.py", "m\n");
        }),
        kept("tracked attributes changed", HIDDEN, |agent| {
            agent.write(".gitattributes", "*.bat text eol=crlf\n*.dat binary\n*.py ident\n");
        }),
        kept("tracked rules changed", HIDDEN, |agent| {
            agent.append(".gitignore", "mine.txt\n.gitignore\n");
            agent.write_own("mine.txt", "m\n");
        }),
        kept("tracked attributes that became a link", HIDDEN, |agent| {
            agent.write("build/a", "*.bat text eol=crlf\n*.dat binary\n");
            agent.link(".gitattributes", "build/a");
        }),
    ]
}

fn objects() -> Vec<Entry> {
    fn fetched(agent: &Agent<'_>) {
        agent.git(&["fetch", "--quiet"]);
        agent.unpack();
    }
    vec![
        moved("other bytes under the id of the tip's file", |agent| {
            fetched(agent);
            let evil = agent.git_with(&["hash-object", "-w", "--stdin"], b"print('evil')\n");
            agent.poison(&agent.git(&["rev-parse", "origin/main:src/new.py"]), &evil);
        }),
        moved("another directory under the id of the tip's", |agent| {
            fetched(agent);
            let evil = agent.git_with(&["hash-object", "-w", "--stdin"], b"evil\n");
            let link = agent.git_with(&["hash-object", "-w", "--stdin"], agent.outside.to_string_lossy().as_bytes());
            let tree = format!("120000 blob {link}\tsub\n100644 blob {evil}\tadded.md\n");
            let tree = agent.git_with(&["mktree"], tree.as_bytes());
            agent.poison(&agent.git(&["rev-parse", "origin/main:docs"]), &tree);
        }),
        moved("another commit under the tip's id", |agent| {
            fetched(agent);
            let tree = agent.git(&["rev-parse", "HEAD^{tree}"]);
            let evil = agent.git(&["commit-tree", "-p", "HEAD", "-m", "evil", &tree]);
            agent.poison(&agent.root.tip, &evil);
        }),
        kept("another directory under the id of the base's", HIDDEN, |agent| {
            agent.unpack();
            agent.write("src/a.py", "print('evil')\n");
            agent.git(&["add", "src/a.py"]);
            let all = agent.git(&["write-tree"]);
            let evil = agent.git(&["rev-parse", &format!("{all}:src")]);
            agent.poison(&agent.git(&["rev-parse", "HEAD:src"]), &evil);
        }),
        kept("a commit graph that makes the agent's commit an ancestor", &[NotFastForward, Dirty], |agent| {
            agent.git(&["fetch", "--quiet"]);
            agent.write("work.txt", "w\n");
            agent.commit("work");
            agent.git(&["commit-graph", "write", "--reachable"]);
        }),
        moved("rubbish where git keeps its caches", |agent| {
            agent.git(&["repack", "-adq"]);
            agent.write(".git/objects/info/commit-graph", [&b"CGPH\x01\x01\x04\0"[..], &[0xff; 4000]].concat());
            let index = [&b"MIDX\x01\x01\x04\0\0\0\0\x01"[..], &[0xff; 4000]].concat();
            agent.write(".git/objects/pack/multi-pack-index", index);
            agent.write(".git/objects/pack/pack-1.bitmap", [0xff; 100]);
        }),
        moved("rubbish for packs", |agent| {
            agent.write(".git/objects/pack/pack-0000000000000000000000000000000000000000.idx", [0xff; 2000]);
            agent.write(".git/objects/pack/pack-0000000000000000000000000000000000000000.pack", [0xff; 2000]);
        }),
        moved("no objects at all but their directory", |agent| {
            agent.remove_all(".git/objects");
            std::fs::create_dir(agent.dot_git().join("objects")).expect("created");
        }),
        moved("other things named as the tracking branch", |agent| {
            let tree = agent.git(&["rev-parse", "HEAD^{tree}"]);
            let evil = agent.git(&["commit-tree", "-p", "HEAD", "-m", "evil", &tree]);
            for name in ["refs/tags/origin/main", "refs/heads/origin/main", "refs/tags/main"] {
                agent.git(&["update-ref", name, &evil]);
            }
            agent.write(".git/origin/main", format!("{evil}\n"));
            agent.write(".git/main", format!("{evil}\n"));
            agent.write(".git/refs/remotes/origin/main", format!("{evil}\n"));
        }),
        moved("the tracking ref is another branch", |agent| {
            agent.git(&["branch", "other"]);
            agent.write(".git/refs/remotes/origin/main", "ref: refs/heads/other\n");
            agent.own.insert(".git/refs/heads/other".to_owned(), format!("{}\n", agent.root.base).into());
        }),
    ]
}
