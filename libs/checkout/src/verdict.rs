//! What becomes of a clone, and why.

use mosaic_record::Distrusted;
pub use mosaic_record::{CheckoutVerdict as Verdict, KeptReason as Reason};

/// A reason with what it was seen at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Kept {
    /// Why.
    pub reason: Reason,
    /// True when it was decided before any git ran.
    pub before_git: bool,
    /// For people; without control characters.
    pub detail: String,
}

impl Kept {
    /// A reason that was seen while files alone were looked at.
    pub(crate) fn looked(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, before_git: true, detail: detail.into() }
    }

    /// A reason that git was asked for.
    pub(crate) fn asked(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, before_git: false, detail: detail.into() }
    }

    /// The verdict that follows: what no honest use leads to is refused, as long as no git has run.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        let hostile =
            matches!(self.reason, Reason::ConfigChanged | Reason::NotAClone | Reason::TooLarge | Reason::Unreadable);
        if hostile && self.before_git { Verdict::Refused } else { Verdict::CheckoutKept }
    }
}

/// What became of one checkout.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkout {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it was left as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// For people; without control characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The branch of the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that the clone was at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The commit that the root is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// Identity of the clone's tree, where it is the root's: the id of its tree object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What in the clone, as it was found, is not trusted; see [`distrusted`](crate::distrusted).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distrusted: Vec<Distrusted>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_before_any_git_is_refused() {
        let verdict = |reason, before_git| Kept { reason, before_git, detail: String::new() }.verdict();
        assert_eq!(verdict(Reason::ConfigChanged, true), Verdict::Refused);
        assert_eq!(verdict(Reason::TooLarge, false), Verdict::CheckoutKept);
        assert_eq!(verdict(Reason::Dirty, true), Verdict::CheckoutKept);
        assert_eq!(verdict(Reason::GitBusy, true), Verdict::CheckoutKept);
        let json = serde_json::to_string(&(Verdict::FastForwarded, Reason::NotAClone)).expect("serializes");
        assert_eq!(json, r#"["fast-forwarded","not-a-clone"]"#);
    }
}
