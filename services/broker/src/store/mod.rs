//! The ledger's database: the only place that knows SQL.
//!
//! One connection writes ([`WriteConnection`]), a few read. A write is on disk when its commit returns: write-ahead log
//! with `synchronous=FULL`. What is here runs on PostgreSQL too, except the options in [`Store::open`], `BEGIN IMMEDIATE`
//! and the care for the write-ahead log (`wal.rs`); a snapshot is `BEGIN` here and `REPEATABLE READ` there.

mod cut;
mod error;
mod events;
mod proof;
mod readers;
mod rows;
mod runs;
mod wal;
mod writes;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use cut::RunToCut;
pub(crate) use error::StoreError;
pub(crate) use events::{EventPage, PageLimits};
pub(crate) use proof::{Candidate, StoredRow};
pub(crate) use readers::{Readers, Snapshot};
pub(crate) use runs::StoredRun;
use sqlx::Connection as _;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
pub(crate) use writes::WriteConnection;

/// Readers at once; each holds its connection for one page.
const READERS: u32 = 4;

/// How long a reader waits for a connection.
const READER_WAIT: Duration = Duration::from_secs(10);

/// How long a connection waits for a lock of another process, for example of a backup.
const BUSY: Duration = Duration::from_secs(5);

/// Length of the write-ahead log at which a commit moves it into the database: 16 MiB. The rows of live runs are written
/// again and again, so a longer log moves each of their pages once instead of many times.
const CHECKPOINT_PAGES: &str = "4096";

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("migrations/sqlite");

/// A ledger that was opened and is at the newest schema.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    path: PathBuf,
    readers: Readers,
}

impl Store {
    /// Opens the ledger `path`; makes it when it is missing.
    ///
    /// # Errors
    /// When it can't be opened, or its schema is newer than this build.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        // Counts only for a database that is made now: space that a cut of the ledger frees can be given back.
        let making = options(path).create_if_missing(true).auto_vacuum(SqliteAutoVacuum::Incremental);
        let mut connection = SqliteConnection::connect_with(&making).await?;
        MIGRATIONS.run(&mut connection).await?;
        connection.close().await?;
        let pool = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .acquire_timeout(READER_WAIT)
            .connect_lazy_with(options(path).read_only(true));
        Ok(Self { path: path.to_owned(), readers: Readers::new(pool) })
    }

    /// The connections that read.
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// A connection that writes; the caller sees to it that there is one at a time.
    ///
    /// # Errors
    /// When the ledger can't be opened.
    pub(crate) async fn writer(&self) -> Result<WriteConnection, StoreError> {
        let options = options(&self.path).pragma("wal_autocheckpoint", CHECKPOINT_PAGES);
        let connection = SqliteConnection::connect_with(&options).await?;
        Ok(WriteConnection::new(connection, &self.path))
    }

    /// Closes the readers, then the writer: the last connection takes the write-ahead log into the database, which one that
    /// only reads can't.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn close(self, writer: Option<WriteConnection>) -> Result<(), StoreError> {
        self.readers.close().await;
        match writer {
            Some(writer) => writer.close().await,
            None => Ok(()),
        }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY)
}
