use super::Malformed;

/// Longest name of a section, in bytes: each assignment below it repeats it.
const SECTION_BYTES: usize = 1024;

/// One assignment of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Section, lower case, and subsection as it is written: `core`, `remote.origin`, `branch.main`.
    pub section: String,
    /// Key, lower case.
    pub key: String,
    /// Value as it is written; `None` for a key without `=`.
    pub value: Option<String>,
}

/// Reads a configuration as git writes one (git-config(1)): sections in lines of their own, one assignment a line.
///
/// What git reads beyond that (continued lines, an assignment behind a section's name) is taken for malformed, since git never
/// writes it: this parser need not agree with git's, it need only know what an untouched file looks like.
///
/// # Errors
/// At the first line that git would not have written.
pub fn parse_config(content: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let text = std::str::from_utf8(content).map_err(|_not_text| Malformed)?;
    let mut section = None;
    let mut entries = Vec::new();
    for line in text.split('\n') {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            section = Some(section_name(line)?);
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim_end_matches([' ', '\t']), Some(unquoted(value.trim_matches([' ', '\t']))?)),
            None => (line, None),
        };
        let named = key.starts_with(|first: char| first.is_ascii_alphabetic())
            && key.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
        if !named {
            return Err(Malformed);
        }
        let section = section.clone().ok_or(Malformed)?;
        entries.push(Entry { section, key: key.to_ascii_lowercase(), value });
    }
    Ok(entries)
}

/// `[core]` or `[remote "origin"]`.
fn section_name(line: &str) -> Result<String, Malformed> {
    let inner = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(Malformed)?;
    if inner.len() > SECTION_BYTES {
        return Err(Malformed);
    }
    let (name, subsection) = match inner.split_once(' ') {
        None => (inner, None),
        Some((name, quoted)) => {
            let quoted = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(Malformed)?;
            (name, Some(quoted))
        }
    };
    if name.is_empty() || !name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-') {
        return Err(Malformed);
    }
    let name = name.to_ascii_lowercase();
    match subsection {
        None => Ok(name),
        Some(sub) if sub.contains(['"', '\\', '\0']) => Err(Malformed),
        Some(sub) => Ok(format!("{name}.{sub}")),
    }
}

/// The value that a text stands for: as it is, or quoted as a whole with `\"`, `\\`, `\n`, `\t` and `\b`.
fn unquoted(text: &str) -> Result<String, Malformed> {
    let Some(quoted) = text.strip_prefix('"') else {
        return if text.contains(['"', '\\', '#', ';', '\r', '\0']) { Err(Malformed) } else { Ok(text.to_owned()) };
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next().ok_or(Malformed)? {
            '"' if characters.as_str().is_empty() => return Ok(value),
            '"' => return Err(Malformed),
            '\\' => value.push(match characters.next() {
                Some(plain @ ('"' | '\\')) => plain,
                Some('n') => '\n',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                _ => return Err(Malformed),
            }),
            character => value.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<(String, String, Option<String>), Malformed> {
        let entries = parse_config(text.as_bytes())?;
        let [Entry { section, key, value }] = entries.as_slice() else { panic!("{entries:?}") };
        Ok((section.clone(), key.clone(), value.clone()))
    }

    #[test]
    fn what_git_writes_is_read() {
        let read =
            |section: &str, key: &str, value: &str| Ok((section.to_owned(), key.to_owned(), Some(value.to_owned())));
        assert_eq!(one("[core]\n\tfileMode = true\n"), read("core", "filemode", "true"));
        assert_eq!(one("[remote \"origin\"]\n\turl = /srv/a b\n"), read("remote.origin", "url", "/srv/a b"));
        assert_eq!(one("[Branch \"Main\"]\n\tx = \"a#\\\"\\\\\\n\"\n"), read("branch.Main", "x", "a#\"\\\n"));
        assert_eq!(one("# a comment\n[core]\n;\n\tbare\n"), Ok(("core".into(), "bare".into(), None)));
    }

    #[test]
    fn what_git_never_writes_is_malformed() {
        for bad in [
            "x = 1\n",
            "[core] x = 1\n",
            "[core\n",
            "[core]\nx = a\\\nb\n",
            "[core]\nx = \"a\" b\n",
            "[core]\nx = a # b\n",
            "[core]\nx y = 1\n",
            "[core]\n1x = 1\n",
            "[]\nx = 1\n",
            "[a \"b]\nx = 1\n",
            "[a \"b\\\"]\nx=1\n",
            "[core]\nx = \"a\n",
        ] {
            assert_eq!(parse_config(bad.as_bytes()), Err(Malformed), "{bad:?}");
        }
        assert_eq!(parse_config(b"[core]\n\tx = \xff\n"), Err(Malformed));
    }
}
