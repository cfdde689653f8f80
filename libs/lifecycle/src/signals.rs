use tokio::signal::unix::{SignalKind, signal};

use crate::Lifecycle;

/// Returns when the process is asked to end: at the first TERM or INT. A second one begins the hard stage.
///
/// # Errors
/// When the signals can't be listened to.
pub async fn shut_down_on_signals(lifecycle: &Lifecycle) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    lifecycle.stop_taking();
    let hard = lifecycle.hard().clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => hard.cancel(),
            _ = interrupt.recv() => hard.cancel(),
            () = hard.cancelled() => {}
        }
    });
    Ok(())
}
