//! Retrying: what a run is launched again with, and what is different then.

use mosaic_record::{LIMITS, RunSpec};

use super::admission::{Overrides, Wish};

/// What the recorded run was launched with, under the operator's wishes for the new one.
#[must_use]
pub fn retry_wish(before: &RunSpec, overrides: Overrides, no_wait: bool) -> Wish {
    let adapter = overrides.adapter.unwrap_or_else(|| before.adapter.clone());
    // A recorded response goes with the adapter that gave it; one that is named goes to admission, which judges it.
    let recorded = before.mock_response.clone().filter(|_| adapter == before.adapter);
    Wish {
        task: before.task.clone(),
        mission: before.mission.clone(),
        overrides: Overrides {
            mock_response: overrides.mock_response.or(recorded),
            model: overrides.model.or_else(|| before.model.clone()),
            adapter: Some(adapter),
        },
        no_wait,
        projects: Some(before.projects.clone()),
    }
}

/// What is different from the run that is retried, one line each, for people.
#[must_use]
pub fn differences(before: &RunSpec, now: &RunSpec) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, before: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
        let (before, now) = (before.to_string(), now.to_string());
        if before != now {
            found.push(format!("retried with {what} {now} instead of {before}"));
        }
    };
    let none = || "none".to_owned();
    let provider = |spec: &RunSpec| spec.provider.as_ref().map_or_else(none, ToString::to_string);
    compare("adapter", &before.adapter, &now.adapter);
    compare("provider", &provider(before), &provider(now));
    compare("model", &before.model.clone().unwrap_or_else(none), &now.model.clone().unwrap_or_else(none));
    compare("backend", &before.backend, &now.backend);
    for limit in LIMITS {
        let value = |spec: &RunSpec| spec.limits.get(limit.key).unwrap_or_default();
        compare(limit.key, &value(before), &value(now));
    }
    if before.mock_response != now.mock_response {
        found.push("retried with another mock response".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RunSpec {
        let json = serde_json::json!({
            "taskId": "t", "task": { "name": "task.json", "content": "{}" }, "request": "p", "tools": [], "adapter": "mock",
            "model": "m", "mockResponse": "x", "synthetic": true, "backend": "host", "limits": mosaic_record::Limits::default(),
            "noWait": false,
        });
        serde_json::from_value(json).expect("a spec")
    }

    #[test]
    fn everything_is_as_recorded_unless_it_is_named() {
        let wish = retry_wish(&spec(), Overrides::default(), false);
        let recorded =
            Overrides { adapter: Some(spec().adapter), model: Some("m".into()), mock_response: Some("x".into()) };
        assert_eq!(wish.overrides, recorded);
        let other = Overrides { adapter: Some("scripted".parse().expect("name")), ..Overrides::default() };
        let wish = retry_wish(&spec(), other, false);
        assert_eq!(wish.overrides.mock_response, None, "a response goes with the adapter that gave it");
    }

    #[test]
    fn every_difference_is_named() {
        let mut now = spec();
        assert_eq!(differences(&spec(), &now), Vec::<String>::new());
        now.model = Some("other".into());
        now.limits.cpus = 4;
        now.mock_response = None;
        let expected = [
            "retried with model other instead of m",
            "retried with cpus 4 instead of 2",
            "retried with another mock response",
        ];
        assert_eq!(differences(&spec(), &now), expected);
    }
}
