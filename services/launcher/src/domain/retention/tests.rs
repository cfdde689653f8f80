use super::*;

const DAY: i64 = 24 * 3600;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + day * DAY).expect("in range")
}

/// A run that finished on `day`, with 10 bytes of output in a directory of 100.
fn run(name: &str, day: i64) -> EndedRun {
    EndedRun {
        run: format!("r-{name}").parse().expect("a run id"),
        finished_at: at(day),
        kept: false,
        in_hand: false,
        sizes: RunSizes { record: 100, output: Some(10), workspace: None },
    }
}

fn with_workspace(mut run: EndedRun, bytes: u64, empty: bool) -> EndedRun {
    run.sizes.workspace = Some(RunWorkspace { bytes, empty });
    run
}

fn session(name: &str, day: i64) -> Session {
    Session { name: name.parse().expect("a name"), last_used: at(day), in_use: false, kept: false, bytes: 7 }
}

fn days(days: u64) -> Rule {
    Rule::older_than(Duration::from_secs(days * DAY.unsigned_abs()))
}

fn newest(count: u64) -> Rule {
    Rule { max_count: Some(count), ..Rule::default() }
}

fn at_most(bytes: u64) -> Rule {
    Rule { max_bytes: Some(bytes), ..Rule::default() }
}

/// What goes, one word an item: `record:a`, with a `+` where the rest goes later.
fn goes(runs: &[EndedRun], sessions: &[Session], policy: &Retention, now: Timestamp) -> Vec<String> {
    let facts = Facts { runs: runs.to_vec(), sessions: sessions.to_vec() };
    let word = |planned: Planned| {
        let more = if planned.why.for_its_record { "+" } else { "" };
        match planned.what {
            What::Output(run) => format!("output:{}", &run.as_str()[2..]),
            What::Record(run) => format!("record:{}", &run.as_str()[2..]),
            What::Session(name) => format!("session:{name}"),
            What::Workspace(run) => format!("workspace:{}{more}", &run.as_str()[2..]),
        }
    };
    plan(&facts, policy, now).into_iter().map(word).collect()
}

fn records(rule: Rule) -> Retention {
    Retention { records: Some(rule), ..Retention::default() }
}

#[test]
fn each_bound_takes_the_oldest() {
    let runs = [run("b", 2), run("a", 1), run("d", 4), run("c", 3)];
    let cases: &[(Rule, &[&str])] = &[
        (days(3), &["record:a", "record:b"]),
        (days(4), &["record:a"]),
        (days(5), &[]),
        (days(0), &["record:a", "record:b", "record:c", "record:d"]),
        (newest(3), &["record:a"]),
        (newest(9), &[]),
        (at_most(250), &["record:a", "record:b"]),
        (at_most(400), &[]),
        (at_most(1), &["record:a", "record:b", "record:c", "record:d"]),
        (Rule { max_count: Some(3), ..days(4) }, &["record:a"]),
        (Rule { max_count: Some(2), ..days(4) }, &["record:a", "record:b"]),
    ];
    for (rule, expected) in cases {
        assert_eq!(goes(&runs, &[], &records(*rule), at(5)), *expected, "{rule:?}");
    }
}

#[test]
fn without_a_rule_nothing_goes() {
    let runs = [with_workspace(run("a", 1), 5, false)];
    assert_eq!(goes(&runs, &[session("s", 1)], &Retention::default(), at(9999)), Vec::<String>::new());
}

#[test]
fn what_is_kept_or_in_hand_neither_goes_nor_counts() {
    let mut kept = run("kept", 9);
    kept.kept = true;
    let mut live = run("live", 8);
    live.in_hand = true;
    let runs = [kept, live, run("a", 1), run("b", 2)];
    assert_eq!(goes(&runs, &[], &records(newest(1)), at(10)), ["record:a"]);
    assert_eq!(goes(&runs, &[], &records(at_most(100)), at(10)), ["record:a"]);
    assert_eq!(goes(&runs, &[], &records(days(0)), at(10)), ["record:a", "record:b"]);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_old() {
    let runs = [run("future", 100), run("past", 1)];
    assert_eq!(goes(&runs, &[], &records(days(1)), at(5)), ["record:past"]);
    assert_eq!(goes(&runs, &[], &records(days(1)), at(-50)), Vec::<String>::new());
}

#[test]
fn a_clock_that_was_set_forward_is_not_trusted() {
    let hour = Duration::from_secs(3600);
    assert_eq!(trusted_now(at(3000), at(1), hour), at(1) + hour, "years in an hour");
    assert_eq!(trusted_now(at(1), at(1), hour), at(1), "set back");
    let a_little_earlier = at(1) + Duration::from_secs(3599);
    assert_eq!(trusted_now(a_little_earlier, at(1), hour), a_little_earlier);
    assert_eq!(trusted_now(at(1), Timestamp::MAX, hour), at(1));
}

#[test]
fn a_run_that_goes_takes_everything_with_it_but_what_is_in_its_workspace() {
    let policy = Retention { output: Some(days(1)), workspaces: Some(days(1)), ..records(days(1)) };
    let plain = [run("a", 1)];
    assert_eq!(goes(&plain, &[], &policy, at(5)), ["record:a"]);
    let empty = [with_workspace(run("a", 1), 4, true)];
    assert_eq!(goes(&empty, &[], &policy, at(5)), ["record:a"]);
    let full = [with_workspace(run("a", 1), 4, false)];
    assert_eq!(goes(&full, &[], &policy, at(5)), ["output:a", "workspace:a+"]);
    assert_eq!(goes(&full, &[], &records(days(1)), at(5)), ["workspace:a+"], "also without a rule of its own");
}

#[test]
fn each_kind_has_its_own_rule() {
    let mut no_output = run("c", 1);
    no_output.sizes.output = None;
    let runs = [with_workspace(run("a", 1), 40, false), with_workspace(run("b", 2), 40, true), no_output];
    let by = |policy: Retention| goes(&runs, &[session("s", 1), session("t", 9)], &policy, at(10));
    let output = Retention { output: Some(newest(1)), ..Retention::default() };
    assert_eq!(by(output), ["output:a"], "what has none does not count");
    let workspaces = Retention { workspaces: Some(at_most(40)), ..Retention::default() };
    assert_eq!(by(workspaces), ["workspace:a"]);
    let sessions = Retention { sessions: Some(days(5)), ..Retention::default() };
    assert_eq!(by(sessions), ["session:s"]);
}

#[test]
fn a_session_that_is_in_use_or_of_a_kept_run_stays() {
    let (mut used, mut kept) = (session("s", 1), session("k", 1));
    used.in_use = true;
    kept.kept = true;
    let policy = Retention { sessions: Some(days(0)), ..Retention::default() };
    assert_eq!(goes(&[], &[used, kept, session("t", 1)], &policy, at(10)), ["session:t"]);
}

#[test]
fn reasons_are_readable() {
    let say = |bound| Why { bound, for_its_record: false }.to_string();
    assert_eq!(say(Bound::Age(Duration::from_secs(30 * 86_400))), "older than 30 d");
    assert_eq!(say(Bound::Age(Duration::from_secs(90))), "older than 90 s");
    assert_eq!(say(Bound::Count(3)), "not among the newest 3");
    assert_eq!(say(Bound::Bytes(1 << 30)), "beyond 1.0 GiB in total");
}
