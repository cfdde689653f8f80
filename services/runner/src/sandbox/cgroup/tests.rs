use super::*;

/// Stands in for a hierarchy: what is written can be read back.
fn scratch_group(version: Version) -> (tempfile::TempDir, Cgroups) {
    let scratch = tempfile::tempdir().expect("scratch");
    let parents = Controller::ALL.map(|controller| (controller, scratch.path().to_path_buf())).to_vec();
    (scratch, Cgroups { version, parents })
}

#[test]
fn version_2_writes_each_limit_where_the_kernel_reads_it() {
    let (scratch, cgroups) = scratch_group(Version::V2);
    let limits = Limits { memory_bytes: 64 << 20, processes: 10, cpus: 2, ..Limits::default() };
    let group = cgroups.create("g", &limits).expect("made");
    let read = |file: &str| fs::read_to_string(scratch.path().join("g").join(file)).expect(file);
    assert_eq!(read("memory.max"), "67108864");
    assert_eq!(read("memory.swap.max"), "0");
    assert_eq!(read("pids.max"), "12");
    assert_eq!(read("cpu.max"), "200000 100000");

    fs::write(scratch.path().join("g/memory.events"), "low 0\noom 3\noom_kill 2\noom_group_kill 0\n").expect("written");
    fs::write(scratch.path().join("g/memory.peak"), "12345\n").expect("written");
    fs::write(scratch.path().join("g/pids.events"), "max 7\n").expect("written");
    assert_eq!(group.usage(), Usage { oom_kills: 2, peak_bytes: 12345, refused_forks: 7 });
    assert_eq!(group.directories().count(), 1, "one directory for all controllers");
    fs::remove_dir_all(scratch.path().join("g")).expect("removed");
}

#[test]
fn a_process_that_can_not_be_seen_is_never_a_target() {
    let scratch = tempfile::tempdir().expect("scratch");
    fs::write(scratch.path().join("cgroup.procs"), "0\n1\n-5\n4711\nx\n").expect("written");
    let pids: Vec<i32> = processes(scratch.path()).into_iter().map(nix::unistd::Pid::as_raw).collect();
    assert_eq!(pids, [4711]);
}

#[test]
fn what_a_killed_process_has_left_of_its_trial_is_removed_and_that_of_a_living_one_is_not() {
    let scratch = tempfile::tempdir().expect("scratch");
    let own = trial(scratch.path());
    let name = own.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    assert!(!is_abandoned(&name), "{name}");
    let pid = std::process::id();
    let abandoned = [format!("{TRIAL}-{pid}-1-0badcafe"), format!("{TRIAL}-2147483647-1-0badcafe")];
    for name in abandoned.iter().map(String::as_str).chain([name.as_str(), "mosaic-services", "mosaic-trial-x"]) {
        fs::create_dir(scratch.path().join(name)).expect("made");
    }
    trial(scratch.path());
    let left = |name: &str| scratch.path().join(name).exists();
    assert!(!abandoned.iter().any(|name| left(name)));
    assert!(left(&name) && left("mosaic-services") && left("mosaic-trial-x"));
}

#[test]
fn without_groups_nothing_is_enforced_and_nothing_is_left() {
    let cgroups = Cgroups::none();
    assert_eq!(cgroups.enforcement(Controller::Memory), None);
    let mut group = cgroups.create("g", &Limits::default()).expect("nothing to make");
    assert!(group.doors().expect("none").is_empty());
    assert!(group.is_empty());
    assert!(group.remove());
}

#[test]
fn what_can_be_made_here_holds_its_limits_and_goes_away() {
    let cgroups = Cgroups::detect();
    let name = format!("mosaic-test-{}", std::process::id());
    let mut group = cgroups.create(&name, &Limits::default()).expect("made");
    assert!(group.is_empty());
    assert_eq!(group.usage().refused_forks, 0);
    assert!(group.remove());
    assert!(cgroups.directories(&name).iter().all(|directory| !directory.exists()));
}
