//! Shows a waiting user on a terminal that a call is running. Appears after half a second and disappears with the answer.

use std::{
    io::{self, IsTerminal, Write},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

/// Most calls end earlier.
const SHOW_AFTER: Duration = Duration::from_millis(500);
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `work`. Meanwhile shows the elapsed time on standard error, if it is a terminal.
pub(super) fn show_during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    show_on(io::stderr(), what, work)
}

fn show_on<T>(mut out: impl Write + Send, what: &str, work: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let start = Instant::now();
            let mut wait = SHOW_AFTER;
            let mut is_shown = false;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let seconds = start.elapsed().as_secs_f32();
                // Ignores the error: the text is only for a person at the terminal.
                let _ = write!(out, "\r{what} {seconds:.1} s").and_then(|()| out.flush());
                (wait, is_shown) = (REFRESH_INTERVAL, true);
            }
            if is_shown {
                let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
            }
        });
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_during(wait: Duration) -> String {
        let mut out = Vec::new();
        let answer = show_on(&mut out, "searching", || {
            std::thread::sleep(wait);
            7
        });
        assert_eq!(answer, 7);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_short_wait_shows_nothing() {
        assert_eq!(shown_during(Duration::ZERO), "");
    }

    #[test]
    fn a_long_wait_shows_its_time_and_leaves_nothing_behind() {
        let shown = shown_during(SHOW_AFTER + Duration::from_millis(300));
        assert!(shown.starts_with("\rsearching 0.") && shown.ends_with("\r\x1b[K"), "{shown:?}");
    }
}
