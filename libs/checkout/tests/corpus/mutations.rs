//! Clones changed at random: hostile ones may end anyhow, but run nothing, hang nowhere and change nothing; honest ones are
//! brought up to date.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mosaic_checkout::Verdict;

use crate::agent::Agent;
use crate::bed::{Bed, Expect, at_once, soak};
use crate::check::{self, Fingerprint};
use crate::index::Index;
use crate::roots::Flavour;

/// Random numbers that a seed decides.
pub(crate) struct Chance(u64);

/// Where chance begins in this run: it is told, and taken from `MOSAIC_SEED` where that is set.
#[expect(clippy::print_stdout, reason = "shown with a test that fails, to repeat it")]
pub(crate) fn seed() -> u64 {
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seed = std::env::var("MOSAIC_SEED").map_or_else(
        |_unset| u64::from(std::process::id()) << 32 ^ u64::from(clock().subsec_nanos()),
        |text| text.parse().expect("MOSAIC_SEED is a number"),
    );
    println!("MOSAIC_SEED={seed} makes the same choices again");
    seed
}

impl Chance {
    /// Chance of one clone of a run.
    pub(crate) fn of(seed: u64, number: usize) -> Self {
        Self(seed ^ (number as u64) << 48)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below")
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[test]
fn clones_changed_at_random_run_nothing_and_hang_nowhere() {
    let (bed, seed) = (Bed::new(), seed());
    let root = bed.root(Flavour::Plain);
    let before_root = Fingerprint::of(&root.path);
    at_once(soak(2000) as usize, |number, _worker| {
        let mut chance = Chance::of(seed, number);
        let mut agent = Agent::begin(bed.path(), root);
        agent.canary("precious", "precious\n");
        let done: Vec<String> = (0..=chance.below(4)).filter_map(|_| mutate(&mut chance, &agent)).collect();
        let way = chance.pick(&bed.ways(number)).clone();
        agent.end(way.owner);
        let before = Fingerprint::of(&agent.clone);
        let start = Instant::now();
        let result = mosaic_checkout::sync(&bed.request(&agent, &way));
        let mut faults = agent.faults();
        if start.elapsed() > Duration::from_secs(30) {
            faults.push(format!("took {:?}", start.elapsed()));
        }
        match &result {
            Ok(checkout) => {
                faults.extend(check::clone(checkout, &agent, root, &before));
                faults.extend(check::list(checkout));
            }
            // Without the clone, one would be made; there is no other reason not to say what it is.
            Err(error) => faults.push(format!("failed: {error}")),
        }
        assert!(faults.is_empty(), "number {number}, after {done:?}: {faults:#?}\n{result:?}");
        agent.remove();
    });
    assert_eq!(before_root.difference(&Fingerprint::of(&root.path)).next(), None);
}

#[test]
fn honest_work_of_all_kinds_together_is_brought_up_to_date() {
    let (bed, seed) = (Bed::new(), seed());
    at_once(soak(300) as usize, |number, _worker| {
        let mut chance = Chance::of(seed, number);
        let root = bed.root(*chance.pick(&[Flavour::Plain, Flavour::Super, Flavour::Branch, Flavour::EmptyTip]));
        let mut agent = Agent::begin(bed.path(), root);
        let done: Vec<&str> = (0..3 + chance.below(5)).map(|_| honest(&mut chance, &agent)).collect();
        let way = chance.pick(&bed.ways(number)).clone();
        agent.end(way.owner);
        let request = bed.request(&agent, &way);
        let before = Fingerprint::of(&agent.clone);
        let checkout = mosaic_checkout::sync(&request).expect("looked");
        let mut faults = check::verdict(&checkout, Expect::Moved);
        faults.extend(check::clone(&checkout, &agent, root, &before));
        faults.extend(agent.faults());
        // The agent goes on: its git finds a clean clone, at the tip, and another checkout finds nothing to do.
        faults.extend(check::sound(&agent));
        assert!(faults.is_empty(), "number {number}, after {done:?}: {faults:#?}");
        agent.end(way.owner);
        let again = mosaic_checkout::sync(&request).expect("looked");
        assert_eq!((again.verdict, again.reason), (Verdict::FastForwarded, None), "{again:?}");
        agent.remove();
    });
}

/// All paths below `directory`, as far as they can be listed.
fn paths(directory: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) && depth < 20 {
            paths(&path, depth + 1, all);
        }
        all.push(path);
    }
}

/// One change at random, most of them in `.git`. Returns what it was.
fn mutate(chance: &mut Chance, agent: &Agent<'_>) -> Option<String> {
    let mut all = Vec::new();
    let in_git = chance.below(3) > 0;
    paths(if in_git { agent.clone.join(".git") } else { agent.clone.clone() }.as_path(), 0, &mut all);
    all.sort();
    if all.is_empty() {
        return None;
    }
    let path = chance.pick(&all).clone();
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < 1 << 20);
    let kind = chance.below(17);
    let content = || std::fs::read(&path).unwrap_or_default();
    let done: std::io::Result<()> = match kind {
        0..=2 if is_file => {
            let mut bytes = content();
            for _ in 0..=chance.below(8) {
                if !bytes.is_empty() {
                    let at = chance.below(bytes.len());
                    bytes[at] = chance.next().to_le_bytes()[0];
                }
            }
            std::fs::write(&path, bytes)
        }
        3 if is_file => {
            let bytes = content();
            std::fs::write(&path, &bytes[..chance.below(bytes.len() + 1)])
        }
        4 if is_file => {
            let length = chance.below(200);
            std::fs::write(&path, [content(), chance.bytes(length)].concat())
        }
        5 => remove(&path),
        6 => {
            let targets = [agent.outside.clone(), agent.outside.join("precious"), "/etc/passwd".into(), "..".into()];
            remove(&path).and_then(|()| symlink(chance.pick(&targets), &path))
        }
        7 => remove(&path)
            .and_then(|()| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).map_err(std::io::Error::from)),
        8 => remove(&path).and_then(|()| std::fs::create_dir(&path)),
        9 => std::fs::hard_link(&path, agent.clone.join("second-name")),
        10 => std::fs::rename(&path, path.with_file_name(chance.pick(&NAMES))),
        11 => {
            let name = path.parent().unwrap_or(&path).join(chance.pick(&NAMES));
            let length = chance.below(400);
            overwrite(&name, &chance.bytes(length))
        }
        12 => {
            let mode = u32::try_from(chance.below(0o1000)).expect("small");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
        }
        13 => {
            let line = chance.pick(&SETTINGS).replace("CMD", &agent.command());
            append(&agent.clone.join(".git/config"), line.as_bytes())
        }
        14 => extension(chance, &agent.clone.join(".git/index")),
        15 => {
            let size = 1 << (10 + chance.below(30));
            open(&path).and_then(|file| file.set_len(size))
        }
        16 => std::fs::rename(&path, agent.clone.join(chance.pick(&NAMES))),
        _ => return None,
    };
    Some(format!("{kind} at {}: {done:?}", path.display()))
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}

/// Opens a file to write to it, and nothing but a file: a pipe would wait for somebody else.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = (nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW).bits();
    std::fs::OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

fn overwrite(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = open(path)?;
    file.set_len(0)?;
    file.write_all(content)
}

fn append(path: &Path, more: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    // A pipe would have to be opened by somebody else, too.
    if !path.symlink_metadata()?.is_file() {
        return Ok(());
    }
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(more)
}

/// An extension of the index with a known name, or an unknown one, and random content and claimed length.
fn extension(chance: &mut Chance, path: &Path) -> std::io::Result<()> {
    if !path.symlink_metadata()?.is_file() || !std::fs::read(path)?.starts_with(b"DIRC\0\0\0\x02") {
        return Ok(());
    }
    let Ok(mut index) = std::panic::catch_unwind(|| Index::read(path)) else { return Ok(()) };
    let name = **chance.pick(&[b"TREE", b"REUC", b"link", b"UNTR", b"FSMN", b"EOIE", b"IEOT", b"sdir", b"xxxx"]);
    let length = chance.below(300);
    index.extensions.push((name, chance.bytes(length)));
    for entry in &mut index.entries {
        if chance.below(20) == 0 {
            entry.flags ^= 1 << (12 + chance.below(4)) & 0xb000;
            entry.more_flags = u16::try_from(chance.below(8)).expect("small") << 13 & 0x6000;
        }
    }
    std::fs::write(path, index.bytes())
}

/// Names that git knows, or that are awkward.
const NAMES: [&str; 24] = [
    "HEAD",
    "config",
    "index",
    "index.lock",
    "commondir",
    "gitdir",
    "config.worktree",
    "shallow",
    "packed-refs",
    "MERGE_HEAD",
    "FETCH_HEAD",
    "ORIG_HEAD",
    "alternates",
    "grafts",
    "attributes",
    "exclude",
    "sparse-checkout",
    ".gitattributes",
    ".gitignore",
    ".gitmodules",
    ".git",
    "-x",
    "\u{1b}[2J\n",
    "main.lock",
];

/// Lines of a configuration, `CMD` for a command that tells that it ran.
const SETTINGS: [&str; 10] = [
    "[core]\n\tfsmonitor = CMD\n",
    "[core]\n\thooksPath = .git\n",
    "[filter \"x\"]\n\tclean = CMD\n\tsmudge = CMD\n\tprocess = CMD\n",
    "[remote \"origin\"]\n\tuploadpack = CMD\n",
    "[include]\n\tpath = /dev/stdin\n",
    "[core]\n\tworktree = /tmp\n",
    "[gc]\n\tauto = 1\n",
    "[user]\n\tname = a\n",
    "[alias]\n\tstatus = !CMD\n",
    "[diff]\n\texternal = CMD\n",
];

/// One thing that agents do every day, after which the clone is clean and on its branch.
fn honest(chance: &mut Chance, agent: &Agent<'_>) -> &'static str {
    let number = chance.next();
    match chance.below(16) {
        0 => {
            agent.git(&["config", "user.name", &format!("Agent {number}")]);
            agent.git(&["config", "user.email", "a@example.invalid"]);
            "named itself"
        }
        1 => {
            agent.write("README.md", format!("{number}\n"));
            agent.git(&["stash", "push", "--quiet"]);
            "stashed"
        }
        2 => {
            agent.git(&["checkout", "--quiet", "-b", &format!("side-{number}")]);
            agent.write("side.txt", format!("{number}\n"));
            agent.commit("side");
            agent.git(&["checkout", "--quiet", &agent.root.branch]);
            "worked on a branch"
        }
        3 => {
            agent.write(&format!("build/{number}/out.o"), "o");
            agent.write("node_modules/x/index.js", format!("{number}"));
            "built"
        }
        4 => {
            agent.git(&["gc", "--quiet"]);
            "collected garbage"
        }
        5 => {
            agent.git(&["pack-refs", "--all"]);
            "packed refs"
        }
        6 => {
            agent.age(number % 100_000);
            "touched"
        }
        7 => {
            agent.write("tmp.txt", "t");
            agent.commit("tmp");
            agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
            "committed and undid it"
        }
        8 => {
            agent.git(&["tag", &format!("t{number}")]);
            "tagged"
        }
        9 => {
            agent.git(&["fetch", "--quiet"]);
            "fetched"
        }
        10 => {
            agent.git(&["merge", "--quiet", "--ff-only", "@{upstream}"]);
            "merged what it knew"
        }
        11 => {
            let version = *chance.pick(&["2", "3", "4"]);
            agent.git(&["update-index", "--index-version", version]);
            "rewrote the index"
        }
        12 => {
            agent.git(&["update-index", "--untracked-cache"]);
            agent.git(&["status"]);
            "cached"
        }
        13 => {
            agent.script(".git/hooks/post-checkout");
            agent.mode(".git/hooks/post-checkout", 0o644);
            "wrote a hook"
        }
        14 => {
            agent.write("README.md", format!("{number}\n"));
            agent.git(&["checkout", "--quiet", "HEAD", "--", "README.md"]);
            "changed and restored"
        }
        _ => {
            agent.git(&["commit-graph", "write", "--reachable"]);
            agent.git(&["repack", "-adq"]);
            "repacked"
        }
    }
}
