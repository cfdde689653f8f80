//! What stands in the way of the host itself: roots that are none, what a crash left, a place that can't be written to.

use std::path::Path;

use mosaic_checkout::{Containment, MirrorError, Reason, Request, Verdict, inspect, sync};

use crate::agent::Agent;
use crate::bed::{Bed, at_once, git};
use crate::check::{self, Fingerprint};
use crate::roots::{Flavour, Root, commit, init, write};

fn nothing_left(request: &Request, name: &str) {
    let left: Vec<_> = std::fs::read_dir(request.clone.parent().expect("a parent")).expect("read").collect();
    assert!(left.is_empty(), "{name}: {left:?}");
    for part in ["stage", "mirror.new"] {
        assert!(!request.state.join(part).exists(), "{name}: {part} is left");
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    NoBranch,
    NoRoot,
    Anything,
}

type Make = fn(&Root, &Path);

const ROOTS: [(&str, Told, Make); 12] = [
    ("none", Told::NoRoot, |_, _| {}),
    ("a file", Told::NoRoot, |_, path| std::fs::write(path, "x").expect("written")),
    ("no repository", Told::NoRoot, |_, path| std::fs::create_dir(path).expect("created")),
    ("a directory of a repository", Told::Anything, |plain, path| {
        init(&plain.home, path.parent().expect("a parent"), "main");
        write(path.parent().expect("a parent"), "x", "x\n");
        commit(&plain.home, path.parent().expect("a parent"), "x");
        std::fs::create_dir(path).expect("created");
    }),
    ("no commit", Told::NoBranch, |plain, path| init(&plain.home, path, "main")),
    ("no branch", Told::NoBranch, |plain, path| {
        small(plain, path);
        git(&plain.home, path, &["checkout", "--quiet", "--detach"]);
    }),
    ("a branch that is gone", Told::NoBranch, |plain, path| {
        small(plain, path);
        git(&plain.home, path, &["update-ref", "-d", "refs/heads/main"]);
    }),
    ("a ref that is no branch", Told::NoBranch, |plain, path| {
        small(plain, path);
        git(&plain.home, path, &["symbolic-ref", "HEAD", "refs/other/main"]);
    }),
    ("objects that are gone", Told::Anything, |plain, path| {
        small(plain, path);
        let blob = git(&plain.home, path, &["rev-parse", "HEAD:x"]);
        std::fs::remove_file(path.join(".git/objects").join(&blob[..2]).join(&blob[2..])).expect("removed");
    }),
    ("objects that are broken", Told::Anything, |plain, path| {
        small(plain, path);
        let tree = git(&plain.home, path, &["rev-parse", "HEAD^{tree}"]);
        let object = path.join(".git/objects").join(&tree[..2]).join(&tree[2..]);
        std::fs::remove_file(&object).expect("removed");
        std::fs::write(&object, "rubbish").expect("written");
    }),
    ("objects of another kind", Told::Anything, |plain, path| {
        std::fs::create_dir(path).expect("created");
        git(&plain.home, path, &["init", "--quiet", "--object-format=sha256", "--initial-branch=main", "."]);
        write(path, "x", "x\n");
        commit(&plain.home, path, "x");
    }),
    ("a history that was cut off", Told::Anything, |plain, path| {
        let (from, to) = (format!("file://{}", plain.path.display()), path.to_string_lossy());
        git(&plain.home, &plain.home, &["clone", "--quiet", "--depth", "1", &from, &to]);
    }),
];

fn small(plain: &Root, path: &Path) {
    init(&plain.home, path, "main");
    write(path, "x", "x\n");
    commit(&plain.home, path, "x");
}

#[test]
fn a_root_that_can_not_be_cloned_is_told_and_nothing_is_left() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    at_once(ROOTS.len(), |number, _worker| {
        let (name, told, make) = ROOTS[number];
        let path = bed.path().join("roots").join(number.to_string()).join("root");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        make(plain, &path);
        let before = Fingerprint::of(&path);
        for way in bed.ways(number) {
            let request = bed.wanted(&path, &format!("bad-{number}"), &way);
            for _ in 0..2 {
                let error = sync(&request).expect_err(name);
                let fits = match told {
                    Told::NoBranch => matches!(error, MirrorError::NoBranch { .. }),
                    Told::NoRoot => matches!(error, MirrorError::Root { .. }),
                    Told::Anything => true,
                };
                assert!(fits, "{name}: {error:?}");
                assert!(!error.to_string().contains(char::is_control), "{name}: {error:?}");
                nothing_left(&request, name);
            }
        }
        assert_eq!(before.difference(&Fingerprint::of(&path)).next(), None, "{name}");
    });
}

#[test]
fn branches_that_are_none_are_told() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for way in bed.ways(1) {
        for name in
            ["nowhere", "", "-x", "--upload-pack=touch", "main..main", "../x", "main\n", "HEAD", "v1", "a b", "@"]
        {
            let request = Request { branch: Some(name.to_owned()), ..bed.wanted(&plain.path, "names", &way) };
            let error = sync(&request).expect_err(name);
            assert!(matches!(error, MirrorError::UnknownBranch { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains("has no branch `"), "{error}");
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            nothing_left(&request, name);
        }
    }
}

#[test]
fn a_clone_stays_while_its_root_has_no_branch_or_is_gone() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for (number, way) in bed.more_ways(2).into_iter().enumerate() {
        let root = bed.path().join(format!("roots/leaves-{number}"));
        small(plain, &root);
        let request = bed.wanted(&root, &format!("leaves-{number}"), &way);
        sync(&request).expect("cloned");
        let before = Fingerprint::of(&request.clone);
        git(&plain.home, &root, &["checkout", "--quiet", "--detach"]);
        for step in [inspect, sync] {
            let done = step(&request).expect("looked");
            assert_eq!((done.verdict, done.reason), (Verdict::CheckoutKept, Some(Reason::NoBranch)));
        }
        std::fs::rename(&root, root.with_extension("away")).expect("moved");
        for step in [inspect, sync] {
            let done = step(&request).expect("looked");
            assert_eq!((done.verdict, done.reason), (Verdict::CheckoutKept, Some(Reason::GitFailed)), "{done:?}");
            assert!(done.detail.contains("can't be read"), "{done:?}");
        }
        assert_eq!(before.difference(&Fingerprint::of(&request.clone)).next(), None);
    }
}

#[test]
fn without_containment_or_git_nothing_is_made_and_nothing_changes() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for way in bed.ways(0) {
        let nothing = [None, Some(Containment::Bubblewrap("/nonexistent/bwrap".into()))];
        for containment in nothing {
            let request = Request { containment, ..bed.wanted(&plain.path, "uncontained", &way) };
            let error = sync(&request).expect_err("nothing contains it");
            assert!(matches!(error, MirrorError::Git(_)), "{error:?}");
            nothing_left(&request, "no containment");
            let mut agent = Agent::begin(bed.path(), plain);
            agent.end(way.owner);
            let before = Fingerprint::of(&agent.clone);
            let done = sync(&Request { clone: agent.clone.clone(), ..request }).expect("looked");
            assert_eq!((done.verdict, done.reason), (Verdict::CheckoutKept, Some(Reason::GitFailed)), "{done:?}");
            assert_eq!(before.difference(&Fingerprint::of(&agent.clone)).next(), None);
        }
        let request = Request { git: "/nonexistent/git".into(), ..bed.wanted(&plain.path, "gitless", &way) };
        sync(&request).expect_err("no git");
        nothing_left(&request, "no git");
    }
}

#[test]
fn a_place_that_can_not_be_written_to_is_told() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for way in bed.ways(5) {
        let request = bed.wanted(&plain.path, "place", &way);
        let clone = request.clone.parent().expect("a parent").join("none/demo");
        let error = sync(&Request { clone, ..request.clone() }).expect_err("no directory");
        assert!(matches!(error, MirrorError::Io { .. }), "{error:?}");
        nothing_left(&request, "no directory");
    }
}

/// What a host that was killed at work leaves: half a clone, half a mirror, files of the next one, locks of git's.
#[test]
fn what_a_crash_left_is_overcome() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for (number, way) in bed.more_ways(1).into_iter().enumerate() {
        let root = bed.path().join(format!("roots/crashed-{number}"));
        small(plain, &root);
        let request = bed.wanted(&root, &format!("crashed-{number}"), &way);
        let state = &request.state;
        for path in ["stage/clone/.git/HEAD", "stage/clone/x", "mirror.new/HEAD", "mirror.new/objects/x"] {
            write(state, path, "half\n");
        }
        assert_eq!(sync(&request).expect("cloned").verdict, Verdict::Cloned);
        write(&root, "x", "y\n");
        let tip = commit(&plain.home, &root, "y");
        let shadow = std::fs::read_dir(state.join("clones")).into_iter().flatten().flatten().next();
        let shadow = shadow.map_or_else(|| "clones/0123456789abcdef".into(), |entry| entry.path());
        for path in [
            "mirror.git/refs/heads/main.lock",
            "mirror.git/packed-refs.lock",
            "mirror.git/shallow.lock",
            "mirror.git/HEAD.lock",
            "mirror.git/objects/pack/tmp_pack_x",
            "gitconfig.1",
            "stage/clone/x",
        ] {
            write(state, path, "half\n");
        }
        write(&shadow, "index.lock", "half\n");
        write(&shadow.with_extension("pack"), "pack-x.pack", "half\n");
        let done = sync(&request).expect("looked");
        assert_eq!((done.verdict, done.reason), (Verdict::FastForwarded, None), "{done:?}");
        assert_eq!(git(&plain.home, &request.clone, &["rev-parse", "HEAD"]), tip);
        assert!(!state.join("stage").exists());
    }
}

/// A mirror is rebuilt from the root: what is broken in it is the host's own fault, and never the clone's end.
#[test]
fn a_state_that_is_gone_is_made_anew() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for way in bed.ways(6) {
        let mut agent = Agent::begin(bed.path(), plain);
        agent.end(way.owner);
        let request = bed.request(&agent, &way);
        for _ in 0..2 {
            let done = sync(&request).expect("looked");
            assert_eq!((done.verdict, done.reason), (Verdict::FastForwarded, None), "{done:?}");
            assert_eq!(check::files(&agent.clone, plain), [""; 0]);
            std::fs::remove_dir_all(&request.state).expect("removed");
        }
        agent.remove();
    }
}
