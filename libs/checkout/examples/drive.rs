//! One checkout of a clone, for driving a corpus of clones: `drive CLONE ROOT BRANCH` prints one JSON line.
//! `CHECKOUT_GIT` names the git, `CHECKOUT_OWNER` the uid, `CHECKOUT_BWRAP` bubblewrap.

#![expect(clippy::print_stdout, reason = "the line is the result")]

use std::path::PathBuf;

use mosaic_checkout::{Containment, Request, sync};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("CLONE ROOT BRANCH");
    let (clone, root, branch) = (PathBuf::from(next()), PathBuf::from(next()), next());
    let state = std::env::temp_dir().join(format!("checkout-drive-{}", std::process::id()));
    let request = Request {
        clone,
        root,
        branch: Some(branch),
        state: state.clone(),
        git: std::env::var_os("CHECKOUT_GIT").map_or_else(|| "/usr/bin/git".into(), PathBuf::from),
        owner: std::env::var("CHECKOUT_OWNER")
            .map_or_else(|_unset| nix::unistd::geteuid().as_raw(), |uid| uid.parse().expect("a uid")),
        containment: None,
    };
    let bubblewrap = std::env::var_os("CHECKOUT_BWRAP").map_or_else(|| "/usr/bin/bwrap".into(), PathBuf::from);
    let request = Request { containment: Containment::detect(&bubblewrap, request.owner), ..request };
    let line = match sync(&request) {
        Ok(checkout) => serde_json::to_string(&checkout).expect("serializes"),
        Err(error) => {
            let mut detail = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                detail = format!("{detail}: {source}");
            }
            serde_json::json!({ "verdict": "checkout-failed", "detail": detail }).to_string()
        }
    };
    println!("{line}");
    let _removed = std::fs::remove_dir_all(state);
}
