//! The questions that a worker may ask its supervisor, and the answers. Runs in both processes.
//!
//! Both sides use `Question` and `Answer`; `codec` is their fixed binary layout. The supervisor trusts nothing that it decodes. The
//! worker trusts its supervisor, and still asserts that only O_PATH directories arrive.

mod ask_supervisor;
mod channel;
pub mod codec;
mod lease;
mod outcome;
pub mod setup;

pub use ask_supervisor::{Answer, AskSupervisor, Caller, Parent};
pub use channel::{Channel, ControlMessage, PendingQuestions};
pub use lease::{Lease, WorkerLeases};
pub use outcome::{Effect, EntryOutcome, OutcomeKind, OutcomePaths};

use crate::terms::Code;

/// What a call will do with the name that it asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Intent {
    /// Content or listing.
    Read = 1,
    /// Change or remove an existing name: read-only roots refuse, a lease is taken.
    Write = 2,
    /// Make a name: like `Write`, and missing parents are answered with the longest existing ancestor.
    Create = 3,
    /// Metadata of the name itself: like `Read`, but a link that is the last name is never followed.
    Look = 4,
    /// Change the content of an existing name: like `Write`, but a link that is the last name is followed where the root
    /// allows it.
    Edit = 5,
}

impl Intent {
    /// Read-only roots refuse, and a lease is taken unless the call only plans.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Create | Self::Edit)
    }
}

/// One name below one root: the index into the profile's root table and a normalised relative path
/// (no `.`, `..`, empty component, leading or trailing slash; empty = the root itself).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    pub root: u16,
    pub path: Vec<u8>,
    pub intent: Intent,
}

/// Why the supervisor gives no parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Missing, or not searchable by the service's identity.
    NotFound,
    /// A deny glob covers it. Answered to clients exactly like `NotFound`.
    Denied,
    /// A symlink, magic link or lexical climb on the way.
    Escape,
    /// A mount point on the way, and the root does not cross mounts.
    Mount,
    /// A component on the way is not a directory.
    NotDirectory,
    /// A write intent in a read-only root.
    ReadOnly,
    /// A write intent for a name that may only be read; the number of the protect glob.
    Protected(u32),
    /// Another call holds the lease, or the kernel repeatedly answered EAGAIN.
    Busy,
    /// A change of this name was interrupted, and recovery has not undone it yet.
    Unsettled,
    /// Any other errno.
    Io(i32),
}

impl Refusal {
    /// The code that the client gets.
    pub fn code(self) -> Code {
        match self {
            Self::NotFound | Self::Denied => Code::NotFound,
            Self::Escape | Self::Mount => Code::OutsideRoots,
            Self::ReadOnly | Self::Protected(_) => Code::ReadOnly,
            Self::Busy | Self::Unsettled => Code::Busy,
            Self::NotDirectory | Self::Io(_) => Code::Io,
        }
    }
}

/// Exit status of a worker that could neither complete nor undo a change and leaves it to recovery.
pub const LEFT_TO_RECOVERY: i32 = 3;

/// Which call a question belongs to, for leases, deadlines and the audit. Chosen by the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);
