//! What an attacker inside a worker tries, and the only results that mean "held". A closed list: the test compares names
//! and results one by one.

mod changes;
mod files;
mod kernel;
mod processes;

use std::ffi::{CStr, CString};

#[cfg(target_arch = "x86_64")]
pub use kernel::int80;

/// What there is to attack.
pub struct Target {
    /// The canaries outside the root, and one file of them.
    pub outside: CString,
    pub secret: CString,
    /// A folder in the root, and a file in it. The folder has the same names as the canaries'.
    pub inside: CString,
    pub file: CString,
    /// The supervisor, a worker of another connection, the client.
    pub processes: [i32; 3],
    /// The client's connection.
    pub connection: i32,
}

pub struct Attempt {
    pub name: &'static str,
    /// Errnos; 0 is success.
    pub held: &'static [i32],
    pub run: fn(&Target) -> i32,
    pub on: On,
}

/// The profiles in which an attempt is made: a writable root gives the calls that change names and content, and takes
/// them away everywhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Any,
    ReadOnly,
    Writable,
    /// A writable root beside a read-only one, which stands for the outside.
    Mixed,
}

impl On {
    /// `:ro`, `:rw`, as behind `--root`, or `mixed`.
    pub fn of(profile: &str) -> Self {
        match profile {
            ":ro" => Self::ReadOnly,
            "mixed" => Self::Mixed,
            _ => Self::Writable,
        }
    }

    fn has(self, attempt: &Attempt) -> bool {
        match self {
            // What may be read, may be opened; all that changes names or content is still Landlock's to refuse.
            Self::Mixed => matches!(attempt.on, Self::Writable | Self::Mixed),
            profile => attempt.on == Self::Any || attempt.on == profile,
        }
    }
}

pub fn all(profile: On) -> impl Iterator<Item = &'static Attempt> {
    let changing = files::CHANGING.iter().chain(changes::GIVEN).chain(changes::OUTSIDE).chain(changes::READ_ONLY);
    let all = files::OPENING.iter().chain(changing).chain(processes::PROCESSES).chain(kernel::KERNEL);
    all.filter(move |attempt| profile.has(attempt))
}

/// Any system call: 0 or its errno.
pub fn call(number: i64, arguments: &[usize]) -> i32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: not the point here; every attempt is meant to be refused.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

/// openat2 with the resolve flags of somebody who wants to get out: none.
pub fn openat2(at: i32, path: &CStr, flags: i32) -> Result<i32, i32> {
    // O_TMPFILE is two bits, one of which is O_DIRECTORY; a mode without need is EINVAL.
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let mode = if makes { 0o600 } else { 0 };
    let how = [flags as u64, mode, 0];
    // SAFETY: path and `how` live; the size is that of `struct open_how`.
    let fd = unsafe { libc::syscall(libc::SYS_openat2, at, path.as_ptr(), how.as_ptr(), size_of_val(&how)) };
    if fd < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(fd as i32) }
}

pub fn open(path: &CStr, flags: i32) -> i32 {
    match openat2(libc::AT_FDCWD, path, flags) {
        Ok(fd) => {
            close(fd);
            0
        }
        Err(errno) => errno,
    }
}

pub fn close(fd: i32) {
    call(libc::SYS_close, &[fd as usize]);
}

/// Does something with an open descriptor of `path`; -1 if it cannot even be opened, which is in no list.
pub fn with(path: &CStr, flags: i32, attempt: impl Fn(usize) -> i32) -> i32 {
    match openat2(libc::AT_FDCWD, path, flags) {
        Ok(fd) => {
            let outcome = attempt(fd as usize);
            close(fd);
            outcome
        }
        Err(_) => -1,
    }
}

pub fn join(folder: &CStr, name: &str) -> CString {
    CString::new([folder.to_bytes(), b"/", name.as_bytes()].concat()).unwrap()
}

/// The first result that differs from `errno`, or `errno`.
pub fn all_give(errno: i32, attempts: impl IntoIterator<Item = i32>) -> i32 {
    attempts.into_iter().find(|outcome| *outcome != errno).unwrap_or(errno)
}

/// An attempt that is a single expression.
macro_rules! attempt {
    ($name:literal, [$($held:expr),+], $run:expr) => {
        $crate::hostile::attempts::Attempt { name: $name, held: &[$($held),+], run: $run, on: $crate::hostile::attempts::On::Any }
    };
}

/// A call that the filter refuses whatever its arguments.
macro_rules! refused {
    ($name:literal, $call:ident, |$target:ident| $arguments:expr) => {
        $crate::hostile::attempts::Attempt {
            name: $name,
            held: &[libc::EPERM],
            #[allow(unused_variables)]
            run: |$target| $crate::hostile::attempts::call(libc::$call, &$arguments),
            on: $crate::hostile::attempts::On::Any,
        }
    };
}

pub(crate) use {attempt, refused};
