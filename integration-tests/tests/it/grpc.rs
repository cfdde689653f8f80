//! The services as grpcurl and buf see them: reflection, a token for every rpc, errors in one form.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use mosaic_integration_tests::{Installation, available, wait_for};
use nix::sys::signal::{Signal, kill};
use prost::Message as _;

use crate::installation;

/// A foreground host, so that it is there for as long as the test needs it.
struct Hosted {
    mosaic: Installation,
    host: Child,
}

impl Hosted {
    fn new() -> Self {
        let mosaic = installation();
        let host = mosaic.start(&["up"]);
        wait_for("the host", Duration::from_secs(20), || mosaic.host_pid());
        Self { mosaic, host }
    }

    fn socket(&self, service: &str) -> PathBuf {
        self.mosaic.data().join(format!("run/{service}.sock"))
    }

    fn token(&self, name: &str) -> String {
        let path = self.mosaic.data().join(format!("credentials/{name}.token"));
        std::fs::read_to_string(path).expect("a token").trim().to_owned()
    }

    /// Runs grpcurl and returns whether it succeeded, and everything it said.
    fn grpcurl(&self, service: &str, token: Option<&str>, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("grpcurl");
        command.args(["-plaintext", "-unix", "-authority", "localhost", "-max-time", "20"]);
        if let Some(token) = token {
            command.arg("-H").arg(format!("authorization: Bearer {token}"));
        }
        // The flags come first, then the address, then what is asked for.
        let (flags, asked) = arguments.split_at(arguments.len() - 1);
        command.args(flags).arg(self.socket(service)).args(asked);
        let output = command.output().expect("grpcurl runs");
        let said = [output.stdout, output.stderr].concat();
        // With and without a known type, details of errors are spaced differently.
        let said = String::from_utf8_lossy(&said).replace("\": \"", "\":\"");
        (output.status.success(), said)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.host.id()) {
            let _gone_already = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _reaped = self.host.wait();
    }
}

/// Every rpc of a service's contracts: `package.Service/Method` with its kind.
fn methods(descriptors: &[u8]) -> Vec<String> {
    let files = prost_types::FileDescriptorSet::decode(descriptors).expect("descriptors");
    let mut methods = Vec::new();
    for file in files.file.iter().filter(|file| file.package().starts_with("mosaic.")) {
        for service in &file.service {
            let service_name = service.name();
            let full = |method: &prost_types::MethodDescriptorProto| {
                format!("{}.{service_name}/{}", file.package(), method.name())
            };
            methods.extend(service.method.iter().map(full));
        }
    }
    methods
}

const SERVICES: [(&str, &[u8]); 3] = [
    ("broker", mosaic_proto::broker::DESCRIPTORS),
    ("launcher", mosaic_proto::launcher::DESCRIPTORS),
    ("runner", mosaic_proto::runner::DESCRIPTORS),
];

#[test]
fn every_rpc_answers_by_reflection_to_a_token_and_to_nobody_else() {
    if !available("grpcurl") {
        return;
    }
    let hosted = Hosted::new();
    let operator = hosted.token("operator");
    let details = hosted.mosaic.write("details.bin", tonic_types::pb::FILE_DESCRIPTOR_SET);
    let details = details.to_str().expect("UTF-8");
    let mut walked = 0;
    for (service, descriptors) in SERVICES {
        let (listed, said) = hosted.grpcurl(service, Some(&operator), &["list"]);
        assert!(listed, "{said}");
        // The contracts are handed to grpcurl, since without a token reflection does not answer either.
        let set = hosted.mosaic.write(&format!("{service}.bin"), descriptors);
        let set = set.to_str().expect("UTF-8");
        for method in methods(descriptors) {
            let (_, said) =
                hosted.grpcurl(service, None, &["-protoset", set, "-protoset", details, "-d", "{}", &method]);
            assert!(said.contains("Code: Unauthenticated") && said.contains("UNAUTHENTICATED"), "{method}: {said}");
            let (_, said) = hosted.grpcurl(
                service,
                Some("nobody-knows-this-token-0123456789"),
                &["-protoset", set, "-protoset", details, "-d", "{}", &method],
            );
            assert!(said.contains("Code: Unauthenticated"), "{method}: {said}");

            // An endless stream is cut off by grpcurl; that it was cut off then is its answer.
            let streams = method.ends_with("/WatchEvents");
            let limit: &[&str] = if streams { &["-max-time", "1"] } else { &[] };
            let token = if may_operator(&method) { &operator } else { &hosted.token("launcher") };
            let token = if method.contains("/ReportRun") { &hosted.token("runner") } else { token };
            let (succeeded, said) = hosted.grpcurl(service, Some(token), &[limit, &["-d", "{}", &method]].concat());
            let refused_well = said.contains("google.rpc.ErrorInfo") && said.contains("\"domain\":\"mosaic\"");
            assert!(succeeded || refused_well || (streams && said.contains("DeadlineExceeded")), "{method}: {said}");
            assert!(
                !said.contains("Unauthenticated") && !said.contains("NOT_PERMITTED") && !said.contains("INTERNAL"),
                "{method}: {said}"
            );

            let (_, said) = hosted.grpcurl(service, Some(&hosted.token("broker")), &["-d", "{}", &method]);
            let open_to_services = ["GetRun", "ListRuns", "WatchRun", "WatchEvents", "VerifyLedger"];
            if !open_to_services.iter().any(|open| method.ends_with(&format!("/{open}"))) {
                assert!(said.contains("Code: PermissionDenied") && said.contains("NOT_PERMITTED"), "{method}: {said}");
            }
            walked += 1;
        }
        let (healthy, said) = hosted.grpcurl(service, Some(&operator), &["grpc.health.v1.Health/Check"]);
        assert!(healthy && said.contains("SERVING"), "{said}");
    }
    assert!(walked >= 20, "{walked} rpcs");
}

/// True for what the operator may call.
fn may_operator(method: &str) -> bool {
    let elsewhere = [
        "GetRun",
        "ListRuns",
        "WatchRun",
        "WatchEvents",
        "VerifyLedger",
        "StopRun",
        "GetExecution",
        "TailOutput",
        "KeepRun",
    ];
    method.starts_with("mosaic.launcher.") || elsewhere.iter().any(|verb| method.ends_with(&format!("/{verb}")))
}

#[test]
fn a_run_is_launched_and_watched_with_nothing_but_grpcurl() {
    if !available("grpcurl") {
        return;
    }
    let hosted = Hosted::new();
    let operator = hosted.token("operator");
    let task = serde_json::json!({ "taskVersion": 1, "id": "by-hand", "prompt": "echo hi" }).to_string();
    let launch =
        serde_json::json!({ "request_id": "by-hand-1", "task": { "name": "t.json", "content": task } }).to_string();
    let call = |service: &str, message: &str, method: &str| {
        let (succeeded, said) = hosted.grpcurl(service, Some(&operator), &["-d", message, method]);
        assert!(succeeded, "{said}");
        said
    };
    let first: serde_json::Value =
        serde_json::from_str(&call("launcher", &launch, "mosaic.launcher.v1.LaunchService/Launch")).expect("JSON");
    let again: serde_json::Value =
        serde_json::from_str(&call("launcher", &launch, "mosaic.launcher.v1.LaunchService/Launch")).expect("JSON");
    assert_eq!(first["runId"], again["runId"], "the same request is the same run");
    assert!(again["created"].is_null(), "{again}");
    let run = serde_json::json!({ "run_id": first["runId"] }).to_string();
    let watched = call("broker", &run, "mosaic.broker.v1.RunService/WatchRun");
    assert!(
        watched.contains("run.queued") && watched.trim_end().ends_with('}') && watched.contains("run.ended"),
        "{watched}"
    );
}

#[test]
fn buf_curl_speaks_the_newer_reflection() {
    if !available("buf") {
        return;
    }
    let hosted = Hosted::new();
    let operator = hosted.token("operator");
    let output = Command::new("buf")
        .args(["curl", "--protocol", "grpc", "--http2-prior-knowledge", "--unix-socket"])
        .arg(hosted.socket("broker"))
        .args(["--header", &format!("authorization: Bearer {operator}")])
        .args(["--reflect-header", &format!("authorization: Bearer {operator}")])
        .args(["--reflect-protocol", "grpc-v1", "http://localhost/mosaic.broker.v1.LedgerService/VerifyLedger"])
        .output()
        .expect("buf runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("\"intact\": true"), "{said}");
}
