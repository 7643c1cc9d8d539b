//! Peer credentials from the kernel, and the error line for a refused peer.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use crate::{
    policy,
    sys::{
        Errno, poll,
        socket::{self, PeerCred, WaitMode},
    },
    terms::Code,
};

#[derive(Debug, Clone)]
pub struct ConnectedPeer {
    pub uid: u32,
    pub gid: u32,
    pub pid: i32,
    pub groups: Arc<[u32]>,
    /// Shows that `pid` still means the process that connected. `None` if the kernel gives no pidfd.
    pub pidfd: Option<Arc<OwnedFd>>,
}

impl ConnectedPeer {
    pub fn read_credentials(connection: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self {
            groups: socket::peer_groups(connection).into(),
            pidfd: socket::peer_pidfd(connection).map(Arc::new),
            ..Self::read_uid_and_pid(connection)?
        })
    }

    /// Reads uid and pid only, not groups and pidfd. That is enough to refuse a peer and costs one system call.
    pub fn read_uid_and_pid(connection: BorrowedFd<'_>) -> Result<Self, Errno> {
        let PeerCred { uid, gid, pid } = socket::peer_cred(connection)?;
        Ok(Self { uid, gid, pid, groups: Arc::default(), pidfd: None })
    }

    /// `None` where the kernel gives no pidfd.
    pub fn is_alive(&self) -> Option<bool> {
        self.pidfd.as_ref().map(|pidfd| !poll::is_readable(pidfd.as_fd()))
    }

    pub fn find_profile(&self, profiles: &[policy::PolicyProfile]) -> Option<usize> {
        policy::select_profile(profiles, self.uid, self.gid, &self.groups)
    }
}

/// `\n{…"id":null…}\n`. The newline in front ends a reply that the worker may have sent only in part.
pub fn error_frame(code: Code, message: &str) -> String {
    let error = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32000, "message": format!("{code} {message}"), "data": {"code": code, "message": message}},
    });
    format!("\n{error}\n")
}

/// Sends a client the reason why it is refused, and closes the connection. Never waits for the client.
pub fn refuse_connection(connection: OwnedFd, code: Code, message: &str) {
    let line = error_frame(code, message);
    let _ = socket::send_stream(connection.as_fd(), line.trim_start().as_bytes(), WaitMode::Now);
    socket::shutdown(&connection);
}
