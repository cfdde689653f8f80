use std::time::{Duration, Instant};

use mosaic_data_root::Service;
use mosaic_ids::Digest;
use mosaic_proto::runner::v1 as pb;
use mosaic_proto::runner::v1::tail_output_request::Stream;
use mosaic_record::{Backend, Note, RunStatus};
use mosaic_rpc::{Reason, RpcError};
use sha2::Digest as _;

use crate::harness::{Run, World, backends, wait_for};

/// By how much counts and sizes are smaller here than in the full soak (`MOSAIC_SOAK=1`).
pub(crate) fn soak_divisor() -> u64 {
    if std::env::var_os("MOSAIC_SOAK").is_some() { 1 } else { 10 }
}

/// Memory of this process now, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

async fn tail(world: &World, run: &Run, stream: Stream, offset: i64, follow: bool) -> Result<(Vec<u8>, i64), RpcError> {
    let request = pb::TailOutputRequest { run_id: run.id.to_string(), stream: stream.into(), offset, follow };
    let answer = world.client(Service::Launcher).tail_output(request).await;
    let mut chunks = answer.map_err(|status| RpcError::from_status(&status))?.into_inner();
    let (mut bytes, mut dropped) = (Vec::new(), 0);
    while let Some(chunk) = chunks.message().await.map_err(|status| RpcError::from_status(&status))? {
        assert!(chunk.data.len() <= 64 * 1024);
        dropped += chunk.dropped;
        assert_eq!(chunk.offset, offset + dropped + i64::try_from(bytes.len()).expect("small"));
        bytes.extend(chunk.data);
    }
    Ok((bytes, dropped))
}

#[tokio::test(flavor = "multi_thread")]
async fn output_without_end_grows_no_memory_and_ends_no_run() {
    let world = World::new().await;
    let total = 3_000_000_000 / soak_divisor();
    let limit = 1 << 20;
    let before = resident();
    for backend in backends() {
        let script = format!("yes | head -c {total}; yes e | head -c {total} >&2");
        let run = world.scripted(&script, backend, |launch| {
            launch.limits.output_bytes = limit;
            launch.limits.timeout_seconds = 600;
        });
        let finished = world.run(&run).await;
        assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{:?}", finished.outcome.reason);
        assert_eq!(finished.outcome.notes, [Note::OutputTruncated]);
        let output = &finished.outcome.output;
        assert_eq!((output.stdout_bytes, output.stderr_bytes), (total, total));
        assert_eq!(output.dropped, 2 * (total - limit));
        assert_eq!(finished.stdout.len() as u64, limit);
        assert!(finished.outcome.response_truncated);
        let mut hash = sha2::Sha256::new();
        (0..total / 1000).for_each(|_| hash.update(b"y\n".repeat(500)));
        assert_eq!(output.stdout_digest, Some(Digest::from_hash(&hash.finalize())));
        let (kept, dropped) = tail(&world, &run, Stream::Stderr, 0, true).await.expect("readable");
        assert_eq!((kept, dropped.unsigned_abs()), (finished.stderr, total - limit));
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "grown by {grown} bytes");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_of_64_megabytes_is_output_like_any_other() {
    let world = World::new().await;
    let total = 64_000_000;
    let script = format!("head -c {total} /dev/zero | tr '\\0' x; echo; echo end");
    let finished = world.run(&world.scripted(&script, Backend::Host, |l| l.limits.output_bytes = 1 << 20)).await;
    assert_eq!(finished.outcome.output.stdout_bytes, total + 5);
    assert!(finished.stdout.starts_with(b"xxxx") && finished.stdout.ends_with(b"x\nend\n"));
    assert_eq!(finished.outcome.status, RunStatus::Succeeded);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_are_kept_as_they_are() {
    let world = World::new().await;
    let script =
        r"printf '\377\376\000a\r\n\342\200\250\033[31m'; sleep 0.05; printf '\346\227'; sleep 0.05; printf '\245\n'";
    for backend in backends() {
        let finished = world.run(&world.scripted(script, backend, |_| {})).await;
        assert_eq!(finished.stdout, b"\xff\xfe\x00a\r\n\xe2\x80\xa8\x1b[31m\xe6\x97\xa5\n");
        let response = finished.outcome.response.clone().expect("response");
        assert_eq!(response, "\u{fffd}\u{fffd}\0a\r\n\u{2028}\u{1b}[31m日");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_any_size_and_shape_arrives_and_is_in_no_command_line() {
    let world = World::new().await;
    let digest_script = b"set -eu; sha256sum <\"$MOSAIC_REQUEST_FILE\" | cut -c1-64; echo \"${MOSAIC_REQUEST+set}\"
        cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | awk '{ if (length($0) > 65536) print \"long\" }'
        ! cat /proc/[0-9]*/cmdline | grep -aq CANARY; while [ ! -e go ]; do sleep 0.02; done";
    let metadata = r#"{"adapterVersion": 1, "description": "d", "usesModel": false}"#;
    for backend in backends() {
        for size in [150_000, 5_000_000] {
            let canary = format!("CANARY{}", "-4711");
            let begin = format!("--help '\"$(touch /tmp/x)`id`\n\\{canary}");
            let request = format!("{begin}{}", "日\n".repeat(size / 4));
            let name = "mine".parse().expect("name");
            let run = world.seal(digest_script, metadata, &name, &request, backend, |_| {});
            world.start(&run, 1).await.expect("started");
            let out = world.root.run_stdout(&run.id);
            wait_for("the digest", || std::fs::read(&out).ok().filter(|bytes| bytes.ends_with(b"\n\n"))).await;
            assert!(!every_command_line().contains(&canary), "the prompt is in a command line");
            std::fs::write(world.root.run_workspace(&run.id).join("go"), "").expect("written");
            let finished = world.finished(&run).await;
            let expected = Digest::of(request.as_bytes());
            assert_eq!(finished.outcome.response.as_deref(), Some(expected.as_str()), "{finished:?}");
            assert_eq!(finished.outcome.status, RunStatus::Succeeded, "{finished:?}");
        }
    }
    world.end().await;
}

fn every_command_line() -> String {
    let entries = std::fs::read_dir("/proc").expect("procfs").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_gets_bytes_as_they_are_written_and_the_end_with_the_run() {
    let world = World::new().await;
    for backend in backends() {
        let script =
            "while [ ! -e go ]; do sleep 0.01; done; echo first; while [ ! -e stop ]; do sleep 0.01; done; echo last";
        let run = world.scripted(script, backend, |_| {});
        world.start(&run, 1).await.expect("started");
        let request = pb::TailOutputRequest {
            run_id: run.id.to_string(),
            stream: Stream::Stdout.into(),
            offset: 0,
            follow: true,
        };
        let mut chunks = world.client(Service::Launcher).tail_output(request).await.expect("streamed").into_inner();
        let workspace = world.root.run_workspace(&run.id);
        std::fs::write(workspace.join("go"), "").expect("written");
        let first = chunks.message().await.expect("streamed").expect("a chunk");
        let arrived = Instant::now();
        let written = std::fs::metadata(world.root.run_stdout(&run.id)).expect("there").modified().expect("time");
        let latency = written.elapsed().unwrap_or_default().saturating_sub(arrived.elapsed());
        assert!(latency < Duration::from_millis(250), "{latency:?}");
        assert_eq!(first.data, b"first\n");
        std::fs::write(workspace.join("stop"), "").expect("written");
        let last = chunks.message().await.expect("streamed").expect("a chunk");
        assert_eq!((last.offset, last.data), (6, b"last\n".to_vec()));
        assert!(chunks.message().await.expect("streamed").is_none(), "the stream ends with the run");
        world.finished(&run).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_there_for_a_runner_that_never_knew_the_run() {
    let mut world = World::new().await;
    let limit = 1 << 20;
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo end; echo why >&2";
    let run = world.scripted(script, Backend::Host, |launch| launch.limits.output_bytes = limit);
    let finished = world.run(&run).await;
    let before = tail(&world, &run, Stream::Stdout, 0, true).await.expect("readable");
    assert_eq!(before, (finished.stdout.clone(), 3_000_004 - 1_048_576));
    world.runner.take().expect("a runner").drain(Duration::from_secs(5)).await;
    world.runner = Some(mosaic_runner::start(world.options()).await.expect("started again"));
    for follow in [true, false] {
        assert_eq!(tail(&world, &run, Stream::Stdout, 0, follow).await.expect("readable"), before);
        assert_eq!(tail(&world, &run, Stream::Stderr, 1, follow).await.expect("readable"), (b"hy\n".to_vec(), 0));
    }
    assert_eq!(tail(&world, &run, Stream::Stdout, 3_000_000, true).await.expect("there"), (b"end\n".to_vec(), 0));
    let error = tail(&world, &run, Stream::Stdout, 3_000_005, true).await.expect_err("beyond");
    assert_eq!(error.reason, Reason::OutOfRange);
    std::fs::remove_file(world.root.run_stderr(&run.id)).expect("removed");
    let error = tail(&world, &run, Stream::Stderr, 0, true).await.expect_err("no file");
    assert_eq!(error.reason, Reason::NotFound);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_beyond_the_output_is_out_of_range() {
    let world = World::new().await;
    let run = world.scripted("printf 12345", Backend::Host, |_| {});
    world.run(&run).await;
    assert_eq!(tail(&world, &run, Stream::Stdout, 5, false).await.expect("the end"), (Vec::new(), 0));
    assert_eq!(tail(&world, &run, Stream::Stdout, 2, false).await.expect("there"), (b"345".to_vec(), 0));
    let error = tail(&world, &run, Stream::Stdout, 6, false).await.expect_err("beyond");
    assert_eq!(error.reason, Reason::OutOfRange);
    world.end().await;
}
