//! `mosaic checkout`: one step of a checkout, on any clone, without services.

use std::path::{Path, PathBuf};

use mosaic_checkout::{Checkout, Containment, MirrorError, Request, Verdict, inspect, locate, sync};
use mosaic_ids::Digest;
use mosaic_lifecycle::error_chain;

use super::print_line;
use crate::args::{Checkout as Command, CheckoutStep};
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::{Settings, user_data_root};
use crate::view::describe;

pub(crate) fn run(command: Command, config: Option<&Path>) -> Outcome {
    type Act = fn(&Request) -> Result<Checkout, MirrorError>;
    let (arguments, act, done): (CheckoutStep, Act, bool) = match command {
        Command::Inspect(arguments) => (arguments, inspect, false),
        Command::Sync(arguments) => (arguments, sync, true),
    };
    let request = request(&arguments, config)?;
    match act(&request) {
        Ok(checkout) => {
            print_line(&if arguments.json { json(&checkout) } else { text(&checkout, done) });
            Ok(Exit::Done)
        }
        Err(error) => {
            if arguments.json {
                let line = serde_json::json!({ "verdict": "checkout-failed", "detail": error_chain(&error) });
                print_line(&line.to_string());
            }
            Err(failure(&error))
        }
    }
}

fn request(arguments: &CheckoutStep, config: Option<&Path>) -> Result<Request, Failure> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
    };
    let path = std::env::var_os("PATH");
    let root = absolute(&arguments.root)?;
    let owner = arguments.owner.unwrap_or_else(|| nix::unistd::geteuid().as_raw());
    let state = match &arguments.state {
        Some(state) => absolute(state)?,
        None => {
            let key = Digest::of(root.as_os_str().as_encoded_bytes());
            user_data_root()?.with_file_name("mosaic-checkouts").join(&key.as_str()[..16])
        }
    };
    let bubblewrap = locate("bwrap", path.as_deref()).unwrap_or_else(|| PathBuf::from("/usr/bin/bwrap"));
    Ok(Request {
        clone: absolute(&arguments.dir)?,
        root,
        branch: arguments.branch.clone(),
        state,
        git: git(arguments.git.as_deref(), config)?,
        owner,
        containment: Containment::detect(&bubblewrap, owner),
    })
}

/// The git that was named, else the configuration's, else the one in PATH.
fn git(named: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(git) = named {
        return match git.is_absolute() && git.is_file() {
            true => Ok(git.to_owned()),
            false => Err(Failure::usage(format!("--git: `{}` is no absolute path of a file", git.display()))),
        };
    }
    // A configuration that was named must be right; one that is not there says nothing.
    let configured = match (Settings::load(config), config) {
        (Ok(settings), _) => settings.config.git_path,
        (Err(failure), Some(_)) => return Err(failure),
        (Err(_), None) => None,
    };
    let found = configured.or_else(|| locate("git", std::env::var_os("PATH").as_deref()));
    found.ok_or_else(|| Failure::usage("there is no git in PATH").hint("install git, or name one with `--git`"))
}

fn failure(error: &MirrorError) -> Failure {
    let failure = Failure::usage(error_chain(error));
    match error {
        MirrorError::Io { source, .. } if source.kind() == std::io::ErrorKind::CrossesDevices => {
            failure.hint("name a directory on the clone's file system with `--state`")
        }
        _ => failure,
    }
}

fn json(checkout: &Checkout) -> String {
    serde_json::to_string(checkout).expect("a checkout serializes")
}

/// For people; `done` when it was not only looked at. What is not trusted follows, a line each.
fn text(checkout: &Checkout, done: bool) -> String {
    let Checkout { verdict, reason, detail, branch, base: _, tip, tree: _, distrusted } = checkout;
    let became = match verdict {
        Verdict::Cloned | Verdict::FastForwarded if !done => format!("would be {verdict}"),
        _ => verdict.to_string(),
    };
    let mut text = match (reason, branch, tip) {
        (Some(reason), ..) => format!("{became}, {reason}: {detail}"),
        (None, Some(branch), Some(tip)) => format!("{became}: `{branch}` is at {tip}"),
        (None, ..) => became,
    };
    for found in distrusted {
        text.push_str(&format!("\n  {}", describe::distrusted(found)));
    }
    text
}

#[cfg(test)]
mod tests {
    use mosaic_checkout::Reason;
    use mosaic_record::{Distrust, Distrusted};

    use super::*;

    #[test]
    fn a_look_says_what_would_become_of_a_clone_and_what_is_not_trusted() {
        let forwarded = Checkout {
            tree: None,
            verdict: Verdict::FastForwarded,
            reason: None,
            detail: String::new(),
            branch: Some("main".to_owned()),
            base: None,
            tip: Some("1234".to_owned()),
            distrusted: Vec::new(),
        };
        assert_eq!(text(&forwarded, false), "would be fast-forwarded: `main` is at 1234");
        assert_eq!(text(&forwarded, true), "fast-forwarded: `main` is at 1234");
        let cloned = Checkout { verdict: Verdict::Cloned, ..forwarded.clone() };
        assert_eq!(text(&cloned, false), "would be cloned: `main` is at 1234");
        let hook = Distrusted { what: Distrust::Hook, at: ".git/hooks/x".to_owned() };
        let kept = Checkout {
            verdict: Verdict::CheckoutKept,
            reason: Some(Reason::Dirty),
            detail: "1 path(s) differ".to_owned(),
            distrusted: vec![hook],
            ..forwarded
        };
        assert_eq!(text(&kept, false), "checkout-kept, dirty: 1 path(s) differ\n  not trusted: hook: .git/hooks/x");
    }
}
