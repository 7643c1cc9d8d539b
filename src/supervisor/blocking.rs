//! Runs blocking file-system work on a separate thread, so that a root, a policy file or an audit file on a dead mount does
//! not stop the event loop. A call that never returns costs one thread. Questions of workers do not come here: each has its
//! attendant.

use tokio::sync::oneshot;

/// Runs `work` on a new thread. An error if the thread cannot be started or `work` panics.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (done, result) = oneshot::channel();
    // Not on a thread of the runtime, which would wait for it at its own end.
    let thread = std::thread::Builder::new().name("aside".into());
    // The send fails if the caller no longer waits.
    thread.spawn(move || drop(done.send(work()))).map_err(|error| format!("a thread for it: {error}"))?;
    result.await.map_err(|_| "its thread was lost".into())
}
