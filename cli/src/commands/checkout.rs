//! `mosaic checkout`: one step of a checkout, on any clone, without services.

use std::path::{Path, PathBuf};

use mosaic_checkout::{Checkout, Containment, MirrorError, Request, inspect, locate, sync};
use mosaic_ids::Digest;
use mosaic_lifecycle::error_chain;

use super::print_line;
use crate::args::{Checkout as Command, CheckoutStep};
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::{Settings, user_data_root};

pub(crate) fn run(command: Command, config: Option<&Path>) -> Outcome {
    type Act = fn(&Request) -> Result<Checkout, MirrorError>;
    let (arguments, act): (CheckoutStep, Act) = match command {
        Command::Inspect(arguments) => (arguments, inspect),
        Command::Sync(arguments) => (arguments, sync),
    };
    let request = request(&arguments, config)?;
    match act(&request) {
        Ok(checkout) => {
            print_line(&if arguments.json { json(&checkout) } else { text(&checkout) });
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

fn text(checkout: &Checkout) -> String {
    let Checkout { verdict, reason, detail, branch, base: _, tip } = checkout;
    match (reason, branch, tip) {
        (Some(reason), ..) => format!("{verdict}, {reason}: {detail}"),
        (None, Some(branch), Some(tip)) => format!("{verdict}: `{branch}` is at {tip}"),
        (None, ..) => verdict.to_string(),
    }
}
