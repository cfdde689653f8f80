//! Statements that take many rows at once.
//!
//! Each statement is a hop to the thread that owns the connection, and that hop costs more than a row. So rows go in
//! together: a family has the text of its statement for 1, 2, 4 ... rows, few enough that all of them stay prepared.
//!
//! Rows that are missing to such a number are empty and passed over, see [`INSERTED`].
//!
//! Rows are written by `INSERT OR FAIL`: for anything else SQLite keeps a journal of each such statement, to take back its
//! first rows when a later one fails. Here the transaction goes as a whole then.

use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteArguments;

/// Most rows of one statement; well below the parameters that one may have.
pub(super) const MOST: usize = 128;

/// Between the columns of an insert and its rows, and after them.
pub(super) const INSERTED: (&str, &str) = ("SELECT * FROM (VALUES ", ") WHERE column1 IS NOT NULL");

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

    /// The statement for `rows` rows, at most [`MOST`], and how many it takes.
    pub(super) fn fitting(&self, rows: usize) -> (&str, usize) {
        let rows = rows.clamp(1, MOST).next_power_of_two();
        (self.texts[rows.ilog2() as usize].as_str(), rows)
    }

    /// Cuts `keys` into pieces, each with a statement that takes it with its last key repeated that often, which finds
    /// nothing else.
    pub(super) fn at_least<'keys, T>(
        &'static self,
        keys: &'keys [T],
    ) -> impl Iterator<Item = (&'static str, &'keys [T], usize)> {
        keys.chunks(MOST).map(move |piece| {
            let (text, rows) = self.fitting(piece.len());
            (text, piece, rows - piece.len())
        })
    }
}

/// Fills up with empty rows.
pub(super) fn bind_empty(arguments: &mut SqliteArguments, rows: usize, columns: usize) -> Result<(), BoxDynError> {
    (0..rows * columns).try_for_each(|_| arguments.add(None::<i64>))
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
    fn a_statement_takes_the_rows_or_more() {
        for (rows, taken) in [(0, 1), (1, 1), (2, 2), (3, 4), (65, 128), (128, 128)] {
            let (text, found) = FAMILY.fitting(rows);
            assert_eq!((found, text.matches('?').count()), (taken, taken), "{rows}");
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
