use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use nix::sys::stat::{mkdirat, stat};
use nix::unistd::mkfifo;

use super::*;

fn bounds(reserve: u64) -> Bounds {
    Bounds { reserve, stop: CancellationToken::new() }
}

/// A directory with an empty `workspace` in it.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().expect("scratch");
    let workspace = scratch.path().join("workspace");
    fs::create_dir(&workspace).expect("made");
    (scratch, workspace)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Unpacks an archive with the system's own tar.
fn unpacked(archive: &Path) -> tempfile::TempDir {
    let target = tempfile::tempdir().expect("scratch");
    let mut tar = Command::new("tar");
    let status = tar.arg("-xpzf").arg(archive).arg("-C").arg(target.path()).status().expect("tar runs");
    assert!(status.success());
    target
}

#[test]
fn what_was_in_a_workspace_comes_back_byte_for_byte() {
    let (scratch, workspace) = scratch();
    let odd = OsString::from_vec(b"a \xff\n'name'".to_vec());
    let long = "l".repeat(200);
    fs::create_dir_all(workspace.join(&long).join(&long)).expect("made");
    fs::write(workspace.join(&odd), "odd").expect("written");
    fs::write(workspace.join(&long).join(&long).join("deep"), vec![7; 300_000]).expect("written");
    fs::write(workspace.join("tool"), "#!/bin/sh\n").expect("written");
    fs::set_permissions(workspace.join("tool"), fs::Permissions::from_mode(0o751)).expect("set");
    let old = File::options().write(true).open(workspace.join("tool")).expect("open");
    old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).expect("set");
    symlink("/etc/passwd", workspace.join("link")).expect("link");
    symlink(format!("{long}/.//../x"), workspace.join("long-link")).expect("link");
    symlink("./a//b", workspace.join("odd-link")).expect("link");

    let archive = archive(scratch.path(), &workspace, &bounds(0)).expect("archived");
    let file = scratch.path().join(&archive.name);
    let bytes = fs::read(&file).expect("there");
    assert_eq!((archive.digest, archive.size_bytes), (Digest::of(&bytes), bytes.len() as u64));
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(names(scratch.path()), ["workspace", "workspace.tar.gz"], "nothing else is left");

    let target = unpacked(&file);
    let mut diff = Command::new("diff");
    diff.args(["-r", "--no-dereference"]).arg(&workspace).arg(target.path().join("workspace"));
    let output = diff.output().expect("diff runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let tool = fs::metadata(target.path().join("workspace/tool")).expect("there");
    assert_eq!((tool.mode() & 0o7777, tool.mtime()), (0o751, 1_000_000_000));
    assert_eq!(fs::read_link(target.path().join("workspace/odd-link")).expect("a link"), Path::new("./a//b"));
    assert_eq!(names(target.path()), ["workspace"]);
}

#[test]
fn what_has_no_content_is_listed_and_nothing_waits_for_it() {
    let (scratch, workspace) = scratch();
    mkfifo(&workspace.join("pipe\nline"), Mode::S_IRWXU).expect("made");
    let _socket = UnixListener::bind(workspace.join("socket")).expect("made");
    fs::write(workspace.join("file"), "x").expect("written");
    let archive = archive(scratch.path(), &workspace, &bounds(0)).expect("archived");
    let target = unpacked(&scratch.path().join(archive.name));
    assert_eq!(names(&target.path().join("workspace")), ["file"]);
    let listed = fs::read_to_string(target.path().join("not-archived.txt")).expect("there");
    assert_eq!(listed, "pipe \"workspace/pipe\\nline\"\nsocket \"workspace/socket\"\n");
}

#[test]
fn no_link_is_followed() {
    let (scratch, workspace) = scratch();
    let outside = tempfile::tempdir().expect("scratch");
    fs::write(outside.path().join("secret"), "canary").expect("written");
    symlink(outside.path(), workspace.join("directory")).expect("link");
    symlink(outside.path().join("secret"), workspace.join("file")).expect("link");
    symlink("loop", workspace.join("loop")).expect("link");
    let made = archive(scratch.path(), &workspace, &bounds(0)).expect("archived");
    let target = unpacked(&scratch.path().join(made.name));
    let is_link = |name: &str| target.path().join("workspace").join(name).is_symlink();
    assert!(is_link("directory") && is_link("file") && is_link("loop"));
    fs::remove_dir_all(&workspace).expect("ours");
    symlink(outside.path(), &workspace).expect("link");
    archive(scratch.path(), &workspace, &bounds(0)).expect_err("a link is no workspace");
}

#[test]
fn closed_files_and_directories_are_archived_and_stay_closed() {
    let (scratch, workspace) = scratch();
    fs::create_dir(workspace.join("closed")).expect("made");
    fs::write(workspace.join("closed/file"), "x").expect("written");
    fs::set_permissions(workspace.join("closed/file"), fs::Permissions::from_mode(0o000)).expect("closed");
    fs::set_permissions(workspace.join("closed"), fs::Permissions::from_mode(0o000)).expect("closed");
    let archive = archive(scratch.path(), &workspace, &bounds(0)).expect("archived");
    let mode = |path: &Path| stat(path).expect("there").st_mode & 0o777;
    assert_eq!(mode(&workspace.join("closed")), 0);
    let target = unpacked(&scratch.path().join(archive.name));
    let closed = target.path().join("workspace/closed");
    assert_eq!(mode(&closed), 0);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("opened");
    assert_eq!(mode(&closed.join("file")), 0);
    fs::set_permissions(workspace.join("closed"), fs::Permissions::from_mode(0o700)).expect("opened");
}

#[test]
fn a_tree_that_is_deeper_than_any_path_is_archived() {
    let (scratch, workspace) = scratch();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut directory = nix::fcntl::open(&workspace, flags, Mode::empty()).expect("open");
    for _ in 0..2_500 {
        mkdirat(&directory, "dd", Mode::S_IRWXU).expect("made");
        directory = openat(&directory, "dd", flags, Mode::empty()).expect("open");
    }
    let made = archive(scratch.path(), &workspace, &bounds(0)).expect("archived");
    let file = File::open(scratch.path().join(made.name)).expect("there");
    let mut entries = tar::Archive::new(flate2::read::GzDecoder::new(file));
    assert_eq!(entries.entries().expect("a tar").filter(Result::is_ok).count(), 2_501);
    mosaic_data_root::remove_tree(&workspace).expect("removed");
}

#[test]
fn without_room_or_time_there_is_no_archive_and_nothing_is_left_of_it() {
    let (scratch, workspace) = scratch();
    fs::write(workspace.join("file"), "x").expect("written");
    let full = archive(scratch.path(), &workspace, &bounds(u64::MAX)).expect_err("no room");
    assert!(matches!(&full, ArchiveError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull));
    let late = bounds(0);
    late.stop.cancel();
    let late = archive(scratch.path(), &workspace, &late).expect_err("no time");
    assert!(late.to_string().ends_with("the launcher ends"), "{late}");
    let sparse = File::create(workspace.join("sparse")).expect("made");
    sparse.set_len(LENGTH + 1).expect("sparse");
    let long = archive(scratch.path(), &workspace, &bounds(0)).expect_err("too long");
    assert!(matches!(long, ArchiveError::TooLong { .. }));
    assert_eq!(names(scratch.path()), ["workspace"]);
    assert_eq!(names(&workspace), ["file", "sparse"]);
}
