//! Free disk: below which nothing is launched, and what is said then.

use mosaic_lifecycle::human_bytes;

/// The part of the mark that is left for the ledger: below it not even a refusal is recorded.
const RESERVE: u64 = 8;

/// Whether there is room for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Enough,
    /// Less than the mark.
    Low,
    /// So little that what is left is for what is at work already.
    Exhausted,
}

/// Whether `free` bytes are enough by `mark`; `None` asks for none.
#[must_use]
pub const fn room(free: u64, mark: Option<u64>) -> Room {
    match mark {
        Some(mark) if free < mark / RESERVE => Room::Exhausted,
        Some(mark) if free < mark => Room::Low,
        _ => Room::Enough,
    }
}

/// What has to stay free while an archive is written.
#[must_use]
pub const fn reserve(mark: Option<u64>) -> u64 {
    match mark {
        Some(mark) => mark / RESERVE,
        None => 0,
    }
}

/// What a prune would do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It would free so many bytes.
    Frees(u64),
    /// It would do nothing: no rule is configured.
    NoRule,
    /// Nobody could tell.
    Unknown,
}

/// The message of a refusal.
#[must_use]
pub fn message(free: u64, mark: u64, remedy: Remedy) -> String {
    let (free, mark) = (human_bytes(free), human_bytes(mark));
    let hint = match remedy {
        Remedy::Frees(0) => {
            "by the rules in `retention` nothing can go yet; `mosaic prune --older-than` takes more".into()
        }
        Remedy::Frees(bytes) => format!("`mosaic prune` would free {}", human_bytes(bytes)),
        Remedy::NoRule => {
            "no retention rule is configured: see `retention` in docs/configuration.md, or `mosaic prune --older-than`"
                .into()
        }
        Remedy::Unknown => "`mosaic prune --dry-run` says what can go".into(),
    };
    format!("{free} are free where the data root is, less than the {mark} of `retention.diskLowBytes`\nhint: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_by_the_mark() {
        let cases: &[(u64, Option<u64>, Room)] = &[
            (800, Some(800), Room::Enough),
            (799, Some(800), Room::Low),
            (100, Some(800), Room::Low),
            (99, Some(800), Room::Exhausted),
            (0, Some(800), Room::Exhausted),
            (0, None, Room::Enough),
        ];
        for (free, mark, expected) in cases {
            assert_eq!(room(*free, *mark), *expected, "{free} {mark:?}");
        }
    }

    #[test]
    fn a_refusal_says_how_much_is_free_how_much_is_wanted_and_what_helps() {
        let said = message(3 << 20, 1 << 30, Remedy::Frees(1_288_490_189));
        let expected = "3.0 MiB are free where the data root is, less than the 1.0 GiB of `retention.diskLowBytes`\n\
                        hint: `mosaic prune` would free 1.2 GiB";
        assert_eq!(said, expected);
        assert!(message(0, 1, Remedy::NoRule).contains("no retention rule is configured: see"));
    }
}
