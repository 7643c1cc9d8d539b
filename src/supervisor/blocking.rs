//! What may wait for a disk and is no worker's question, away from the event loop: a root, a policy or an audit on a mount
//! that has died would otherwise stop the service for everybody. What never comes back costs its thread, no more.

use tokio::sync::oneshot;

/// An error if there is no thread to be had, or the work panicked.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (done, result) = oneshot::channel();
    // Not the runtime's own: at its end it would wait for them.
    let thread = std::thread::Builder::new().name("aside".into());
    // Whoever waited may have given up.
    thread.spawn(move || drop(done.send(work()))).map_err(|error| format!("a thread for it: {error}"))?;
    result.await.map_err(|_| "its thread was lost".into())
}
