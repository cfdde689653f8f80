//! Statements that take many rows at once.
//!
//! Each statement is a hop to the thread that owns the connection, and that hop costs more than a row. So rows go in
//! together: a family has the text of its statement for 1, 2, 4 ... rows, few enough that all of them stay prepared.
//!
//! Rows are written by `INSERT OR FAIL`: for anything else SQLite keeps a journal of each such statement, to take back its
//! first rows when a later one fails. Here the transaction goes as a whole then.

/// Most rows of one statement; well below the parameters that one may have.
const MOST: usize = 128;

/// One statement, spelled for several numbers of rows.
#[derive(Debug)]
pub(super) struct Family {
    texts: Vec<String>,
}

impl Family {
    /// The statement `head`, then `row` for each row, then `tail`.
    ///
    /// Parameters are to be `?`: SQLite finds numbered ones by their names, each time, one after the other.
    pub(super) fn new(head: &str, row: &str, tail: &str) -> Self {
        let text = |power: u32| format!("{head}{}{tail}", vec![row; 1_usize << power].join(", "));
        Self { texts: (0..=MOST.ilog2()).map(text).collect() }
    }

    /// Statements that take `rows` rows together, and how many each takes.
    pub(super) fn exactly(&'static self, mut rows: usize) -> impl Iterator<Item = (&'static str, usize)> {
        std::iter::from_fn(move || {
            let power = rows.min(MOST).checked_ilog2()?;
            rows -= 1 << power;
            Some((self.texts[power as usize].as_str(), 1 << power))
        })
    }

    /// Cuts `keys` into pieces, each with a statement that takes it with its last key repeated that often, which finds
    /// nothing else.
    pub(super) fn at_least<'keys, T>(
        &'static self,
        keys: &'keys [T],
    ) -> impl Iterator<Item = (&'static str, &'keys [T], usize)> {
        keys.chunks(MOST).map(move |piece| {
            let rows = piece.len().next_power_of_two();
            (self.texts[rows.ilog2() as usize].as_str(), piece, rows - piece.len())
        })
    }
}

/// `keys`, and the last of them `repeats` times more.
pub(super) fn filled<T>(keys: &[T], repeats: usize) -> impl Iterator<Item = &T> {
    keys.iter().chain(keys.last().into_iter().cycle().take(repeats))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static FAMILY: LazyLock<Family> = LazyLock::new(|| Family::new("V ", "(?)", ";"));

    #[test]
    fn rows_are_separated() {
        assert_eq!(FAMILY.texts[..2], ["V (?);", "V (?), (?);"]);
    }

    #[test]
    fn rows_are_cut_into_what_statements_take() {
        for (rows, pieces) in
            [(0, &[][..]), (1, &[1][..]), (7, &[4, 2, 1]), (128, &[128]), (300, &[128, 128, 32, 8, 4])]
        {
            let cut: Vec<usize> = FAMILY.exactly(rows).map(|(_, rows)| rows).collect();
            assert_eq!(cut, pieces);
            assert!(FAMILY.exactly(rows).all(|(text, rows)| text.matches('?').count() == rows));
        }
    }

    #[test]
    fn keys_are_filled_up_to_what_a_statement_takes() {
        for number in [0_usize, 1, 2, 3, 127, 128, 129, 1000] {
            let keys: Vec<usize> = (0..number).collect();
            let mut found = Vec::new();
            for (text, piece, more) in FAMILY.at_least(&keys) {
                assert_eq!(text.matches('?').count(), piece.len() + more);
                found.extend_from_slice(piece);
            }
            assert_eq!(found, keys);
        }
    }
}
