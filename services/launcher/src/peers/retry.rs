use std::future::Future;
use std::time::Duration;

use mosaic_rpc::{Reason, RpcError};

const FIRST_WAIT: Duration = Duration::from_millis(25);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Makes a call again for as long as its service can't be reached. Every call that is made this way is idempotent. The
/// caller bounds it by being dropped at the hard stage of the shutdown.
///
/// # Errors
/// What the service answered once it was reached.
pub async fn persist<T, F>(mut call: impl FnMut() -> F) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    let mut wait = FIRST_WAIT;
    loop {
        match call().await {
            Err(error) if error.reason == Reason::Unavailable => {
                tracing::debug!(%error, wait.ms = wait.as_millis(), "A service can't be reached; trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            answer => return answer,
        }
    }
}
