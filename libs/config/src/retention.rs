use std::time::Duration;

use crate::IntakeError;

/// Free space of the data root's file system below which nothing is launched, when the configuration names none: 1 GiB.
const DEFAULT_DISK_LOW_BYTES: u64 = 1 << 30;
/// Largest number of bytes that a rule may name: 1 EiB, more than any file system has.
const MOST_BYTES: u64 = 1 << 60;
/// Most days that a rule may name: a century.
const MOST_DAYS: u64 = 36_500;
/// Most of a kind that a rule may keep.
const MOST_COUNT: u64 = 1_000_000_000;

/// `retention` of the configuration: what may be removed without anybody asking. Without a rule for a kind, nothing of that
/// kind is.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetentionFile {
    /// Whole runs: the directory below `runs/` and the events in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RuleFile>,
    /// What adapters wrote: `stdout.txt` and `stderr.txt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RuleFile>,
    /// `:run` workspaces. What is in one is archived first; named workspaces are never removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<RuleFile>,
    /// Adapter sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<RuleFile>,
    /// Free space of the data root's file system, in bytes, below which launches are refused; 0 switches that off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_BYTES), extend("default" = DEFAULT_DISK_LOW_BYTES))]
    pub disk_low_bytes: Option<u64>,
}

/// What is removed of one kind: everything that one of the keys says. A rule names at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct RuleFile {
    /// What finished, or was last used, at least so many days ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_DAYS))]
    pub days: Option<u64>,
    /// What is not among so many newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_COUNT))]
    pub count: Option<u64>,
    /// The oldest ones, until the rest takes at most so many bytes on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_BYTES))]
    pub bytes: Option<u64>,
}

/// What may be removed without anybody asking, resolved and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Whole runs.
    pub records: Option<Rule>,
    /// What adapters wrote.
    pub output: Option<Rule>,
    /// `:run` workspaces.
    pub workspaces: Option<Rule>,
    /// Adapter sessions.
    pub sessions: Option<Rule>,
    /// Free space below which launches are refused; `None` when they never are.
    pub disk_low_bytes: Option<u64>,
}

/// A rule removes everything that one of its bounds says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rule {
    /// Since something finished, or was last used.
    pub max_age: Option<Duration>,
    /// How many of the newest stay.
    pub max_count: Option<u64>,
    /// How much the newest that stay take on disk together, in bytes.
    pub max_bytes: Option<u64>,
}

impl Default for Retention {
    fn default() -> Self {
        let disk_low_bytes = Some(DEFAULT_DISK_LOW_BYTES);
        Self { records: None, output: None, workspaces: None, sessions: None, disk_low_bytes }
    }
}

impl Retention {
    /// True when anything is ever removed without anybody asking.
    #[must_use]
    pub const fn has_rules(&self) -> bool {
        self.records.is_some() || self.output.is_some() || self.workspaces.is_some() || self.sessions.is_some()
    }

    /// Resolves `retention` of `document`.
    pub(crate) fn resolve(document: &str, file: &RetentionFile) -> Result<Self, IntakeError> {
        let rule = |key: &str, rule: &Option<RuleFile>| {
            rule.as_ref().map(|rule| Rule::resolve(document, &format!("retention.{key}"), rule)).transpose()
        };
        let low = file.disk_low_bytes.unwrap_or(DEFAULT_DISK_LOW_BYTES);
        if low > MOST_BYTES {
            let problem = format!("{low} is out of range; write 0 to {MOST_BYTES}");
            return Err(IntakeError::new(document, "retention.diskLowBytes", problem));
        }
        Ok(Self {
            records: rule("records", &file.records)?,
            output: rule("output", &file.output)?,
            workspaces: rule("workspaces", &file.workspaces)?,
            sessions: rule("sessions", &file.sessions)?,
            disk_low_bytes: (low > 0).then_some(low),
        })
    }
}

impl Rule {
    /// A rule that removes what is at least this old.
    #[must_use]
    pub const fn older_than(age: Duration) -> Self {
        Self { max_age: Some(age), max_count: None, max_bytes: None }
    }

    fn resolve(document: &str, key: &str, file: &RuleFile) -> Result<Self, IntakeError> {
        if *file == RuleFile::default() {
            let problem = "names nothing; write days, count or bytes, or leave the rule out";
            return Err(IntakeError::new(document, key, problem));
        }
        let checked = |name: &str, value: Option<u64>, most: u64| match value {
            Some(value) if !(1..=most).contains(&value) => {
                let problem = format!("{value} is out of range; write 1 to {most}");
                Err(IntakeError::new(document, format!("{key}.{name}"), problem))
            }
            value => Ok(value),
        };
        let days = checked("days", file.days, MOST_DAYS)?;
        Ok(Self {
            max_age: days.map(|days| Duration::from_secs(days * 24 * 3600)),
            max_count: checked("count", file.count, MOST_COUNT)?,
            max_bytes: checked("bytes", file.bytes, MOST_BYTES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(json: &serde_json::Value) -> Result<Retention, IntakeError> {
        let file: RetentionFile = crate::parse("config.json", &json.to_string())?;
        Retention::resolve("config.json", &file)
    }

    #[test]
    fn nothing_is_removed_unless_a_rule_says_so() {
        let nothing = resolve(&serde_json::json!({})).expect("valid");
        assert_eq!(nothing, Retention::default());
        assert!(!nothing.has_rules());
        assert_eq!(resolve(&serde_json::json!({"diskLowBytes": 0})).expect("valid").disk_low_bytes, None);
        let some = resolve(&serde_json::json!({"output": {"days": 30, "bytes": 5}})).expect("valid");
        let rule = Rule { max_bytes: Some(5), ..Rule::older_than(Duration::from_secs(30 * 86_400)) };
        assert_eq!(some.output, Some(rule));
        assert!(some.has_rules());
    }

    #[test]
    fn zero_and_absurd_values_are_refused_where_they_stand() {
        for (expected, json) in [
            ("retention.records.days: 0 is out of range", serde_json::json!({"records": {"days": 0}})),
            ("retention.output.count: 0 is out of range", serde_json::json!({"output": {"count": 0}})),
            ("retention.sessions.bytes: 0 is out of range", serde_json::json!({"sessions": {"bytes": 0}})),
            ("retention.records.days: 99999 is out of range", serde_json::json!({"records": {"days": 99999}})),
            ("retention.workspaces: names nothing", serde_json::json!({"workspaces": {}})),
            ("retention.diskLowBytes: 9223372036854775807", serde_json::json!({"diskLowBytes": i64::MAX})),
            ("records.weeks: unknown field", serde_json::json!({"records": {"weeks": 1}})),
            ("records.days: invalid value: integer `-1`", serde_json::json!({"records": {"days": -1}})),
        ] {
            let message = resolve(&json).expect_err("refused").to_string();
            assert!(message.starts_with(&format!("config.json: {expected}")), "{message}");
        }
    }
}
