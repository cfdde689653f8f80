use std::path::PathBuf;

/// Why a directory can't be worked on as a data root.
#[derive(Debug, thiserror::Error)]
pub enum DataRootError {
    /// The path is relative.
    #[error("the data root `{}` is not an absolute path", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// The path of a socket below it would be longer than the kernel takes.
    #[error(
        "the data root `{}` is too long: its socket paths would have {bytes} bytes, the kernel takes 107; choose a shorter path",
        path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Bytes of the longest socket path.
        bytes: usize,
    },
    /// Something else is there.
    #[error(
        "`{}` is not a data root of Mosaic and not empty; name an empty or new directory as `dataRoot`",
        path.display()
    )]
    NotOurs {
        /// The path.
        path: PathBuf,
    },
    /// Nothing is there.
    #[error("there is no data root at `{}`", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to somebody else.
    #[error("`{}` belongs to uid {owner}, this process runs as uid {uid}; run it as the owner", path.display())]
    NotOwner {
        /// The path.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective uid.
        uid: u32,
    },
    /// Others may write to it.
    #[error("others may write to `{}`; take that from them with `chmod go-w`", path.display())]
    Exposed {
        /// The path.
        path: PathBuf,
    },
    /// A directory that must be private is not.
    #[error("`{}` must be a real directory of mode 0700, owned by uid {uid}", path.display())]
    NotPrivate {
        /// The path.
        path: PathBuf,
        /// The owner it should have.
        uid: u32,
    },
    /// A credential file is not what it should be.
    #[error("`{}` is not a credential file of Mosaic", path.display())]
    BadCredential {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("can't {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl DataRootError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
