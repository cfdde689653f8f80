use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::protocol::{ACTIVITY_CONTENT, ACTIVITY_FILE, Word};

/// Looks out for the files by which an adapter says how far it is. Each is told once.
pub(crate) struct Watch {
    inotify: Inotify,
    activity: Option<PathBuf>,
    marker: Option<PathBuf>,
}

impl Watch {
    /// Watches the activity directory and the directory of the turn marker.
    pub(crate) fn new(activity_dir: Option<&str>, turn_marker: Option<&str>) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE;
        let marker = turn_marker.map(PathBuf::from);
        let directories = [activity_dir.map(Path::new), marker.as_deref().and_then(Path::parent)];
        for directory in directories.into_iter().flatten() {
            inotify.add_watch(directory, flags)?;
        }
        let activity = activity_dir.map(|directory| Path::new(directory).join(ACTIVITY_FILE));
        Ok(Self { inotify, activity, marker })
    }

    /// Readable when something may have changed.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// What has appeared since the last look.
    pub(crate) fn look(&mut self) -> Vec<Word> {
        while self.inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
        let mut news = Vec::new();
        if self.activity.take_if(|path| regular_file(path).is_some_and(|head| head == ACTIVITY_CONTENT)).is_some() {
            news.push(Word::Activity);
        }
        if self.marker.take_if(|path| regular_file(path).is_some()).is_some() {
            news.push(Word::TurnDone);
        }
        news
    }
}

/// The first bytes of `path`, one more than an activity token has, if it is a regular file and no link.
fn regular_file(path: &Path) -> Option<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut head = Vec::new();
    file.take(ACTIVITY_CONTENT.len() as u64 + 1).read_to_end(&mut head).ok()?;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_told_once_and_only_for_what_it_must_be() {
        let scratch = tempfile::tempdir().expect("scratch");
        let directory = scratch.path().to_str().expect("utf-8");
        let marker = scratch.path().join("turn");
        let token = scratch.path().join(ACTIVITY_FILE);
        let mut watch = Watch::new(Some(directory), marker.to_str()).expect("watched");
        assert_eq!(watch.look(), []);

        std::os::unix::fs::symlink("/etc/passwd", &marker).expect("link");
        std::fs::write(&token, "output").expect("written");
        assert_eq!(watch.look(), [], "a link is no marker and half a token none");
        std::fs::write(&token, "output\nmore").expect("written");
        assert_eq!(watch.look(), [], "nor is more than a token");

        std::fs::write(&token, ACTIVITY_CONTENT).expect("written");
        assert_eq!(watch.look(), [Word::Activity]);
        std::fs::remove_file(&marker).expect("removed");
        nix::unistd::mkfifo(&marker, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
        assert_eq!(watch.look(), [], "a fifo is no marker, and does not hang");
        std::fs::remove_file(&marker).expect("removed");
        std::fs::write(&marker, "").expect("written");
        assert_eq!(watch.look(), [Word::TurnDone]);
        assert_eq!(watch.look(), []);
    }
}
