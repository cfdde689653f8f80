use std::io::Write as _;

use super::*;

/// Writes `parts` into a stream of `limit` bytes and gives what was captured with a reader of it.
async fn capture(parts: &[&[u8]], limit: u64) -> (tempfile::TempDir, Captured, Reader) {
    let scratch = tempfile::tempdir().expect("scratch");
    let (pipe, mut writer) = io::pipe().expect("pipe");
    let prepared = Capture::prepare(&scratch.path().join("stdout.txt"), limit).expect("prepared");
    let mut capture = prepared.keep(pipe, None).expect("kept");
    for part in parts {
        writer.write_all(part).expect("written");
    }
    drop(writer);
    let captured = capture.finished().await.expect("finished");
    let reader = capture.reader();
    (scratch, captured, reader)
}

fn read_all(reader: &Reader) -> (Vec<u8>, u64) {
    let (mut offset, mut bytes, mut dropped) = (0, Vec::new(), 0);
    while let Some(chunk) = reader.read(offset).expect("readable") {
        dropped += chunk.dropped;
        offset = chunk.offset + chunk.data.len() as u64;
        bytes.extend(chunk.data);
    }
    (bytes, dropped)
}

#[tokio::test]
async fn what_fits_is_kept_whole() {
    let (scratch, captured, reader) = capture(&[b"one\n", b"two", b"\n\n"], 64).await;
    assert_eq!(captured.total, 9);
    assert_eq!(captured.dropped, 0);
    assert_eq!(captured.trailing_newlines, 2);
    assert_eq!(captured.digest, Digest::of(b"one\ntwo\n\n"));
    assert_eq!(std::fs::read(scratch.path().join("stdout.txt")).expect("there"), b"one\ntwo\n\n");
    assert!(!scratch.path().join("stdout.tail").exists());
    assert_eq!(read_all(&reader), (b"one\ntwo\n\n".to_vec(), 0));
}

#[tokio::test]
async fn beyond_the_limit_head_and_tail_are_kept_and_the_middle_is_counted() {
    let everything: Vec<u8> = (0..1_000_000_u32).map(|number| b'a' + (number % 26) as u8).collect();
    let (scratch, captured, reader) = capture(&[&everything], 4096).await;
    assert_eq!((captured.total, captured.dropped), (1_000_000, 1_000_000 - 4096));
    assert_eq!(captured.digest, Digest::of(&everything));
    let kept = [&everything[..3072], &everything[1_000_000 - 1024..]].concat();
    assert_eq!(std::fs::read(scratch.path().join("stdout.txt")).expect("there"), kept);
    assert_eq!(read_all(&reader), (kept, captured.dropped));
}

#[tokio::test]
async fn a_reader_follows_a_stream_and_is_told_of_what_it_missed() {
    let scratch = tempfile::tempdir().expect("scratch");
    let (pipe, mut writer) = io::pipe().expect("pipe");
    let prepared = Capture::prepare(&scratch.path().join("stdout.txt"), 4096).expect("prepared");
    let mut capture = prepared.keep(pipe, None).expect("kept");
    let mut reader = capture.reader();
    assert_eq!(reader.read(0).expect("readable"), None);
    writer.write_all(b"hello").expect("written");
    assert_eq!(reader.more_than(0).await.total, 5);
    assert_eq!(reader.read(0).expect("readable"), Some(Chunk { offset: 0, dropped: 0, data: b"hello".to_vec() }));
    assert!(matches!(reader.read(6), Err(ReadError::Beyond { offset: 6, total: 5 })));

    writer.write_all(&[b'x'; 10_000]).expect("written");
    while reader.progress().total < 10_005 {
        reader.more_than(reader.progress().total).await;
    }
    let head = reader.read(5).expect("readable").expect("there");
    assert_eq!((head.offset, head.dropped, head.data.len()), (5, 0, 3072 - 5));
    let tail = reader.read(3072).expect("readable").expect("there");
    assert_eq!((tail.offset, tail.dropped), (10_005 - 1024, 10_005 - 4096));
    drop(writer);
    capture.finished().await.expect("finished");
    assert!(reader.more_than(10_005).await.finished);
}

#[tokio::test]
async fn output_of_an_earlier_execution_is_never_written_over() {
    let scratch = tempfile::tempdir().expect("scratch");
    let file = scratch.path().join("stdout.txt");
    std::fs::write(&file, "earlier").expect("written");
    let error = Capture::prepare(&file, 4096).expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&file).expect("there"), b"earlier");
}

#[tokio::test]
async fn a_stream_that_is_over_is_read_again_from_its_files() {
    let everything: Vec<u8> = (0..10_000_u32).map(|number| b'a' + (number % 26) as u8).collect();
    for (written, limit) in [(0, 4096), (100, 4096), (3_500, 4096), (4_096, 4096), (4_097, 4096), (10_000, 4096)] {
        let (scratch, _, reader) = capture(&[&everything[..written]], limit).await;
        let again = reopen(&scratch.path().join("stdout.txt")).expect("readable").expect("there");
        assert_eq!(again.progress().total, written as u64);
        assert!(again.progress().finished);
        assert_eq!(read_all(&again), read_all(&reader), "{written}");
        assert_eq!(again.read(3_090).ok(), reader.read(3_090).ok(), "{written}");
    }
}

#[test]
fn without_a_layout_that_fits_a_file_is_the_beginning_and_without_a_file_there_is_nothing() {
    let scratch = tempfile::tempdir().expect("scratch");
    let file = scratch.path().join("stdout.txt");
    assert!(reopen(&file).expect("readable").is_none());
    std::fs::write(&file, "12345").expect("written");
    let huge = format!(r#"{{"head":5,"dropped":{},"tail":0}}"#, u64::MAX);
    for layout in ["", "{}", r#"{"head":9,"dropped":1,"tail":0}"#, &huge] {
        std::fs::write(scratch.path().join("stdout.layout.json"), layout).expect("written");
        let reader = reopen(&file).expect("readable").expect("there");
        assert_eq!(read_all(&reader), (b"12345".to_vec(), 0), "{layout}");
    }
}
