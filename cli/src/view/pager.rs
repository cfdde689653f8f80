//! Where long text goes: to a pager at a terminal, else to standard output.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What `less` is to do when nobody has told it: end when one screen is enough, pass colours through, leave the text there.
const LESS: &str = "FRX";

/// Takes text until it is finished.
#[derive(Debug)]
pub(crate) enum Pager {
    /// Straight to standard output.
    None,
    /// Through a program.
    Program {
        /// It.
        child: Box<Child>,
        /// Ctrl-C is the pager's own meanwhile.
        _interrupts: Option<Signal>,
    },
}

impl Pager {
    /// The person's pager; none where they have set an empty one, or `cat`, or where it does not start.
    pub(crate) fn start() -> Self {
        let Some((program, arguments)) = command(std::env::var_os("PAGER")) else { return Self::None };
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        let interrupts = signal(SignalKind::interrupt()).ok();
        match command.spawn() {
            Ok(child) => Self::Program { child: Box::new(child), _interrupts: interrupts },
            Err(error) => {
                tracing::debug!(program = %program.display(), %error, "Could not start the pager");
                Self::None
            }
        }
    }

    /// Writes some; false once nobody reads it any more.
    pub(crate) async fn write(&mut self, data: &[u8]) -> bool {
        match self {
            Self::None => {
                let mut stdout = std::io::stdout().lock();
                let result = stdout.write_all(data).and_then(|()| stdout.flush());
                let goes_on = result.is_ok();
                crate::exit::written(result);
                goes_on
            }
            Self::Program { child, .. } => match &mut child.stdin {
                // A pager that was left has shown enough.
                Some(stdin) => stdin.write_all(data).await.is_ok(),
                None => false,
            },
        }
    }

    /// Returns when the person has left the pager.
    pub(crate) async fn finish(self) {
        if let Self::Program { mut child, .. } = self {
            drop(child.stdin.take());
            if let Err(error) = child.wait().await {
                tracing::debug!(%error, "Could not wait for the pager");
            }
        }
    }
}

/// Program and arguments of a pager: words of `PAGER`, never a shell's.
fn command(pager: Option<OsString>) -> Option<(OsString, Vec<OsString>)> {
    let Some(pager) = pager else { return Some(("less".into(), vec!["-R".into()])) };
    let Some(text) = pager.to_str() else { return Some((pager, Vec::new())) };
    let mut words = text.split_ascii_whitespace().map(OsString::from);
    let program = words.next().filter(|program| program != "cat")?;
    Some((program, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_is_a_program_with_arguments() {
        let words = |pager: Option<&str>| {
            let (program, arguments) = command(pager.map(OsString::from))?;
            Some([vec![program], arguments].concat().join(std::ffi::OsStr::new("|")))
        };
        assert_eq!(words(None), Some("less|-R".into()));
        assert_eq!(words(Some("most -s; $(touch x)")), Some("most|-s;|$(touch|x)".into()));
        for none in ["", "  ", "cat"] {
            assert_eq!(words(Some(none)), None, "{none:?}");
        }
    }
}
