//! Connections of another user. Needs root.

use std::{io, os::unix::net::UnixStream, path::Path};

use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use rustix::{fs::Gid, fs::Uid};

pub const NOBODY: u32 = 65534;

/// Runs `act` on a thread with another identity: the kernel keeps credentials per thread.
pub fn acting_as<T: Send>(uid: u32, gid: u32, act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// A connection whose peer credentials are those of `uid`.
pub fn connect_as(uid: u32, gid: u32, socket: &Path) -> io::Result<UnixStream> {
    acting_as(uid, gid, || UnixStream::connect(socket))
}
