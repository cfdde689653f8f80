//! What honest agents leave.

use mosaic_record::{HarvestFailure, LeftOutReason, ReviewFlag};

use crate::bed::{Bed, git, state_of, write};

#[test]
fn everything_that_was_done_is_taken_and_the_clone_stays_as_it_is() {
    let bed = Bed::new();
    bed.agent(
        "echo committed >c; git add c; git commit -qm one; git checkout -qb side; echo s >s; git add s; git commit -qm side
         git checkout -q main; git tag -a v1 -m tag; echo gone >away; git add away; git commit -qm away
         git rev-parse HEAD >../away; git reset -q --hard HEAD~1
         echo stashed >README; git stash -q; git rev-parse refs/stash >../stash
         echo staged >staged; git add staged; echo later >staged; git rm -q src/deep/b.txt; chmod +x src/a.txt
         printf 'bin\\0ary' >bin; ln -s /etc/passwd out; ln -s src/a.txt in; mkdir -p build; echo o >build/o; echo l >x.log
         printf x >'new
line'; printf y >\"$(printf 'q\\377\\\"')\"; mkdir -p empty; echo '{}' >package.json",
    );
    let before = state_of(&bed.clone());
    let (work, handoff) = bed.work();
    assert_eq!(state_of(&bed.clone()), before, "the clone is as it was");

    let there = bed.elsewhere(&work);
    let id = |name: &str| std::fs::read_to_string(bed.path("workspace").join(name)).expect("noted").trim().to_owned();
    for commit in [id("away"), id("stash"), git(&bed.clone(), &["-c", "safe.directory=*", "rev-parse", "side"])] {
        git(&there, &["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    }
    assert!(handoff.tips.iter().any(|tip| tip.name == "refs/tags/v1"), "{:?}", handoff.tips);
    assert_eq!(git(&there, &["show", "refs/agent/snap/index:staged"]), "staged");
    assert_eq!(git(&there, &["show", "refs/agent/work:staged"]), "later");
    assert_eq!(git(&there, &["show", "refs/agent/snap/ignored:build/o"]), "o");
    assert_eq!(git(&there, &["show", "refs/agent/snap/ignored:x.log"]), "l");
    let listed = git(&there, &["ls-tree", "-r", "refs/agent/work"]);
    for expected in ["100755 blob", "120000 blob", "\tbin", "new\\nline", "q\\377"] {
        assert!(listed.contains(expected), "{expected} in {listed}");
    }
    assert!(!listed.contains("b.txt") && !listed.contains("x.log"), "{listed}");

    // The patch makes the same tree.
    let patch = bed.out().join("work.patch");
    git(&there, &["apply", "--index", "--binary", "--whitespace=nowarn", patch.to_str().expect("text")]);
    assert_eq!(git(&there, &["write-tree"]), work.tree);
    assert_eq!(git(&there, &["rev-parse", &format!("{}^{{tree}}", work.commit)]), work.tree);
    assert_eq!(git(&there, &["rev-parse", &format!("{}^", work.commit)]), work.base);
    let message = git(&there, &["log", "-1", "--format=%(trailers)", &work.commit]);
    assert_eq!(message, "Mosaic-Run: r-1\nMosaic-Requirement: REQ-X-1\nMosaic-Agent: scripted (m)");

    let flagged = |flag| handoff.flags.iter().any(|flagged| flagged.flag == flag);
    use ReviewFlag::{Binary, Build, Executable, Link, LinkLeavesTree, OddName};
    for flag in [Binary, Build, Executable, Link, LinkLeavesTree, OddName] {
        assert!(flagged(flag), "{flag}");
    }
    let left: Vec<_> = work.left_out.iter().map(|left| (left.reason, left.count)).collect();
    assert_eq!(left, [(LeftOutReason::EmptyDirectory, 1)]);
    assert_eq!(bed.tree().as_deref(), Some(work.tree.as_str()), "the identity of the tree is the same");
}

#[test]
fn a_clone_that_nothing_was_done_in_gives_no_files() {
    let bed = Bed::new();
    let (work, handoff) = bed.work();
    assert_eq!((work.files, work.flags, work.left_out.len(), handoff.tips.len()), (0, 0, 0, 0));
    assert_eq!(work.tree, git(&bed.root(), &["rev-parse", "main^{tree}"]));
    assert_eq!(std::fs::read(bed.out().join("work.patch")).expect("written"), b"");
    // Again: the same commit, whenever it is made.
    assert_eq!(bed.work().0.commit, work.commit);
}

#[test]
fn the_sides_of_an_unfinished_merge_are_kept() {
    let bed = Bed::new();
    bed.agent(
        "git checkout -qb side; echo side >README; git commit -qam side; git checkout -q main; echo main >README
         git commit -qam main; git merge -q side || true",
    );
    let (work, handoff) = bed.work();
    let there = bed.elsewhere(&work);
    assert_eq!(git(&there, &["show", "refs/agent/snap/stage-1:README"]), "hello");
    assert_eq!(git(&there, &["show", "refs/agent/snap/stage-2:README"]), "main");
    assert_eq!(git(&there, &["show", "refs/agent/snap/stage-3:README"]), "side");
    assert!(git(&there, &["show", "refs/agent/work:README"]).contains("<<<<<<<"));
    assert!(handoff.snapshots.iter().any(|tip| tip.name == "refs/agent/snap/stage-3"));
}

#[test]
fn line_ends_that_the_root_converts_are_no_change() {
    let bed = Bed::with(|root| {
        write(root, ".gitattributes", "*.txt text eol=crlf\n");
        write(root, "a.txt", "one\r\ntwo\r\n");
        write(root, "b.txt", "b\r\n");
    });
    bed.agent("printf 'one\\r\\nnew\\r\\n' >a.txt; echo '*.txt -text' >.gitattributes; printf 'c\\r\\n' >c.txt");
    let (work, _) = bed.work();
    let there = bed.elsewhere(&work);
    assert_eq!(git(&there, &["diff", "--stat", "--summary", &work.base, &work.commit]).lines().count(), 5);
    let stored = git(&there, &["cat-file", "blob", "refs/agent/work:a.txt"]);
    assert_eq!(stored, "one\nnew", "as the root's rules store it, whatever rules the agent wrote");
    let mut raw = std::process::Command::new("git");
    raw.arg("-C").arg(&there).args(["cat-file", "blob", "refs/agent/snap/raw:a.txt"]);
    assert_eq!(raw.output().expect("git runs").stdout, b"one\r\nnew\r\n", "every byte is in the raw snapshot");
}

#[test]
fn what_is_beyond_a_limit_is_listed() {
    let mut bed = Bed::new();
    bed.limits.entries = 3;
    bed.limits.bytes = 10_000;
    bed.agent("for n in 1 2 3 4 5; do echo $n >f$n; done; head -c 20000 /dev/zero >large; rm tool.sh");
    let (work, handoff) = bed.work();
    let [left] = work.left_out.as_slice() else { panic!("{:?}", work.left_out) };
    assert_eq!((left.reason, left.count), (LeftOutReason::OverLimit, 3));
    let listed: Vec<_> = handoff.left_out.iter().map(|left| (left.path.as_str(), left.size_bytes)).collect();
    assert_eq!(listed, [("f4", Some(2)), ("f5", Some(2)), ("large", Some(20_000))]);
    assert_eq!(work.files, 4, "three files and one that is gone");
}

#[test]
fn a_clone_that_is_gone_is_said_to_be() {
    let bed = Bed::new();
    bed.agent("cd ..; rm -rf clone");
    assert_eq!(bed.harvest().failure, Some(HarvestFailure::WorkspaceMissing));
    bed.agent_in_workspace("ln -s /etc clone");
    assert_eq!(bed.harvest().failure, Some(HarvestFailure::NotAClone));
    assert!(!bed.out().exists(), "nothing is written");
}

#[test]
fn work_on_a_root_that_moved_is_based_on_where_the_clone_was() {
    let mut bed = Bed::new();
    let base = git(&bed.root(), &["rev-parse", "main"]);
    bed.agent("echo mine >mine; git add mine; git commit -qm mine");
    write(&bed.root(), "theirs", "t");
    git(&bed.root(), &["add", "--all"]);
    git(&bed.root(), &["commit", "--quiet", "--message=second"]);
    bed.sync();
    let (work, _) = bed.work();
    assert_eq!((work.base, work.files), (base, 1));
}
