//! What hostile agents leave: nothing of it runs, nothing hangs, and what can be read is taken.

use std::time::{Duration, Instant};

use mosaic_record::{Distrust, Distrusted, LeftOutReason};

use crate::bed::{Bed, git};

/// A script that puts a program everywhere where git would start one; `../marker` says that it did.
const PROGRAMS: &str = "
    marker=$(cd ..; pwd)/marker
    printf '#!/bin/sh\\ntouch %s\\n' \"$marker\" >../evil; chmod +x ../evil; evil=$(cd ..; pwd)/evil
    git config core.fsmonitor \"$evil\"; git config diff.external \"$evil\"; git config core.hooksPath \"$(dirname \"$evil\")\"
    git config filter.x.clean \"$evil\"; git config filter.x.smudge \"$evil\"; git config diff.x.textconv \"$evil\"
    git config remote.origin.uploadpack \"$evil\"; git config core.sshCommand \"$evil\"; git config core.pager \"$evil\"
    git config core.alternateRefsCommand \"$evil\"; git config gc.recentObjectsHook \"$evil\"
    mkdir -p .git/hooks .git/info
    for hook in pre-commit post-checkout post-index-change reference-transaction post-rewrite pre-auto-gc; do
        cp ../evil .git/hooks/$hook; done
    echo '* filter=x diff=x' >.git/info/attributes; echo '* filter=x diff=x' >.gitattributes
    mkdir nested; git init -q nested; cp .git/config nested/.git/config; echo n >nested/n";

fn marker(bed: &Bed) -> bool {
    bed.path("workspace/marker").exists()
}

#[test]
fn nothing_of_the_agents_is_executed() {
    let bed = Bed::new();
    bed.agent(PROGRAMS);
    bed.agent("echo changed >README");
    let _made_by_the_agents_own_git = std::fs::remove_file(bed.path("workspace/marker"));
    let (work, _) = bed.work();
    assert!(!marker(&bed));
    let there = bed.elsewhere(&work);
    assert_eq!(git(&there, &["show", "refs/agent/work:README"]), "changed");
    assert_eq!(git(&there, &["show", "refs/agent/work:nested/n"]), "n");
    assert!(work.left_out.iter().any(|left| left.reason == LeftOutReason::NestedRepository), "{:?}", work.left_out);
}

#[test]
fn nothing_keeps_the_host_waiting_or_is_followed() {
    let bed = Bed::new();
    bed.agent(
        "rm .gitignore; mkfifo .gitignore src/.gitattributes .git/FETCH_HEAD pipe; truncate -s 400G sparse README
         rm .git/index; ln -s /etc/passwd .git/index; rm -rf .git/logs; ln -s / .git/logs; ln -s / root
         mkdir closed; echo x >closed/x; chmod 0 closed; mkdir .git/worktrees; ln -s /etc .git/worktrees/w
         printf 'ref: refs/heads/../../../etc/passwd\\n' >.git/refs/heads/odd",
    );
    let begun = Instant::now();
    let (work, handoff) = bed.work();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let listed = |path: &str| handoff.left_out.iter().find(|left| left.path == path).map(|left| left.reason);
    assert_eq!(listed("pipe"), Some(LeftOutReason::SpecialFile));
    assert_eq!(listed("sparse"), Some(LeftOutReason::OverLimit));
    let there = bed.elsewhere(&work);
    assert_eq!(git(&there, &["ls-tree", "refs/agent/work", "root"]).split(' ').next(), Some("120000"));
}

#[test]
fn a_repository_that_is_none_still_gives_its_files() {
    for wreck in
        ["rm -rf .git", "rm -rf .git; ln -s /etc .git", "rm -rf .git; echo 'gitdir: /etc' >.git", "rm -rf .git/objects"]
    {
        let bed = Bed::new();
        bed.agent(&format!("echo new >new; {wreck}"));
        let (work, _) = bed.work();
        let there = bed.elsewhere(&work);
        assert_eq!(git(&there, &["show", "refs/agent/work:new"]), "new", "{wreck}");
        assert_eq!(work.files, 1, "{wreck}");
    }
}

#[test]
fn a_damaged_commit_takes_no_other_with_it() {
    let bed = Bed::new();
    bed.agent(
        "git checkout -qb good; echo g >g; git add g; git commit -qm good; git checkout -q main; git checkout -qb bad
         echo bad >b; git add b; git commit -qm bad; blob=$(git rev-parse HEAD:b); git checkout -q main
         file=.git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-); chmod u+w $file
         other=$(echo evil | git hash-object -w --stdin)
         cp -f .git/objects/$(echo $other | cut -c1-2)/$(echo $other | cut -c3-) $file
         echo 1234567890123456789012345678901234567890 >.git/refs/heads/nowhere",
    );
    let (work, handoff) = bed.work();
    let there = bed.elsewhere(&work);
    let tip = |name: &str| handoff.tips.iter().find(|tip| tip.name == name).map(|tip| tip.id.clone());
    git(&there, &["cat-file", "-e", &format!("{}^{{tree}}", tip("refs/heads/good").expect("listed"))]);
    let listed: Vec<_> = handoff.left_out.iter().map(|left| left.path.as_str()).collect();
    assert!(listed.iter().any(|path| path.contains("nowhere")), "{listed:?}");
    let bad = tip("refs/heads/bad").expect("listed");
    assert!(listed.iter().any(|path| path.contains(&bad)), "{listed:?}");
    let poisoned = |found: &&Distrusted| found.what == Distrust::PoisonedObject && found.at.contains(&bad);
    assert_eq!(handoff.distrusted.iter().filter(poisoned).count(), 1, "{:?}", handoff.distrusted);
}

#[test]
fn an_index_that_says_what_is_not_there_is_listed() {
    let bed = Bed::new();
    bed.agent(
        "printf '100644 1234567890123456789012345678901234567890\\tmissing\\n' | git update-index --index-info
         git update-index --assume-unchanged README; echo hidden >README",
    );
    let (work, handoff) = bed.work();
    let missing = handoff.left_out.iter().find(|left| left.path == "missing").expect("listed");
    assert_eq!(missing.reason, LeftOutReason::UnreadableStage);
    assert_eq!(git(&bed.elsewhere(&work), &["show", "refs/agent/work:README"]), "hidden");
}

#[test]
fn what_changes_under_the_hosts_eyes_leads_nowhere() {
    let bed = Bed::new();
    let secret = bed.path("secret");
    std::fs::create_dir(&secret).expect("made");
    std::fs::write(secret.join("b.txt"), "SECRET\n").expect("written");
    let (file, directory) = (bed.clone().join("flipping"), bed.clone().join("src/deep"));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let aside = bed.path("workspace/aside");
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::remove_file(&file);
                let _ = std::os::unix::fs::symlink(secret.join("b.txt"), &file);
                let _ = std::fs::rename(&directory, &aside);
                let _ = std::os::unix::fs::symlink(&secret, &directory);
                let _ = std::fs::remove_file(&directory);
                let _ = std::fs::rename(&aside, &directory);
                let _ = std::fs::remove_file(&file);
                let _ = std::fs::write(&file, "plain\n");
            }
        });
        let mut taken = 0;
        for _ in 0..15 {
            // No rule says that it can be taken while something is at work in it, but nothing from elsewhere is.
            if bed.harvest().work.is_none() {
                continue;
            }
            taken += 1;
            let patch = std::fs::read(bed.out().join("work.patch")).expect("written");
            assert!(!patch.windows(6).any(|window| window == b"SECRET"), "{}", String::from_utf8_lossy(&patch));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(taken > 0, "some were taken");
    });
}
