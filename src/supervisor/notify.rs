//! Reports the state of the service to the service manager (systemd). The socket is connected before the supervisor confines
//! itself, because Landlock then forbids connecting to sockets of other processes. Waits only for a short time: a manager
//! that does not read must not stop the service.

use std::{
    ffi::OsStr,
    io,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use tokio::time::{Interval, MissedTickBehavior};

use crate::sys::{process, raw, socket};

/// If the manager's queue stays full for this long, the message is dropped.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const SEND_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// systemd ignores messages of more than 4096 bytes as a whole.
const MAX_STATUS_CHARS: usize = 500;

#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// Half of the time after which the manager considers this process stuck.
    heartbeat_interval: Option<Duration>,
}

impl Notifier {
    /// Connects to the manager. Removes the variables of the protocol from the environment.
    pub fn from_environment() -> Result<Self, String> {
        let heartbeat = read_heartbeat_interval()?;
        let Some(name) = raw::take_variable("NOTIFY_SOCKET") else { return Ok(Self::default()) };
        let socket = socket::connect_datagram(&name)
            .map_err(|error| format!("NOTIFY_SOCKET={}: {error}; unset it if nobody waits for news", name.display()))?;
        Ok(Self { socket: Some(socket), heartbeat_interval: heartbeat })
    }

    pub async fn send_ready(&self, status: &str) {
        self.send_state(&format!("READY=1\nSTATUS={}", remove_line_ends(status))).await;
    }

    pub async fn send_stopping(&self, status: &str) {
        self.send_state(&format!("STOPPING=1\nSTATUS={}", remove_line_ends(status))).await;
    }

    /// Reports the start of a reload. The caller must call `send_ready` afterwards, whatever the result of the reload.
    pub async fn send_reloading(&self) {
        self.send_state(&format!("RELOADING=1\nMONOTONIC_USEC={}", process::monotonic_usec())).await;
    }

    /// Sends a heartbeat. A lost one does no harm, because the next follows before the manager's timeout.
    pub fn send_alive(&self) {
        self.try_send_state("WATCHDOG=1");
    }

    async fn send_state(&self, state: &str) {
        let start = Instant::now();
        while !self.try_send_state(state) {
            if start.elapsed() > SEND_TIMEOUT {
                tracing::warn!("the service manager does not take notifications");
                return;
            }
            tokio::time::sleep(SEND_RETRY_PAUSE).await;
        }
    }

    /// False if the manager's queue is full.
    fn try_send_state(&self, state: &str) -> bool {
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

    /// Only the event loop may await the heartbeat, because the heartbeats must stop when that loop is stuck.
    pub fn start_heartbeat(&self) -> Heartbeat {
        Heartbeat(self.heartbeat_interval.map(|period| {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        }))
    }
}

#[derive(Debug)]
pub struct Heartbeat(Option<Interval>);

impl Heartbeat {
    /// Waits for the next heartbeat; for ever if no manager watches this process.
    pub async fn tick(&mut self) {
        match &mut self.0 {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }
}

fn read_heartbeat_interval() -> Result<Option<Duration>, String> {
    let (usec, pid) = (raw::take_variable("WATCHDOG_USEC"), raw::take_variable("WATCHDOG_PID"));
    let Some(usec) = usec else { return Ok(None) };
    if pid.is_some_and(|pid| parse_number(&pid) != Some(process::own_pid().into())) {
        // The variables are meant for another process.
        return Ok(None);
    }
    match parse_number(&usec) {
        Some(usec) if usec >= 2 => Ok(Some(Duration::from_micros(usec / 2))),
        _ => Err(format!("WATCHDOG_USEC={}: no number of microseconds", usec.display())),
    }
}

/// Parses a number from a variable that systemd sets.
pub fn parse_number(text: &OsStr) -> Option<u64> {
    text.to_str()?.parse().ok()
}

/// Replaces control characters with spaces: a notification is a list of lines, so a line end in the status would begin
/// another assignment. Cuts the status, too.
fn remove_line_ends(status: &str) -> String {
    status.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_STATUS_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_cannot_become_a_second_assignment() {
        assert_eq!(remove_line_ends("bad policy\nMAINPID=1"), "bad policy MAINPID=1");
        assert_eq!(remove_line_ends(&"x".repeat(9000)).len(), MAX_STATUS_CHARS);
    }
}
