use super::{Malformed, ObjectId, is_branch_name};

/// What `.git/HEAD` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch, by its name without `refs/heads/`.
    Branch(String),
    /// A commit.
    Detached(ObjectId),
}

/// Reads `.git/HEAD`: one line, as git itself writes it.
///
/// # Errors
/// When it is anything else; git would look for a repository elsewhere then.
pub fn parse_head(content: &[u8]) -> Result<Head, Malformed> {
    let line = content.strip_suffix(b"\n").ok_or(Malformed)?;
    if let Some(branch) = line.strip_prefix(b"ref: refs/heads/") {
        let branch = std::str::from_utf8(branch).ok().filter(|name| is_branch_name(name.as_bytes()));
        return branch.map(|name| Head::Branch(name.to_owned())).ok_or(Malformed);
    }
    ObjectId::from_hex(line).map(Head::Detached).ok_or(Malformed)
}

/// Reads a file below `.git/refs`: an id and a line end. A symbolic one is none.
///
/// # Errors
/// When it is anything else.
pub fn parse_loose_ref(content: &[u8]) -> Result<ObjectId, Malformed> {
    content.strip_suffix(b"\n").and_then(ObjectId::from_hex).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_writes_is_a_head() {
        assert_eq!(parse_head(b"ref: refs/heads/main\n"), Ok(Head::Branch("main".to_owned())));
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert!(
            matches!(parse_head(format!("{id}\n").as_bytes()), Ok(Head::Detached(found)) if found.to_string() == id)
        );
        for bad in [
            "",
            "\n",
            "ref: refs/heads/main",
            "ref: refs/heads/main\n\n",
            "ref:refs/heads/main\n",
            "ref: refs/tags/v1\n",
            "ref: refs/heads/../../x\n",
            "ref: /etc/passwd\n",
            "0123\n",
        ] {
            assert_eq!(parse_head(bad.as_bytes()), Err(Malformed), "{bad:?}");
        }
        assert!(parse_loose_ref(format!("{id}\n").as_bytes()).is_ok());
        assert_eq!(parse_loose_ref(b"ref: refs/heads/other\n"), Err(Malformed));
    }
}
