//! The parsers with random bytes, and with files of real git's that were changed at random.

use std::path::Path;
use std::process::Command;

/// Random numbers that a seed decides.
struct Chance(u64);

impl Chance {
    /// The seed is told, and taken from `MOSAIC_SEED` where that is set.
    #[expect(clippy::print_stdout, reason = "shown with a test that fails, to repeat it")]
    fn of_this_run() -> Self {
        let seed = std::env::var("MOSAIC_SEED").map_or_else(
            |_unset| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
            |text| text.parse().expect("MOSAIC_SEED is a number"),
        );
        println!("MOSAIC_SEED={seed} makes the same choices again");
        Self(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % bound.max(1) as u64).expect("below")
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(self.below(256)).expect("a byte")).collect()
    }

    /// Text made of the words of a format.
    fn text(&mut self, words: &[&str]) -> Vec<u8> {
        (0..self.below(40)).flat_map(|_| words[self.below(words.len())].bytes()).collect()
    }

    /// A few changes: bytes, lengths, runs that are cut, doubled or moved.
    fn change(&mut self, content: &[u8]) -> Vec<u8> {
        let mut changed = content.to_vec();
        for _ in 0..=self.below(6) {
            let (at, length) = (self.below(changed.len() + 1), self.below(40));
            let end = (at + length).min(changed.len());
            match self.below(8) {
                0 => changed.truncate(at),
                1 => drop(changed.splice(at..end, [])),
                2 => {
                    let run = changed[at..end].to_vec();
                    drop(changed.splice(at..at, run));
                }
                3 => {
                    let run = self.bytes(length);
                    drop(changed.splice(at..at, run));
                }
                4 => changed[at..end].fill([0, 0xff, 0x7f, 0x80][self.below(4)]),
                5 if at + 4 <= changed.len() => {
                    let number = [0, 1, u32::MAX, 1 << 31, 1 << 20][self.below(5)];
                    changed[at..at + 4].copy_from_slice(&number.to_be_bytes());
                }
                _ if at < changed.len() => changed[at] = self.bytes(1)[0],
                _ => {}
            }
        }
        changed
    }
}

/// A tenth of `full`, or as much of it as `MOSAIC_SOAK` says.
fn soak(full: u32) -> u32 {
    let share = std::env::var("MOSAIC_SOAK").ok().and_then(|share| share.parse().ok()).unwrap_or(0.1_f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, far below the bounds")]
    let count = (f64::from(full) * share) as u32;
    count.max(1)
}

/// Git in `directory`, with no configuration but that of the repository.
fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    command.env_clear().env("PATH", path).env("HOME", directory).current_dir(directory);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("LC_ALL", "C")]);
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.invalid"]).args(arguments);
    command
}

fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = git_command(directory, arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A repository whose index has every kind of entry and extension that git writes.
fn repository() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().expect("scratch");
    let top = scratch.path();
    git(top, &["init", "--quiet", "--initial-branch", "main", "."]);
    let long = "p".repeat(200);
    for path in ["a.txt", "deep/er/c", "deep/er/c2", "\u{e4} \n'x'", &long, "z"] {
        let file = top.join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("created");
        std::fs::write(file, path).expect("written");
    }
    std::os::unix::fs::symlink("z", top.join("link")).expect("linked");
    git(top, &["add", "--all"]);
    git(top, &["commit", "--quiet", "--message", "one"]);
    git(top, &["tag", "--annotate", "--message", "t", "v1"]);
    git(top, &["branch", "side/branch"]);
    scratch
}

/// Indexes of all versions, plain and with what `git` can put into them.
fn indexes() -> Vec<Vec<u8>> {
    let scratch = repository();
    let top = scratch.path();
    let mut all = Vec::new();
    let mut keep = || all.push(std::fs::read(top.join(".git/index")).expect("read"));
    for version in ["2", "3", "4"] {
        git(top, &["update-index", "--index-version", version]);
        keep();
    }
    git(top, &["update-index", "--untracked-cache"]);
    git(top, &["status"]);
    keep();
    git(top, &["update-index", "--skip-worktree", "a.txt"]);
    git(top, &["update-index", "--assume-unchanged", "z"]);
    std::fs::write(top.join("announced"), "x").expect("written");
    git(top, &["add", "--intent-to-add", "announced"]);
    keep();
    git(top, &["update-index", "--index-version", "3"]);
    keep();
    git(top, &["update-index", "--split-index"]);
    keep();
    all
}

#[test]
fn random_bytes_and_words_break_no_parser() {
    let mut chance = Chance::of_this_run();
    let id = "0123456789abcdef0123456789abcdef01234567";
    let words = ["[", "]", "\"", "\\", "=", "\n", " ", "\t", "core", "Branch", "x", "#", ";", ".", "\0", "\u{e4}", "n"];
    let of_refs =
        ["ref: refs/heads/", "main", "/", "..", "\n", id, " refs/heads/main", "^", "#", " ", "@{", ".lock", "\0"];
    for _ in 0..soak(200_000) {
        let length = chance.below(400);
        let random = chance.bytes(length);
        super::index(&[b"DIRC\0\0\0", &random[..]].concat());
        for content in [random, chance.text(&words), chance.text(&of_refs)] {
            super::config(&content);
            super::head(&content);
            super::loose_ref(&content);
            super::refs(&content);
            super::index(&content);
        }
    }
}

#[test]
fn files_of_real_git_changed_at_random_break_no_parser() {
    let mut chance = Chance::of_this_run();
    let scratch = repository();
    let dot_git = scratch.path().join(".git");
    git(scratch.path(), &["pack-refs", "--all"]);
    let read = |name: &str| std::fs::read(dot_git.join(name)).expect("read");
    let (config, head, refs) = (read("config"), read("HEAD"), read("packed-refs"));
    let indexes = indexes();
    for _ in 0..soak(100_000) {
        super::config(&chance.change(&config));
        super::head(&chance.change(&head));
        super::refs(&chance.change(&refs));
        let index = &indexes[chance.below(indexes.len())];
        super::index(&chance.change(index));
    }
}

#[test]
fn a_small_index_or_configuration_can_not_ask_for_much_memory() {
    use crate::parse::{parse_config, parse_index};
    // Version 4 tells only what a path does not share with the one before it.
    let long = "p".repeat(4000);
    let mut content = b"DIRC\0\0\0\x04".to_vec();
    let count = 200_000_u32;
    content.extend(count.to_be_bytes());
    for number in 0..count {
        content.extend([0; 60]);
        content.extend(6_u16.to_be_bytes());
        let tail = format!("{number:06}");
        if number == 0 {
            content.push(0);
            content.extend(long.as_bytes());
        } else {
            content.push(6);
        }
        content.extend(tail.as_bytes());
        content.push(0);
    }
    content.extend([0; 20]);
    assert!(parse_index(&content).is_err(), "800 MB of paths in {} bytes", content.len());
    let config = format!("[a \"{}\"]\n{}", "x".repeat(30_000), "k\n".repeat(17_000));
    assert!(parse_config(config.as_bytes()).is_err());
}

#[test]
fn what_git_writes_into_an_index_is_what_is_read() {
    use crate::parse::parse_index;
    let scratch = repository();
    let top = scratch.path();
    git(top, &["update-index", "--assume-unchanged", "z"]);
    for (version, skip) in [("2", false), ("3", true), ("4", true), ("4", false)] {
        let flag = if skip { "--skip-worktree" } else { "--no-skip-worktree" };
        git(top, &["update-index", flag, "a.txt"]);
        git(top, &["update-index", "--index-version", version]);
        let content = std::fs::read(top.join(".git/index")).expect("read");
        assert_eq!(content[7], version.as_bytes()[0] - b'0');
        let index = parse_index(&content).expect("an index");
        assert!(!index.partial);
        let told: Vec<u8> = index
            .entries
            .iter()
            .flat_map(|entry| {
                let facts = format!("{:06o} {} {}\t", entry.mode, entry.id, entry.stage);
                [facts.as_bytes(), &entry.path, b"\0"].concat()
            })
            .collect();
        assert_eq!(told.escape_ascii().to_string(), git(top, &["ls-files", "-s", "-z"]).escape_ascii().to_string());
        let hiding: Vec<&[u8]> =
            index.entries.iter().filter(|entry| entry.hides).map(|entry| entry.path.as_slice()).collect();
        assert_eq!(hiding, if skip { vec![&b"a.txt"[..], b"z"] } else { vec![&b"z"[..]] });
    }
    std::fs::write(top.join("announced"), "x").expect("written");
    git(top, &["add", "--intent-to-add", "announced"]);
    let read = || parse_index(&std::fs::read(top.join(".git/index")).expect("read")).expect("an index");
    assert!(read().entries.iter().any(|entry| entry.intent_to_add && entry.path == b"announced"));
    git(top, &["update-index", "--split-index"]);
    assert!(read().partial);
}

#[test]
fn sides_of_a_merge_are_told_apart() {
    let scratch = repository();
    let top = scratch.path();
    for (branch, content) in [("side/branch", "theirs"), ("main", "ours")] {
        git(top, &["checkout", "--quiet", branch]);
        std::fs::write(top.join("a.txt"), content).expect("written");
        git(top, &["commit", "--quiet", "--all", "--message", content]);
    }
    let merged = git_command(top, &["merge", "side/branch"]).output().expect("git runs");
    assert!(!merged.status.success());
    let index = crate::parse::parse_index(&std::fs::read(top.join(".git/index")).expect("read")).expect("an index");
    let stages = index.entries.iter().filter(|entry| entry.path == b"a.txt").map(|entry| entry.stage);
    assert_eq!(stages.collect::<Vec<u8>>(), [1, 2, 3]);
}

#[test]
fn a_configuration_that_is_read_says_what_it_says_to_git() {
    let mut chance = Chance::of_this_run();
    let scratch = tempfile::tempdir().expect("scratch");
    let path = scratch.path().join("config");
    let words = [
        "[core]\n",
        "[Remote \"o.R\"]\n",
        "\tKey",
        "\ta-1",
        " = ",
        "=",
        "\n",
        "\n",
        "v",
        "\"q \\\"\\\\\\t\"",
        " ",
        "w x",
    ];
    let (mut read, mut tried) = (0, 0);
    while read < soak(1000) && tried < 1_000_000 {
        tried += 1;
        let content = chance.text(&words);
        let Ok(entries) = crate::parse::parse_config(&content) else { continue };
        if entries.is_empty() {
            continue;
        }
        read += 1;
        std::fs::write(&path, &content).expect("written");
        let told: String = entries
            .iter()
            .map(|entry| {
                let value = entry.value.as_ref().map(|value| format!("\n{value}")).unwrap_or_default();
                format!("{}.{}{value}\0", entry.section, entry.key)
            })
            .collect();
        let git = git(scratch.path(), &["config", "--file", "config", "--no-includes", "--list", "-z"]);
        assert_eq!(told, String::from_utf8_lossy(&git), "{:?}", content.escape_ascii().to_string());
    }
    assert!(read > 0);
}
