//! Generated work trees: what is taken out and put in elsewhere is the same tree.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::bed::{Bed, agent, git, write};

/// Work trees at the full count.
const TREES: f64 = 200.0;

/// A small generator of numbers; the seed is in every message.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        // Steele, Lea and Flood's SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn name(&mut self) -> Vec<u8> {
        let odd: [&[u8]; 12] = [
            b"a",
            b"B",
            b"sp ace",
            b"new\nline",
            b"q\"uote",
            b"back\\slash",
            b"\xff\xfe",
            "größe".as_bytes(),
            b"-dash",
            b"tab\t",
            b"$(x)",
            b"'",
        ];
        let number = self.next(40);
        [odd[usize::try_from(self.next(12)).expect("small")], number.to_string().as_bytes()].concat()
    }

    fn path(&mut self) -> PathBuf {
        let mut path = PathBuf::new();
        for _ in 0..self.next(3) {
            path.push(format!("d{}", self.next(4)));
        }
        path.push(std::ffi::OsStr::from_bytes(&self.name()));
        path
    }

    fn content(&mut self) -> Vec<u8> {
        let length = self.next(400);
        match self.next(4) {
            0 => (0..length).map(|_| u8::try_from(self.next(256)).expect("a byte")).collect(),
            1 => Vec::new(),
            2 => b"no end of line".to_vec(),
            _ => (0..length / 8).flat_map(|_| format!("line {}\r\n", self.next(9)).into_bytes()).collect(),
        }
    }
}

/// Does to a tree what agents do, `times` times.
fn change(top: &Path, numbers: &mut Numbers, times: u64) {
    for _ in 0..times {
        let path = numbers.path();
        let at = top.join(&path);
        let way_is_free = path.ancestors().skip(1).all(|parent| {
            let parent = top.join(parent);
            !parent.is_symlink() && (!parent.exists() || parent.is_dir())
        });
        if !way_is_free || at.is_dir() {
            continue;
        }
        match numbers.next(6) {
            0 => drop(std::fs::remove_file(&at)),
            1 if !at.is_symlink() && at.exists() => {
                std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).expect("mode");
            }
            2 => {
                drop(std::fs::remove_file(&at));
                std::fs::create_dir_all(at.parent().expect("a parent")).expect("made");
                std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&numbers.name()), &at).expect("linked");
            }
            _ => {
                drop(std::fs::remove_file(&at));
                write(top, &path, numbers.content());
            }
        }
    }
}

#[test]
fn what_is_taken_out_and_put_in_elsewhere_is_the_same_tree() {
    let soak: f64 = std::env::var("MOSAIC_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(0.1);
    let seed = std::env::var("MOSAIC_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
    let mut count = 0;
    while f64::from(count) < (TREES * soak).max(1.0) {
        round_trip(seed + u64::from(count));
        count += 1_u32;
    }
}

fn round_trip(seed: u64) {
    let mut numbers = Numbers(seed);
    let bed = Bed::with(|root| {
        write(root, "first", "f");
        change(root, &mut numbers, 30);
    });
    change(&bed.clone(), &mut numbers, 30);
    if nix::unistd::geteuid().is_root() {
        bed.own(agent());
    }
    let (work, _) = bed.work();

    // The tree that git makes of a copy of the files, in a repository of its own.
    let copy = bed.path("copy");
    let status = std::process::Command::new("cp").args(["-a"]).arg(bed.clone()).arg(&copy).status();
    assert!(status.expect("cp runs").success());
    std::fs::remove_dir_all(copy.join(".git")).expect("removed");
    let own =
        std::process::Command::new("chown").args(["-hR", &nix::unistd::geteuid().to_string()]).arg(&copy).status();
    assert!(own.expect("chown runs").success());
    git(&copy, &["init", "--quiet"]);
    git(&copy, &["-c", "core.autocrlf=false", "add", "--all", "--force", "."]);
    let expected = git(&copy, &["write-tree"]);
    assert_eq!(work.tree, expected, "seed {seed}");

    let there = bed.elsewhere(&work);
    let patch = bed.out().join("work.patch");
    if work.files > 0 {
        git(&there, &["apply", "--index", "--binary", "--whitespace=nowarn", patch.to_str().expect("text")]);
    }
    assert_eq!(git(&there, &["write-tree"]), expected, "seed {seed}: the patch");
    assert_eq!(git(&there, &["rev-parse", "refs/agent/work^{tree}"]), expected, "seed {seed}: the bundle");
}
