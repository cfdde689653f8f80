//! The care for SQLite's write-ahead log.
//!
//! SQLite moves the log into the database by itself, but begins it anew only at a moment without readers; with many
//! watchers that moment may never come and the log grows for ever. So when it has grown past a limit the writer makes
//! such a moment: it waits a little for the readers of old snapshots, and tries again later when that was in vain.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnection;

use super::StoreError;

/// Size past which the log is emptied.
const LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct WalKeeper {
    log: PathBuf,
    last_attempt: Option<Instant>,
}

impl WalKeeper {
    pub(super) fn of(database: &Path) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into(), last_attempt: None }
    }

    /// Empties the log if it is too long and the last attempt is long enough ago.
    pub(super) async fn relieve(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let size = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        if size <= LIMIT_BYTES || self.last_attempt.is_some_and(|attempt| attempt.elapsed() < RETRY) {
            return Ok(());
        }
        self.empty(connection).await
    }

    /// Empties the log, unless a reader keeps it.
    pub(super) async fn empty(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        self.last_attempt = Some(Instant::now());
        sqlx::query("PRAGMA busy_timeout = 50").execute(&mut *connection).await?;
        let emptied = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await;
        // As every connection has it, see `options`.
        sqlx::query("PRAGMA busy_timeout = 5000").execute(connection).await?;
        let (busy, pages, moved): (i64, i64, i64) = emptied?;
        if busy != 0 {
            tracing::debug!(wal.pages = pages, wal.moved = moved, "A reader keeps the log long");
        }
        Ok(())
    }
}
