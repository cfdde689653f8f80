//! The bound: what SQLite alone takes for what a broker wrote, in the same batches.

use std::collections::BTreeSet;
use std::time::Instant;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::mosaic::Wrote;
use crate::peer::scratch;
use crate::samples::Turn;

/// Everything of a ledger that the loop writes again.
struct Ledger {
    schema: Vec<String>,
    /// The reports.
    events: Vec<Vec<Value>>,
    /// Which run each of them belongs to, as a position in `runs`.
    subjects: Vec<usize>,
    /// The events before.
    earlier: Vec<Vec<Value>>,
    runs: Vec<Vec<Value>>,
}

/// Writes what a broker wrote again: the same rows of the same schema under the same settings, with as many rows in a
/// transaction as it had on average, and each run of a transaction once. A latency is that of a transaction.
pub(crate) fn replay(wrote: &Wrote) -> Turn {
    let ledger = read(wrote);
    let scratch = scratch();
    let database = Connection::open(scratch.path().join("ledger.db")).expect("a database");
    prepare(&database, &ledger);
    let batch = (wrote.batch().round() as usize).max(1);
    let insert = insert_into(&database, "events");
    let upsert = format!("{} ON CONFLICT (run_id) DO UPDATE SET {}", insert_into(&database, "runs"), changes());
    let mut insert = database.prepare(&insert).expect("a statement");
    let mut upsert = database.prepare(&upsert).expect("a statement");

    let mut latencies = Vec::new();
    let begun = Instant::now();
    for (events, subjects) in ledger.events.chunks(batch).zip(ledger.subjects.chunks(batch)) {
        let asked = Instant::now();
        database.execute_batch("BEGIN IMMEDIATE").expect("begun");
        for event in events {
            insert.execute(params_from_iter(event)).expect("inserted");
        }
        for subject in subjects.iter().collect::<BTreeSet<_>>() {
            upsert.execute(params_from_iter(&ledger.runs[*subject])).expect("written");
        }
        database.execute_batch("COMMIT").expect("committed");
        latencies.extend(std::iter::repeat_n(asked.elapsed(), events.len()));
    }
    Turn { latencies, elapsed: begun.elapsed() }
}

fn read(wrote: &Wrote) -> Ledger {
    let database = Connection::open(&wrote.database).expect("the ledger");
    let schema = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '%sqlx%'";
    let schema = rows(&database, schema).into_iter().map(|row| text(&row[0]).to_owned()).collect();
    let runs = rows(&database, "SELECT * FROM runs");
    let events = rows(&database, "SELECT * FROM events WHERE kind = 'run.output' ORDER BY sequence");
    let earlier = rows(&database, "SELECT * FROM events WHERE kind <> 'run.output'");
    let subject_at = position(&database, "events", "subject");
    let run_at = position(&database, "runs", "run_id");
    let run_of = |event: &Vec<Value>| runs.iter().position(|run| run[run_at] == event[subject_at]).expect("a run");
    Ledger { schema, subjects: events.iter().map(run_of).collect(), events, earlier, runs }
}

/// The settings of the ledger, its schema, and what was there before.
fn prepare(database: &Connection, ledger: &Ledger) {
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 4096;";
    database.execute_batch(settings).expect("set");
    for statement in &ledger.schema {
        database.execute_batch(statement).expect("made");
    }
    for (table, rows) in [("events", &ledger.earlier), ("runs", &ledger.runs)] {
        let insert = insert_into(database, table);
        for row in rows {
            database.execute(&insert, params_from_iter(row)).expect("inserted");
        }
    }
}

fn insert_into(database: &Connection, table: &str) -> String {
    let columns = columns(database, table).len();
    format!("INSERT INTO {table} VALUES ({})", vec!["?"; columns].join(", "))
}

/// What a run's row changes with a report.
fn changes() -> String {
    let columns = [
        "status",
        "reason",
        "started_ns",
        "finished_ns",
        "cancel_requested",
        "epoch",
        "holder",
        "prepared_epoch",
        "reported",
        "last_sequence",
        "record",
    ];
    columns.map(|column| format!("{column} = excluded.{column}")).join(", ")
}

fn columns(database: &Connection, table: &str) -> Vec<String> {
    let named = rows(database, &format!("SELECT name FROM pragma_table_info('{table}')"));
    named.iter().map(|row| text(&row[0]).to_owned()).collect()
}

fn position(database: &Connection, table: &str, column: &str) -> usize {
    columns(database, table).iter().position(|name| name == column).expect("a column")
}

fn rows(database: &Connection, select: &str) -> Vec<Vec<Value>> {
    let mut statement = database.prepare(select).expect("a statement");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).expect("rows");
    rows.collect::<Result<_, _>>().expect("a row")
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => panic!("{value:?} is no text"),
    }
}
