//! Peer credentials from the kernel, the connections of each uid, and the error line for a refused peer.

use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    sync::Arc,
};

use crate::{
    policy,
    sys::{
        Errno, poll,
        socket::{self, PeerCred, Wait},
    },
    terms::Code,
};

#[derive(Debug, Clone)]
pub struct Peer {
    pub uid: u32,
    pub gid: u32,
    pub pid: i32,
    pub groups: Arc<[u32]>,
    /// Where the kernel has it: proof that `pid` still means the process that connected.
    pub pidfd: Option<Arc<OwnedFd>>,
}

impl Peer {
    pub fn of(connection: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self {
            groups: socket::peer_groups(connection).into(),
            pidfd: socket::peer_pidfd(connection).map(Arc::new),
            ..Self::in_brief(connection)?
        })
    }

    /// Reads uid and pid only, not groups and pidfd. That is enough to refuse a peer and costs one system call.
    pub fn in_brief(connection: BorrowedFd<'_>) -> Result<Self, Errno> {
        let PeerCred { uid, gid, pid } = socket::peer_cred(connection)?;
        Ok(Self { uid, gid, pid, groups: Arc::default(), pidfd: None })
    }

    /// `None` where the kernel gives no pidfd.
    pub fn is_alive(&self) -> Option<bool> {
        self.pidfd.as_ref().map(|pidfd| !poll::is_readable(pidfd.as_fd()))
    }

    pub fn profile(&self, profiles: &[policy::Profile]) -> Option<usize> {
        policy::pick(profiles, self.uid, self.gid, &self.groups)
    }
}

/// `\n{…"id":null…}\n`. The newline in front ends whatever half a reply the worker may have left.
pub fn error_line(code: Code, message: &str) -> String {
    let error = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32000, "message": format!("{code} {message}"), "data": {"code": code, "message": message}},
    });
    format!("\n{error}\n")
}

/// Tells a client why it is not served, and closes. Never waits for it.
pub fn refuse(connection: OwnedFd, code: Code, message: &str) {
    let line = error_line(code, message);
    let _ = socket::send_stream(connection.as_fd(), line.trim_start().as_bytes(), Wait::Now);
    socket::shutdown(&connection);
}

/// Connections per uid. A place is given back when its ticket is dropped.
#[derive(Debug, Default)]
pub struct Places(Rc<RefCell<HashMap<u32, u32>>>);

#[derive(Debug)]
pub struct Place {
    uid: u32,
    taken: Rc<RefCell<HashMap<u32, u32>>>,
}

impl Places {
    pub fn is_full(&self, uid: u32, most: u32) -> bool {
        self.0.borrow().get(&uid).is_some_and(|count| *count >= most)
    }

    pub fn take(&self, uid: u32, most: u32) -> Option<Place> {
        let mut taken = self.0.borrow_mut();
        let count = taken.entry(uid).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { uid, taken: self.0.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.borrow_mut();
        if let Some(count) = taken.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}
