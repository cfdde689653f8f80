use std::collections::BTreeMap;

use mosaic_record::{Distrust, Distrusted};

/// Most entries of a list; the last one says how many there are beyond.
pub(super) const ENTRIES: usize = 64;

/// What was found, by kind. What there is too much of hides nothing of another kind.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The first of each kind.
    first: BTreeMap<Distrust, Vec<String>>,
    /// How many there are in all.
    count: usize,
}

impl Found {
    /// Adds one; `at` is for people.
    pub(super) fn add(&mut self, what: Distrust, at: impl FnOnce() -> String) {
        self.count += 1;
        let first = self.first.entry(what).or_default();
        if first.len() < ENTRIES {
            first.push(at());
        }
    }

    /// The list, by kind.
    pub(super) fn into_list(self) -> Vec<Distrusted> {
        let of_each = |most: usize| self.first.values().map(|found| found.len().min(most)).sum::<usize>();
        if self.count <= ENTRIES {
            return listed(self.first, ENTRIES);
        }
        let most = (0..ENTRIES).rev().find(|most| of_each(*most) < ENTRIES).unwrap_or(0);
        let cut = self.first.iter().find(|(_, found)| found.len() > most).map(|(what, _)| *what);
        let mut list = listed(self.first, most);
        let more = self.count - list.len();
        list.extend(cut.map(|what| Distrusted { what, at: format!("and {more} more that are not listed") }));
        list
    }
}

fn listed(first: BTreeMap<Distrust, Vec<String>>, most: usize) -> Vec<Distrusted> {
    let of_one =
        |(what, found): (Distrust, Vec<String>)| found.into_iter().take(most).map(move |at| Distrusted { what, at });
    first.into_iter().flat_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_short_and_has_something_of_each_kind() {
        let mut found = Found::default();
        (0..1000).for_each(|number| found.add(Distrust::Link, || number.to_string()));
        (0..1000).for_each(|number| found.add(Distrust::Hook, || number.to_string()));
        found.add(Distrust::Config, || "x".to_owned());
        let list = found.into_list();
        let of = |what| list.iter().filter(|entry| entry.what == what).count();
        assert_eq!((list.len(), of(Distrust::Config), of(Distrust::Hook), of(Distrust::Link)), (64, 1, 32, 31));
        assert_eq!(list.last().map(|entry| entry.at.as_str()), Some("and 1938 more that are not listed"));
        let mut found = Found::default();
        (0..64).for_each(|number| found.add(Distrust::Link, || number.to_string()));
        assert_eq!(found.into_list().last().map(|entry| entry.at.clone()), Some("63".to_owned()));
    }
}
