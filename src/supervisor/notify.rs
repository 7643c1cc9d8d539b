//! Tells whoever started the service (systemd) how it fares. The socket is connected before the supervisor confines
//! itself: later, Landlock would keep it from sockets that others have made.
//! Never waits for long: a manager that does not listen must not stop the service.

use std::{
    ffi::OsStr,
    io,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use tokio::time::{Interval, MissedTickBehavior};

use crate::sys::{process, raw, socket};

/// A manager whose queue stays full for this long is not told.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// systemd ignores messages of more than 4096 bytes as a whole.
const MAX_STATUS_CHARS: usize = 500;

#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// Half of the time after which the manager takes us for stuck.
    heartbeat: Option<Duration>,
}

impl Notifier {
    /// Uses up the variables of the protocol.
    pub fn from_environment() -> Result<Self, String> {
        let heartbeat = heartbeat()?;
        let Some(name) = raw::take_variable("NOTIFY_SOCKET") else { return Ok(Self::default()) };
        let socket = socket::connect_datagram(&name).map_err(|error| {
            format!("NOTIFY_SOCKET={}: {error}; unset it if nobody waits for news", name.display())
        })?;
        Ok(Self { socket: Some(socket), heartbeat })
    }

    pub async fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", one_line(status))).await;
    }

    pub async fn stopping(&self, status: &str) {
        self.tell(&format!("STOPPING=1\nSTATUS={}", one_line(status))).await;
    }

    /// To be followed by `ready`, whatever becomes of the reload.
    pub async fn reloading(&self) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", process::monotonic_usec())).await;
    }

    /// One that is lost is no harm: the next comes before the manager's time is up.
    pub fn alive(&self) {
        self.try_tell("WATCHDOG=1");
    }

    async fn tell(&self, state: &str) {
        let start = Instant::now();
        while !self.try_tell(state) {
            if start.elapsed() > PATIENCE {
                tracing::warn!("the service manager does not take notifications");
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// False if the manager's queue is full.
    fn try_tell(&self, state: &str) -> bool {
        let Some(socket) = &self.socket else { return true };
        match socket.send(state.as_bytes()) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be told");
                true
            }
        }
    }

    /// To be awaited by the loop that serves, and by nobody else: a loop that is stuck must fall silent.
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat(self.heartbeat.map(|period| {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        }))
    }
}

#[derive(Debug)]
pub struct Heartbeat(Option<Interval>);

impl Heartbeat {
    /// Never, where nobody watches.
    pub async fn tick(&mut self) {
        match &mut self.0 {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }
}

fn heartbeat() -> Result<Option<Duration>, String> {
    let (usec, pid) = (raw::take_variable("WATCHDOG_USEC"), raw::take_variable("WATCHDOG_PID"));
    let Some(usec) = usec else { return Ok(None) };
    if pid.is_some_and(|pid| number(&pid) != Some(process::own_pid().into())) {
        // Another process is watched.
        return Ok(None);
    }
    match number(&usec) {
        Some(usec) if usec >= 2 => Ok(Some(Duration::from_micros(usec / 2))),
        _ => Err(format!("WATCHDOG_USEC={}: no number of microseconds", usec.display())),
    }
}

/// A variable that systemd sets.
pub fn number(text: &OsStr) -> Option<u64> {
    text.to_str()?.parse().ok()
}

/// A status is one assignment of several: a line end in it would begin another.
fn one_line(status: &str) -> String {
    status.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_STATUS_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_cannot_become_a_second_assignment() {
        assert_eq!(one_line("bad policy\nMAINPID=1"), "bad policy MAINPID=1");
        assert_eq!(one_line(&"x".repeat(9000)).len(), MAX_STATUS_CHARS);
    }
}
