//! Work that is put onto its root's branch.

use std::os::unix::fs::MetadataExt as _;

use mosaic_checkout::{IntegrateError, Integrated, Onto, RESULT, check_out, integrate};
use mosaic_record::Work;

use crate::bed::{Bed, agent, git, state_of, write};

fn put(bed: &Bed, work: &Work, onto: &Onto) -> Result<Integrated, IntegrateError> {
    let (place, recorded) = bed.recorded(work);
    let before = state_of(&bed.root());
    let out = bed.path("result.bundle");
    let _none = std::fs::remove_file(&out);
    let result = integrate(&place, &recorded, onto, &out);
    assert_eq!(state_of(&bed.root()), before, "the root is only read");
    assert_eq!(out.exists(), result.is_ok(), "a failure leaves nothing");
    result
}

fn commit(bed: &Bed, path: &str, content: &str) {
    write(&bed.root(), path, content);
    git(&bed.root(), &["add", "--all"]);
    git(&bed.root(), &["commit", "--quiet", "--message=more"]);
}

const TIP: Onto = Onto::Tip(None);

#[test]
fn on_a_branch_that_did_not_move_the_result_is_the_work_itself() {
    let bed = Bed::new();
    bed.agent("echo new >new; echo more >>README");
    let (work, _) = bed.work();
    let result = put(&bed, &work, &TIP).expect("put");
    assert_eq!((&result.tip, &result.onto, result.branch.as_deref()), (&work.commit, &work.base, Some("main")));
    let bundle = bed.path("result.bundle");
    let heads = git(&bed.root(), &["bundle", "list-heads", bundle.to_str().expect("text")]);
    assert_eq!(heads, format!("{} {RESULT}", work.commit));
    git(&bed.root(), &["fetch", "--quiet", bundle.to_str().expect("text"), &format!("{RESULT}:refs/heads/new")]);
    assert_eq!(git(&bed.root(), &["show", "new:new"]), "new");
}

#[test]
fn on_a_branch_that_moved_both_changes_are_in_the_result() {
    let bed = Bed::new();
    bed.agent("echo new >new; sed -i s/one/ONE/ src/a.txt");
    let (work, _) = bed.work();
    commit(&bed, "theirs", "t\n");
    let result = put(&bed, &work, &TIP).expect("put");
    assert_eq!(result.onto, git(&bed.root(), &["rev-parse", "main"]));
    assert_ne!(result.tip, work.commit);
    let bundle = bed.path("result.bundle");
    git(&bed.root(), &["fetch", "--quiet", bundle.to_str().expect("text"), &format!("{RESULT}:refs/heads/new")]);
    assert_eq!(git(&bed.root(), &["rev-parse", "new^"]), result.onto);
    assert_eq!(git(&bed.root(), &["show", "new:theirs"]), "t");
    assert_eq!(git(&bed.root(), &["show", "new:src/a.txt"]), "ONE\ntwo\nthree");
    assert!(git(&bed.root(), &["log", "-1", "--format=%(trailers)", "new"]).contains(&work.commit));
    assert_eq!(result.files.len(), 2);
    // The same again is the same commit.
    assert_eq!(put(&bed, &work, &TIP).expect("put").tip, result.tip);
    assert_eq!(put(&bed, &work, &Onto::Base).expect("put").tip, work.commit);
    git(&bed.root(), &["merge", "--quiet", "--ff-only", "new"]);
    assert!(matches!(put(&bed, &work, &TIP), Err(IntegrateError::Nothing)));
}

#[test]
fn what_both_sides_changed_is_told_and_nothing_is_left() {
    let bed = Bed::new();
    bed.agent("echo mine >README; sed -i s/two/MINE/ src/a.txt; echo fine >fine");
    let (work, _) = bed.work();
    commit(&bed, "README", "theirs\n");
    commit(&bed, "src/a.txt", "one\nTHEIRS\nthree\n");
    let Err(IntegrateError::Conflicts { paths }) = put(&bed, &work, &TIP) else { panic!("a conflict") };
    assert_eq!(paths, ["README", "src/a.txt"]);
}

#[test]
fn a_bundle_that_is_not_what_was_recorded_is_refused() {
    let bed = Bed::new();
    bed.agent("head -c 5000 /dev/urandom >new");
    let (work, _) = bed.work();
    let other = Work { tree: work.base.clone(), ..work.clone() };
    assert!(matches!(put(&bed, &other, &TIP), Err(IntegrateError::Damaged(_))));
    let bundle = bed.out().join("work.bundle");
    let mut content = std::fs::read(&bundle).expect("read");
    let middle = content.len() - 1000;
    content[middle] ^= 1;
    std::fs::write(&bundle, content).expect("written");
    assert!(matches!(put(&bed, &work, &TIP), Err(IntegrateError::Damaged(_))));
}

#[test]
fn objects_that_git_refuses_reach_nobody() {
    let bed = Bed::new();
    bed.agent("printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = --upload-pack=touch\\n' >.gitmodules");
    let (work, _) = bed.work();
    let Err(IntegrateError::Damaged(words)) = put(&bed, &work, &TIP) else { panic!("refused") };
    assert!(words.contains("gitmodules"), "{words}");
}

#[test]
fn a_fresh_clone_of_the_result_is_the_agents_and_names_no_place_of_the_hosts() {
    let bed = Bed::new();
    bed.agent("echo new >new");
    let (work, _) = bed.work();
    let result = put(&bed, &work, &TIP).expect("put");
    let (place, _) = bed.recorded(&work);
    let fresh = bed.path("workspace/fresh");
    check_out(&place, &bed.path("result.bundle"), &result.tip, "main", &fresh).expect("checked out");
    assert_eq!(std::fs::read_to_string(fresh.join("new")).expect("there"), "new\n");
    assert_eq!(std::fs::metadata(fresh.join("new")).expect("there").uid(), agent());
    let mut named = std::process::Command::new("grep");
    named.args(["-rlaE", "integrate|repository/|mirror"]).arg(fresh.join(".git"));
    let named = named.output().expect("grep runs").stdout;
    assert_eq!(String::from_utf8_lossy(&named), "");
    assert!(check_out(&place, &bed.path("result.bundle"), &work.base, "main", &bed.path("workspace/other")).is_err());
    assert!(!bed.path("workspace/other").exists());
}
