//! New clones: what is in them and what is not, whoever owns the root, wherever it is.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use mosaic_checkout::{Request, Verdict, sync};

use crate::agent::Agent;
use crate::bed::{Bed, Way, as_root, at_once, git, git_command, is_root};
use crate::check::{self, Fingerprint};
use crate::roots::{Flavour, Root, commit, init, write};

/// What git itself puts into a `.git` that it makes without a template.
const IN_DOT_GIT: [&str; 7] = ["HEAD", "config", "index", "logs", "objects", "packed-refs", "refs"];
/// What a root's own configuration may hold, and no clone.
const CREDENTIAL: &str = "hunter2-credential";

/// A copy of the plain root with more that no clone gets: tags, hooks, a credential in its configuration.
fn secretive(bed: &Bed) -> PathBuf {
    let (plain, path) = (bed.root(Flavour::Plain), bed.path().join("roots/secretive"));
    copy(&plain.path, &path);
    git(&plain.home, &path, &["tag", "v1"]);
    git(&plain.home, &path, &["tag", "--annotate", "--message", "private", "v2", "private"]);
    let url = format!("https://me:{CREDENTIAL}@example.invalid/x.git");
    git(&plain.home, &path, &["remote", "add", "origin", &url]);
    git(&plain.home, &path, &["config", "credential.helper", &format!("!echo {CREDENTIAL}")]);
    git(&plain.home, &path, &["config", "core.hooksPath", "hooks"]);
    path
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

fn names(directory: &Path) -> BTreeSet<String> {
    let listing = std::fs::read_dir(directory).into_iter().flatten();
    listing.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Everything below `path`, and itself.
fn all_below(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.symlink_metadata().expect("there").is_dir() {
        all.extend(
            std::fs::read_dir(path).expect("read").flat_map(|entry| all_below(&entry.expect("an entry").path())),
        );
    }
    all
}

/// Nothing but the clone is where it was made, and nothing of its making is left.
fn nothing_left(request: &Request, with_clone: bool) {
    let expected = if with_clone { BTreeSet::from(["demo".to_owned()]) } else { BTreeSet::new() };
    assert_eq!(names(request.clone.parent().expect("a parent")), expected);
    for name in ["stage", "mirror.new"] {
        assert!(!request.state.join(name).exists(), "{name} is left");
    }
}

fn cloned(request: &Request) {
    let done = sync(request).expect("cloned");
    assert_eq!((done.verdict, done.reason, done.base), (Verdict::Cloned, None, None), "{}", done.detail);
    nothing_left(request, true);
}

fn unchanged(request: &Request) {
    let before = Fingerprint::of(&request.clone);
    let done = sync(request).expect("looked");
    assert_eq!((done.verdict, done.reason), (Verdict::FastForwarded, None), "{}", done.detail);
    assert_eq!(before.difference(&Fingerprint::of(&request.clone)).next(), None);
}

#[test]
fn a_new_clone_has_the_branch_and_nothing_else() {
    let bed = Bed::new();
    let (plain, secretive) = (bed.root(Flavour::Plain), secretive(&bed));
    let before = Fingerprint::of(&secretive);
    let ways = bed.all_ways();
    at_once(ways.len(), |number, _worker| {
        let request = bed.wanted(&secretive, &format!("new-{number}"), &ways[number]);
        cloned(&request);
        // Before git is asked anything below: it may write the index, as somebody else.
        for path in all_below(&request.clone) {
            let seen = path.symlink_metadata().expect("there");
            assert_eq!((seen.uid(), seen.gid()), (request.owner, request.owner), "{}", path.display());
            assert!(seen.is_symlink() || seen.mode() & 0o022 == 0, "{} is open to others", path.display());
        }
        names_no_place_of_the_hosts(&request);
        assert_eq!(mosaic_checkout::distrusted(&request.clone), []);
        // Neither an update nor a look changes it before the agent does.
        unchanged(&request);
        let agent = Agent::at(bed.path(), plain, request.clone.clone());
        assert_eq!(check::files(&request.clone, plain), [""; 0]);
        assert_eq!(check::sound(&agent), [""; 0]);
        only_the_branch(&agent, &secretive);
        only_plain_settings(&agent, &secretive);
    });
    assert_eq!(before.difference(&Fingerprint::of(&secretive)).next(), None);
}

/// Neither the host's state nor what a box calls it is in any file, nor a credential of the root's.
fn names_no_place_of_the_hosts(request: &Request) {
    let state = request.state.to_string_lossy();
    for path in all_below(&request.clone).iter().filter(|path| path.symlink_metadata().expect("there").is_file()) {
        let content = std::fs::read(path).expect("read");
        for secret in [CREDENTIAL, "mirror.git", "/mirror", "/stage", &state] {
            let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {}", path.display());
        }
    }
}

fn only_the_branch(agent: &Agent<'_>, root: &Path) {
    let more: Vec<_> =
        names(&agent.dot_git()).into_iter().filter(|name| !IN_DOT_GIT.contains(&name.as_str())).collect();
    assert_eq!(more, [""; 0]);
    let refs = agent.git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main");
    assert_eq!(agent.git(&["symbolic-ref", "refs/remotes/origin/HEAD"]), "refs/remotes/origin/main");
    let objects = agent.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let allowed = git(&agent.root.home, root, &["rev-list", "--objects", "--no-object-names", "main"]);
    let allowed: BTreeSet<&str> = allowed.lines().collect();
    let more: Vec<_> = objects.lines().filter(|id| !allowed.contains(id)).collect();
    assert_eq!(more, [""; 0], "objects that are not of the branch");
}

fn only_plain_settings(agent: &Agent<'_>, root: &Path) {
    let listed = agent.git(&["config", "--local", "--list"]);
    let settings: BTreeSet<&str> = listed.lines().collect();
    let url = format!("remote.origin.url={}", root.display());
    let expected = BTreeSet::from([
        "core.repositoryformatversion=0",
        "core.filemode=true",
        "core.bare=false",
        "core.logallrefupdates=true",
        &url,
        "remote.origin.fetch=+refs/heads/main:refs/remotes/origin/main",
        "remote.origin.tagopt=--no-tags",
        "branch.main.remote=origin",
        "branch.main.merge=refs/heads/main",
    ]);
    assert_eq!(settings, expected);
}

#[test]
fn a_clone_follows_its_root_from_tip_to_tip() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for (number, way) in bed.more_ways(2).into_iter().enumerate() {
        let root = bed.path().join(format!("roots/moving-{number}"));
        init(&plain.home, &root, "main");
        let request = bed.wanted(&root, &format!("moving-{number}"), &way);
        for step in 0..4 {
            write(&root, "all", format!("{step}\n"));
            write(&root, &format!("only-{step}/file"), "x\n");
            if step > 0 {
                std::fs::remove_dir_all(root.join(format!("only-{}", step - 1))).expect("removed");
            }
            let tip = commit(&plain.home, &root, "a step");
            if step == 0 {
                cloned(&request);
            } else {
                sync(&request).expect("looked");
            }
            assert_eq!(
                git(&plain.home, &request.clone, &["rev-parse", "HEAD", "@{upstream}"]),
                format!("{tip}\n{tip}")
            );
            assert_eq!(git(&plain.home, &request.clone, &["status", "--porcelain"]), "");
            assert_eq!(std::fs::read_to_string(request.clone.join("all")).expect("read"), format!("{step}\n"));
            assert_eq!(names(&request.clone), BTreeSet::from([".git".into(), "all".into(), format!("only-{step}")]));
            if is_root() {
                // What was asked above left an index of ours.
                chown(request.clone.join(".git/index"), Some(way.owner), Some(way.owner)).expect("given");
            }
        }
        unchanged(&request);
    }
}

#[test]
fn a_root_of_another_user_is_cloned_and_followed() {
    if !as_root("a root of another user") {
        return;
    }
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for (number, way) in bed.more_ways(3).into_iter().enumerate() {
        let root = bed.path().join(format!("roots/foreign-{number}"));
        copy(&plain.path, &root);
        all_below(&root)
            .iter()
            .for_each(|path| std::os::unix::fs::lchown(path, Some(65_533), Some(65_533)).expect("given"));
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).expect("set");
        let before = Fingerprint::of(&root);
        let request = bed.wanted(&root, &format!("foreign-{number}"), &way);
        cloned(&request);
        assert_eq!(check::files(&request.clone, plain), [""; 0]);
        unchanged(&request);
        assert_eq!(before.difference(&Fingerprint::of(&root)).next(), None);
    }
}

/// Roots of all kinds that git itself can clone: by what is in their directory, and by their name.
#[test]
fn roots_of_odd_kinds_and_names_are_cloned() {
    type Make = fn(&Root, &Path);
    let kinds: [(&str, Make); 9] = [
        ("with space 'quote' \"double\" #hash;semi \\back", |plain, path| copy(&plain.path, path)),
        ("-option --upload-pack=x", |plain, path| copy(&plain.path, path)),
        ("\u{fc}n\u{ef}code \u{2603} $(x) `x` %s", |plain, path| copy(&plain.path, path)),
        ("with:colon@at,[1]", |plain, path| copy(&plain.path, path)),
        ("packed", |plain, path| {
            copy(&plain.path, path);
            git(&plain.home, path, &["gc", "--quiet"]);
        }),
        ("borrows", |plain, path| {
            // Its objects are another's: a clone must have its own.
            let (from, to) = (plain.path.to_string_lossy(), path.to_string_lossy());
            git(&plain.home, &plain.home, &["clone", "--quiet", "--shared", "--", &from, &to]);
        }),
        ("worktree", |plain, path| {
            let original = path.with_extension("original");
            copy(&plain.path, &original);
            git(&plain.home, &original, &["checkout", "--quiet", "--force", "private"]);
            git(&plain.home, &original, &["worktree", "add", "--quiet", "--", &path.to_string_lossy(), "main"]);
        }),
        ("configured", |plain, path| {
            copy(&plain.path, path);
            for (key, value) in [
                ("core.autocrlf", "true"),
                ("core.fsmonitor", "true"),
                ("clone.defaultRemoteName", "elsewhere"),
                ("fetch.fsckObjects", "true"),
                ("uploadpack.hideRefs", "refs/heads/private"),
            ] {
                git(&plain.home, path, &["config", key, value]);
            }
        }),
        ("busy", |plain, path| {
            copy(&plain.path, path);
            for name in ["index.lock", "HEAD.lock", "refs/heads/main.lock", "MERGE_HEAD"] {
                std::fs::write(path.join(".git").join(name), format!("{}\n", plain.base)).expect("written");
            }
        }),
    ];
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    let drive = |name: &str, make: Make, number: usize, way: &Way| {
        let root = bed.path().join("roots").join(number.to_string()).join(name);
        std::fs::create_dir_all(root.parent().expect("a parent")).expect("created");
        make(plain, &root);
        let before = Fingerprint::of(&root);
        let request = bed.wanted(&root, &format!("odd-{number}"), way);
        cloned(&request);
        assert_eq!(check::files(&request.clone, plain), [""; 0], "{name}");
        assert!(!request.clone.join(".git/objects/info/alternates").exists());
        unchanged(&request);
        assert_eq!(before.difference(&Fingerprint::of(&root)).next(), None, "{name}");
    };
    at_once(kinds.len(), |number, _worker| {
        let (name, make) = kinds[number];
        bed.ways(number).iter().enumerate().for_each(|(way, chosen)| drive(name, make, number + 100 * way, chosen));
    });
}

#[test]
fn another_branch_than_the_checked_out_one_is_cloned_on_demand() {
    let bed = Bed::new();
    let plain = bed.root(Flavour::Plain);
    for way in bed.ways(4) {
        let request = Request { branch: Some("private".to_owned()), ..bed.wanted(&plain.path, "branch", &way) };
        cloned(&request);
        assert_eq!(git(&plain.home, &request.clone, &["symbolic-ref", "HEAD"]), "refs/heads/private");
        assert_eq!(git(&plain.home, &request.clone, &["rev-parse", "HEAD"]), plain.base);
        // On the other branch now, for the host: it stays where it is.
        let done = sync(&Request { branch: None, ..request.clone() }).expect("looked");
        assert_eq!(done.reason, Some(mosaic_checkout::Reason::OtherBranch));
        let has_tip = git_command(&plain.home, &request.clone).args(["cat-file", "-e", &plain.tip]).output();
        assert!(!has_tip.expect("git runs").status.success(), "the other branch came along");
        std::fs::remove_dir_all(request.clone.parent().expect("a parent")).expect("removed");
    }
}
