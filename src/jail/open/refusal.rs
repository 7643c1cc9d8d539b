//! Runs in the worker: error texts for what the supervisor or the kernel refused. A text has the caller's own path and the next
//! useful call. It never names a path of the host, except the allowed roots.

use std::path::Path;

use super::super::{Jail, Located};
use crate::{
    broker::Refusal,
    path::{JailPath, RootTable},
    sys::Errno,
    wire::{Code, Error},
};

pub(in crate::jail) fn error(jail: &Jail, name: &Located, refusal: Refusal) -> Error {
    let roots = &jail.roots;
    match refusal {
        Refusal::NotFound => Error::not_found(&name.sent),
        Refusal::Denied => Error::denied(&name.sent),
        Refusal::Escape => link(roots, name),
        Refusal::Mount => mount(roots, name),
        Refusal::NotDirectory => Error::io(
            &name.sent,
            "a name on the way is not a directory; see what is there with coder::list-folder or coder::tree",
        ),
        Refusal::ReadOnly => read_only(roots, &name.path, &name.sent),
        Refusal::Protected(rule) => protected(&name.sent, jail.protect_glob(rule)),
        Refusal::Busy => Error::busy(&name.sent),
        Refusal::Unsettled => unsettled(&name.sent),
        Refusal::Io(errno) => io(&name.sent, Errno::from_raw_os_error(errno)),
    }
}

/// The error for an open beneath the parent that failed. A missing name and a folder without search permission get the same answer.
pub(in crate::jail) fn open_error(jail: &Jail, name: &Located, errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::ACCESS => Error::not_found(&name.sent),
        Errno::XDEV => mount(&jail.roots, name),
        Errno::LOOP => link(&jail.roots, name),
        Errno::AGAIN => Error::busy(&name.sent),
        Errno::NOTDIR => error(jail, name, Refusal::NotDirectory),
        other => io(&name.sent, other),
    }
}

pub(in crate::jail) fn io(sent: &str, errno: Errno) -> Error {
    Error::io(sent, std::io::Error::from(errno))
}

/// The error for an entry that was there when its folder was listed.
pub(in crate::jail) fn io_in_tree(sent: &str, errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => changed(sent),
        other => io(sent, other),
    }
}

pub(in crate::jail) fn link(roots: &RootTable, name: &Located) -> Error {
    let text = format!(
        "{}: is or goes through a symbolic link, and links are not followed; name the file itself. {}",
        name.sent,
        allowed(roots, &name.sent)
    );
    Error::new(Code::OutsideRoots, text)
}

pub(in crate::jail) fn several_links(name: &Located) -> Error {
    let text = format!(
        "{}: has several hard links, and this root refuses the content of such files; copy it to a file of its own",
        name.sent
    );
    Error::new(Code::OutsideRoots, text)
}

/// C211 for a folder that the caller may name, but that holds a denied entry.
pub(in crate::jail) fn holds_denied(sent: &str, verb: &str) -> Error {
    let text =
        format!("{sent}: holds entries that are not found or not accessible to you, so it cannot be {verb} as a whole");
    denied(text)
}

/// C211 for a folder whose entries would get denied names.
pub(in crate::jail) fn would_be_denied(sent: &str, to: &str, verb: &str) -> Error {
    let text = format!(
        "{sent}: holds entries that would get names below {to} that are not accessible to you, so it cannot be {verb} there; \
         choose another destination"
    );
    denied(text)
}

fn denied(text: String) -> Error {
    Error { is_denied: true, ..Error::new(Code::NotFound, text) }
}

/// How the operator lifts a protection, in the terms of the policy and of the command line.
const LIFT_HINT: &str = "only the operator can lift this, with [protect] except_globs in the policy or --unprotect GLOB together with --root";

/// C221 for a name that may only be read.
pub(in crate::jail) fn protected(sent: &str, rule: &str) -> Error {
    Error::protected(format!("{sent}: protected by {rule}: clients can read but not change it; {LIFT_HINT}"), rule)
}

/// C221 for the new name of a link, or of a folder with one in it.
pub(in crate::jail) fn protected_behind_link(sent: &str, rule: &str) -> Error {
    let text = format!(
        "{sent}: names below it are protected by {rule}, and a symbolic link there would lead around that; choose another \
         destination, or: {LIFT_HINT}"
    );
    Error::protected(text, rule)
}

/// C221 for an excepted name whose folder is missing and protected.
pub(in crate::jail) fn needs_protected(sent: &str, folder: &str, rule: &str) -> Error {
    let text = format!("{sent}: its folder {folder} does not exist and is protected by {rule}; {LIFT_HINT}");
    Error::protected(text, rule)
}

/// C221 for a folder that cannot be changed as a whole; `below` is the protected entry.
pub(in crate::jail) fn holds_protected(sent: &str, below: &[u8], rule: &str, verb: &str) -> Error {
    let below = String::from_utf8_lossy(below);
    let text = format!(
        "{sent}: holds {below}, which is protected by {rule}, so it cannot be {verb} as a whole; name the entries that are not protected; {LIFT_HINT}"
    );
    Error::protected(text, rule)
}

/// C221 for a folder whose entry `below` would get a protected name.
pub(in crate::jail) fn would_be_protected(sent: &str, to: &str, below: &[u8], rule: &str, verb: &str) -> Error {
    let below = String::from_utf8_lossy(below);
    let text = format!(
        "{sent}: holds {below}, whose new name below {to} is protected by {rule}, so it cannot be {verb} there; choose another \
         destination; {LIFT_HINT}"
    );
    Error::protected(text, rule)
}

/// C218 for a `base_dir` that is a link or goes through one.
pub(in crate::jail) fn base_is_link(sent: &str) -> Error {
    let text = format!("{sent}: base_dir is or goes through a symbolic link; name the folder that it leads to");
    Error::new(Code::OutsideBaseDir, text)
}

/// C218 for a path with a link that leads out of the call's `base_dir`.
pub(in crate::jail) fn leaves_base(sent: &str, base: &Path) -> Error {
    let text = format!(
        "{sent}: goes through a link that leads out of this call's base_dir {}; give a path below base_dir",
        base.display()
    );
    Error::new(Code::OutsideBaseDir, text)
}

pub(in crate::jail) fn taken(sent: &str) -> Error {
    Error::new(Code::Busy, format!("{sent}: another client is changing it; retry the call"))
}

/// C222: a change of this name was interrupted, and recovery has not undone it yet.
pub(in crate::jail) fn unsettled(sent: &str) -> Error {
    let text = format!(
        "{sent}: a change here was interrupted and is being undone; retry the call. If this lasts, the operator finds the \
         reason in the service's log"
    );
    Error::new(Code::Busy, text)
}

/// C222: another process has changed the name since this call read it.
pub(in crate::jail) fn changed(sent: &str) -> Error {
    let text = format!("{sent}: another process changed it meanwhile; read it again and retry");
    Error::new(Code::Busy, text)
}

/// Adds to the error that the old state could not be restored at once.
pub(in crate::jail) fn with_left_over_note(mut error: Error) -> Error {
    error.message.push_str("; not everything could be put back, the next start of the service tries again");
    error
}

pub(in crate::jail) fn not_empty(sent: &str) -> Error {
    Error::io(sent, "the folder is not empty; pass recursive=true to delete it with all it holds")
}

pub(in crate::jail) fn exists(sent: &str) -> Error {
    Error::new(Code::Exists, format!("{sent} already exists; pass overwrite=true to replace it"))
}

fn mount(roots: &RootTable, name: &Located) -> Error {
    let text = format!(
        "{}: is or goes through a mount point, which the policy of this root does not cross. {}",
        name.sent,
        allowed(roots, &name.sent)
    );
    Error::new(Code::OutsideRoots, text)
}

fn read_only(roots: &RootTable, path: &JailPath, sent: &str) -> Error {
    let root = roots.root(path).path.to_string_lossy();
    let text = format!("{sent}: {root} is read-only here; coder::info shows which roots are writable");
    Error::new(Code::ReadOnly, text)
}

/// Names the primary root for a relative path, all roots for an absolute one.
fn allowed(roots: &RootTable, sent: &str) -> String {
    if sent.starts_with('/') {
        let names: Vec<_> = roots.roots().iter().map(|root| root.path.to_string_lossy()).collect();
        format!("Allowed roots: {}", names.join(", "))
    } else {
        format!("Relative paths begin at {}", roots.primary().path.to_string_lossy())
    }
}
