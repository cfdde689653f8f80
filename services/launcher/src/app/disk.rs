//! Free disk: looked at before a run is recorded, and before it is prepared.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use mosaic_record::Refusal;
use mosaic_rpc::RpcError;
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use tokio::sync::Mutex;

use super::App;
use crate::domain::disk::{Remedy, Room, message, room};

/// How long what a prune would free is taken for true: measuring takes time, and refusals come in bursts.
const REMEDY_HOLDS: Duration = Duration::from_secs(60);

/// What a prune would do about little free disk, as it was found last.
#[derive(Debug, Default)]
pub(super) struct LastRemedy(Mutex<Option<(Instant, Remedy)>>);

/// Bytes that are free for us where `path` is.
///
/// # Errors
/// When the file system can't be asked.
pub(super) fn free(path: &Path) -> std::io::Result<u64> {
    Ok(available(&statvfs(path)?))
}

/// Bytes that are free for us where an open file is.
///
/// # Errors
/// When the file system can't be asked.
pub(super) fn free_of(file: impl AsFd) -> std::io::Result<u64> {
    Ok(available(&fstatvfs(file)?))
}

fn available(of: &Statvfs) -> u64 {
    of.blocks_available().saturating_mul(of.fragment_size())
}

impl App {
    /// Turns a launch away while so little disk is free that even its refusal is not to be recorded.
    ///
    /// # Errors
    /// `disk-low`.
    pub(super) async fn check_reserve(&self) -> Result<(), RpcError> {
        match self.low_disk(Room::Exhausted).await {
            Some(message) => Err(RpcError::refused(Refusal::DiskLow, message)),
            None => Ok(()),
        }
    }

    /// The message of a refusal, when there is no more than `room` for a run.
    pub(super) async fn low_disk(&self, at_most: Room) -> Option<String> {
        let mark = self.inner.config.retention.disk_low_bytes?;
        let free = match free(self.inner.root.path()) {
            Ok(free) => free,
            Err(error) => {
                // What can't be known stops nobody.
                tracing::warn!(%error, "Could not ask how much disk is free");
                return None;
            }
        };
        let low = match room(free, Some(mark)) {
            Room::Enough => false,
            Room::Low => at_most == Room::Low,
            Room::Exhausted => true,
        };
        if !low {
            return None;
        }
        Some(message(free, mark, self.remedy().await))
    }

    async fn remedy(&self) -> Remedy {
        if !self.inner.config.retention.has_rules() {
            return Remedy::NoRule;
        }
        let mut last = self.inner.remedy.0.lock().await;
        if let Some((when, remedy)) = *last
            && when.elapsed() < REMEDY_HOLDS
        {
            return remedy;
        }
        let remedy = match self.would_free().await {
            Ok(bytes) => Remedy::Frees(bytes),
            Err(error) => {
                tracing::debug!(%error, "Could not tell what a prune would free");
                Remedy::Unknown
            }
        };
        *last = Some((Instant::now(), remedy));
        remedy
    }
}
