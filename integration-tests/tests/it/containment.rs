//! What an agent can reach through the whole product, as root and as an ordinary user.

use mosaic_integration_tests::{Installation, User, is_root};
use serde_json::{Value, json};

use crate::{MOSAIC, installation, installation_with};

/// Tries what an agent must not reach, one line an attempt: `name=what came of it`.
const ATTEMPTS: &str = r#"
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name=yes"; else echo "$name=no"; fi; }
echo "uid=$(id -u)"
echo "capabilities=$(sed -n 's/^Cap\(Inh\|Prm\|Eff\|Amb\):\t//p' /proc/self/status | sort -u | tr '\n' ' ')"
echo "new-privileges=$(sed -n 's/^NoNewPrivs:\t//p' /proc/self/status)"
echo "filter=$(sed -n 's/^Seccomp:\t//p' /proc/self/status)"
echo "processes=$(ls -d /proc/[0-9]* | wc -l)"
echo "first=$(tr '\0' ' ' </proc/1/cmdline | cut -d' ' -f1)"
echo "interfaces=$(sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev | tr '\n' ' ')"
echo "homes=$(ls /home /root 2>/dev/null | tr '\n' ' ')"
echo "etc=$(cd /etc; find . -maxdepth 1 -mindepth 1 | sort | tr '\n' ' ')"
echo "mosaic=$(cd /var/lib/mosaic; ls | tr '\n' ' ')"
echo "environment=$(env | sed -n 's/^\(CANARY\|SSH_[A-Z]*\|DOCKER_[A-Z]*\)=.*/\1/p' | tr '\n' ' ')"
try shadow cat /etc/shadow
try data-root ls "$DATA_ROOT"
try docker ls /var/run/docker.sock /run/docker.sock
try write-root touch /x
try write-usr touch /usr/x
try write-etc touch /etc/x
try write-bundle touch /var/lib/mosaic/bundle/x
try write-adapter touch /opt/mosaic/adapters/x
try write-workspace touch "$MOSAIC_WORKSPACE/x"
try write-session touch "$MOSAIC_SESSION_DIR/x"
try write-home touch "$HOME/x"
try write-tmp touch /tmp/x
try unshare unshare --user true
try mount mount -t tmpfs none /mnt
try become-root setpriv --reuid 0 true
"#;

/// What came of every attempt, and the record.
fn attempt(mosaic: &Installation) -> (std::collections::BTreeMap<String, String>, Value) {
    let script = ATTEMPTS.replace("$DATA_ROOT", mosaic.data().to_str().expect("UTF-8"));
    let task = mosaic.task(&script, |task| {
        task["workspace"] = json!("site");
        task["session"] = json!("chat");
    });
    let record = mosaic.record(&task, &[]);
    assert_eq!(record["status"], "succeeded", "{record}");
    let lines = record["response"].as_str().expect("a response").lines();
    let found = lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()));
    (found.collect(), record)
}

fn expect_contained(mosaic: &Installation, uid: &str) {
    let (found, record) = attempt(mosaic);
    assert_eq!(found["uid"], uid);
    assert_eq!(found["capabilities"].trim(), "0000000000000000");
    assert_eq!((found["new-privileges"].as_str(), found["filter"].as_str()), ("1", "2"));
    assert!(found["processes"].parse::<u32>().expect("a number") < 12, "{found:?}");
    assert_eq!(found["first"], "/opt/mosaic/shim");
    assert_eq!(found["interfaces"].trim(), "lo");
    assert_eq!(found["homes"], "");
    assert_eq!(found["mosaic"].trim(), "bundle session state workspace");
    assert_eq!(found["environment"], "");
    for name in found["etc"].split_whitespace() {
        let known =
            ["alternatives", "group", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "pki", "ssl"];
        assert!(known.contains(&name.trim_start_matches("./")), "{name} of the host's /etc is seen");
    }
    let reached: Vec<&str> = found.iter().filter(|(_, value)| *value == "yes").map(|(name, _)| name.as_str()).collect();
    assert_eq!(reached, ["write-home", "write-session", "write-tmp", "write-workspace"]);
    assert_eq!((&record["workspaceMode"], &record["containment"]), (&json!("sandbox"), &json!(true)));
    let containment = &record["sandbox"];
    assert_eq!(containment["uid"].to_string(), uid);
    for control in ["ownRoot", "noNetwork", "syscallFilter"] {
        assert_eq!(containment[control], true, "{control}");
    }
}

#[test]
fn an_agent_reaches_its_own_places_only() {
    let uid = if nix::unistd::geteuid().is_root() { 65_532 } else { nix::unistd::geteuid().as_raw() };
    expect_contained(&installation(), &uid.to_string());
}

#[test]
fn an_agent_of_an_ordinary_user_reaches_its_own_places_only() {
    if !is_root() {
        return;
    }
    expect_contained(&Installation::with(MOSAIC, User::Nobody, |_| {}), "61234");
}

#[test]
fn an_agent_sees_nothing_of_another_run() {
    let mosaic = installation();
    let task = mosaic.task("echo secret > kept; while [ ! -e go ]; do sleep 0.05; done", |task| {
        task["workspace"] = json!("first");
    });
    let first = mosaic.mosaic(&["run", "--detach", &task]).expect(0).stdout.trim().to_owned();
    let kept = mosaic.data().join("workspaces/first/kept");
    mosaic_integration_tests::wait_for("the first run", std::time::Duration::from_secs(20), || {
        kept.exists().then_some(())
    });
    let task = mosaic.task("grep -rl secret / --exclude-dir=proc --exclude-dir=usr --exclude-dir=sys 2>/dev/null; ls /proc | grep -c '^[0-9]'; :", |task| {
        task["workspace"] = json!("second");
    });
    let record = mosaic.record(&task, &[]);
    let response = record["response"].as_str().expect("a response");
    assert!(!response.contains("kept"), "{response}");
    std::fs::write(mosaic.data().join("workspaces/first/go"), "").expect("written");
    let _over = mosaic.mosaic(&["watch", &first]).expect(0);
}

#[test]
fn a_missing_sandbox_is_refused_and_never_replaced() {
    let mosaic = installation();
    // Without /usr/sbin and the like on PATH nothing that makes sandboxes is found.
    let mut command = mosaic.command(&["run", &mosaic.task("echo ran", |_| {})]);
    let empty = mosaic.path().join("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let output = command.env("PATH", &empty).output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("sandbox-unavailable") && said.contains("bubblewrap is not installed"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_host_is_used_only_when_it_is_asked_for_by_name() {
    let mosaic = installation_with(|config| config["execution"]["backend"] = json!("host"));
    let record = mosaic.record(&mosaic.task("pwd; id -u", |task| task["workspace"] = json!("site")), &[]);
    assert_eq!(record["status"], "succeeded", "{record}");
    assert_eq!((&record["workspaceMode"], &record["containment"]), (&json!("host"), &json!(false)));
    assert_eq!(record["sandbox"]["backend"], "host");
    let response = record["response"].as_str().expect("a response");
    assert!(response.starts_with(mosaic.data().to_str().expect("UTF-8")), "{response}");
    assert!(!response.ends_with("\n0"), "never as root: {response}");
}

#[test]
fn an_adapter_that_was_written_elsewhere_runs_unchanged() {
    let mosaic = installation();
    let _made = mosaic.mosaic(&["list"]).expect(0);
    let adapter = mosaic.data().join("adapters/elsewhere");
    std::fs::create_dir(&adapter).expect("a directory");
    let metadata = json!({
        "adapterVersion": 1, "description": "d", "usesModel": true, "activity": "adapter", "turnMarker": "required",
        "tools": { "read": "Read" },
    });
    std::fs::write(adapter.join("adapter.json"), metadata.to_string()).expect("written");
    let script = r#"
set -eu
[ "$MOSAIC_MODEL_ACTIVITY_SOURCE" = adapter ]
( set -C; umask 077; printf 'output\n' > "$MOSAIC_MODEL_ACTIVITY_DIR/proxy-first-output" )
printf '%s|%s|%s|%s' "$MOSAIC_ADAPTER" "$MOSAIC_TOOLS" "$MOSAIC_PROVIDER/$MOSAIC_MODEL" "$(cat "$MOSAIC_REQUEST_FILE")"
case $MOSAIC_REQUEST in *forget*) ;; *) echo done > "$MOSAIC_TURN_MARKER" ;; esac
"#;
    std::fs::write(adapter.join("adapter.sh"), script).expect("written");
    let tools = |task: &mut Value| task["capabilities"] = json!({ "tools": ["read", "ls"] });
    let record = mosaic.record(&mosaic.task("work", tools), &["--adapter", "elsewhere"]);
    assert_eq!(record["response"], "elsewhere|Read,ls|anthropic/test-model|work", "{record}");
    assert_eq!((&record["activity"]["source"], &record["synthetic"]), (&json!("adapter"), &json!(false)));
    let record = mosaic.record(&mosaic.task("forget", tools), &["--adapter", "elsewhere"]);
    assert_eq!((&record["status"], &record["reason"]), (&json!("failed"), &json!("adapter-failed")), "{record}");
}

/// Runs `mosaic` as an ordinary user where no further user namespace can be made.
fn without_user_namespaces(mosaic: &Installation, arguments: &[&str]) -> std::process::Output {
    let script = "read _mapped; echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let inner = mosaic.command(arguments);
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--keep-caps", "sh", "-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(mosaic.path());
    let (stdin, output) = (std::process::Stdio::piped(), std::process::Stdio::piped);
    let mut child = command.stdin(stdin).stdout(output()).stderr(output()).spawn().expect("unshare starts");
    let own_namespace = format!("/proc/{}/ns/user", child.id());
    let ours = std::fs::read_link("/proc/self/ns/user").expect("a namespace");
    mosaic_integration_tests::wait_for("the namespace", std::time::Duration::from_secs(10), || {
        std::fs::read_link(&own_namespace).ok().filter(|namespace| *namespace != ours)
    });
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{}/{map}", child.id()), "0 0 65536").expect("mapped");
    }
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"mapped\n").expect("told");
    child.wait_with_output().expect("ends")
}

#[test]
fn where_user_namespaces_are_off_the_run_is_refused_with_the_way_to_mend_it() {
    if !is_root() {
        return;
    }
    let mosaic = Installation::with(MOSAIC, User::Nobody, |_| {});
    let run = without_user_namespaces(&mosaic, &["run", &mosaic.task("echo ran", |_| {})]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(5), &b""[..]), "{said}");
    assert!(said.contains("sandbox-unavailable") && said.contains("sysctl user.max_user_namespaces"), "{said}");
    let doctor = without_user_namespaces(&mosaic, &["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    assert!(said.contains("/proc/sys/user/max_user_namespaces is 0") && said.contains("sysctl --system"), "{said}");
}
