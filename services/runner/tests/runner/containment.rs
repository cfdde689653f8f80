use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use mosaic_record::{Backend, RunStatus};

use crate::harness::{World, adapter_uid, has_bubblewrap, is_root, runner_executable};
use crate::inside;

/// Runs a script in a contained sandbox and gives its output; it must succeed.
async fn inside(world: &World, script: &str) -> String {
    let finished = world.run(&world.scripted(script, Backend::Bubblewrap, |_| {})).await;
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{script}: {:?} {stderr}", finished.outcome);
    finished.outcome.response.expect("response")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_holds_no_capability_and_can_not_get_one() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let status =
        inside(&world, "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status")
            .await;
    let uid = adapter_uid();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), vec![uid.to_string(); 4], "{status}");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set} {status}");
    }
    if is_root() {
        assert_eq!(field("Groups:"), [""; 0], "{status}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    assert_eq!(field("Seccomp:"), ["2"], "a filter is in force");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_its_own_processes_only_and_can_not_look_into_the_shim() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let seen = inside(&world, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; ls /proc/1/fd /proc/1/map_files 2>&1; cat /proc/1/environ /proc/1/mem 2>&1; true").await;
    assert!(seen.starts_with("/opt/mosaic/shim shim "), "{seen}");
    assert_eq!(seen.matches("ermission denied").count(), 4, "{seen}");
    assert!(!seen.contains(world.root.path().to_str().expect("utf-8")), "{seen}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_named_files_of_the_host_and_no_other() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let etc = inside(&world, "find /etc -maxdepth 2 | sort").await;
    let known = [
        "/etc",
        "/etc/alternatives",
        "/etc/group",
        "/etc/hosts",
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/pki",
        "/etc/ssl",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
    ];
    let stray = |line: &&str| {
        !known.contains(line) && !line.starts_with("/etc/alternatives/") && !line.starts_with("/etc/pki/")
    };
    assert_eq!(etc.lines().filter(stray).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(inside(&world, "cat /etc/passwd; whoami").await.lines().count(), 2);

    let data_root = world.root.path().display();
    for hidden in [
        &format!("{data_root}"),
        "/root",
        "/home",
        "/sys",
        "/run",
        "/var/run",
        "/mnt",
        "/srv",
        "/etc/shadow",
        "/etc/hostname",
    ] {
        assert_eq!(inside(&world, &format!("[ ! -e {hidden} ] && echo hidden")).await, "hidden", "{hidden}");
    }
    let bundle = inside(&world, "ls /var/lib/mosaic/bundle; ls /opt/mosaic/adapters/scripted").await;
    assert_eq!(
        bundle,
        "mission.json\npolicy.json\nrequest.txt\nsystem-prompt.md\ntools.json\nadapter.json\nadapter.sh"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_writes_only_where_it_may() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let find = "find / -xdev -path /proc -prune -o -type d -writable -print 2>/dev/null | sort; \
                for d in /tmp /dev/shm /dev \"$HOME\" . \"$MOSAIC_SESSION_DIR\"; do (: >\"$d/.try\") 2>/dev/null && echo \"w $d\"; done";
    let run = world.scripted(find, Backend::Bubblewrap, |launch| launch.session = Some("s".parse().expect("name")));
    let finished = world.run(&run).await;
    let response = finished.outcome.response.clone().expect("response");
    let expected = "/tmp\n/var/lib/mosaic/session\n/var/lib/mosaic/state\n/var/lib/mosaic/workspace\nw /tmp\nw /dev/shm\nw /var/lib/mosaic/state/home\nw .\nw /var/lib/mosaic/session";
    assert_eq!(response, expected, "{finished:?}");
    for path in [
        "/usr/x",
        "/opt/mosaic/shim",
        "/opt/mosaic/adapters/scripted/adapter.sh",
        "/var/lib/mosaic/bundle/request.txt",
        "/x",
        "/etc/passwd",
    ] {
        let script = format!("(: >>{path}) 2>/dev/null || echo denied");
        assert_eq!(inside(&world, &script).await, "denied", "{path}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_no_network_and_nothing_of_the_environment() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("address").port();
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    drop(udp);
    let script = format!(
        "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(\"127.0.0.1:{port}\") ? \"reached\" : \"refused\"'; echo; \
         grep -c : /proc/net/dev; env -0 | tr '\\0' '\\n' | cut -d= -f1 | grep -v ^MOSAIC_ | sort | tr '\\n' ' '"
    );
    let response = inside(&world, &script).await;
    assert_eq!(response, "refused\n1\nHOME LANG PATH PI_MODEL PI_PROVIDER PWD TMPDIR TRACEPARENT ");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_that_would_open_a_door_is_denied() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::new().await;
    let run = world.scripted(&format!("./try --exact {} --ignored", inside::TEST), Backend::Bubblewrap, |_| {});
    let copy = world.root.run_workspace(&run.id).join("try");
    std::fs::copy(std::env::current_exe().expect("own executable"), &copy).expect("copied");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let finished = world.run(&run).await;
    let said = String::from_utf8_lossy(&finished.stdout);
    assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{said} {}", String::from_utf8_lossy(&finished.stderr));
    assert!(said.contains("1 passed"), "{said}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_host_an_adapter_is_not_root_either() {
    let world = World::new().await;
    let finished =
        world.run(&world.scripted("id -u; id -G; grep CapEff /proc/self/status", Backend::Host, |_| {})).await;
    let response = finished.outcome.response.clone().expect("response");
    let mut lines = response.lines();
    assert_eq!(lines.next(), Some(adapter_uid().to_string().as_str()), "{finished:?}");
    if is_root() {
        assert_eq!(lines.next(), Some(adapter_uid().to_string().as_str()), "no group of root's");
    }
    assert_eq!(response.lines().last(), Some("CapEff:\t0000000000000000"));
    world.end().await;
}

/// Root starts everything above again as nobody: a sandbox must hold without any privilege to make it.
#[test]
fn everything_holds_without_any_privilege() {
    if !is_root() || !has_bubblewrap() {
        return;
    }
    let scratch = tempfile::tempdir().expect("scratch");
    let directory = scratch.path().join("t");
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).expect("open");
    std::fs::create_dir(&directory).expect("made");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o1777)).expect("open");
    let copy = |from: std::path::PathBuf, name: &str| {
        let to = scratch.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).expect("executable");
        to
    };
    let tests = copy(std::env::current_exe().expect("own executable"), "tests");
    let runner = copy(runner_executable(), "runner");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(tests);
    command.args(["containment::", "turns::", "stopping::", "recovery::", "--test-threads", "2"]);
    command.current_dir("/").env("TMPDIR", &directory).env("MOSAIC_TEST_RUNNER", runner).env("HOME", "/nonexistent");
    let output = command.output().expect("setpriv");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
