//! Runs in the supervisor, and in `stockade policy explain` as the user who calls it. Tests the rules of a question and turns its
//! path into an O_PATH directory beneath a root (where there is no O_PATH: one that is open for reading).
//! Trusts: the root descriptor. Does not trust: names on disk, which others swap while we look.
//! Never opens a file for content. No resolver ever follows a link: where the policy allows it, `follow` first finds
//! the path without links, and that path is resolved like any other.

mod follow;
#[cfg(not(target_os = "linux"))]
mod no_openat2;
#[cfg(target_os = "linux")]
mod openat2;
mod rules;
mod stepwise;

use std::os::fd::{BorrowedFd, OwnedFd};

pub use follow::{LeafLinkRule, follow_links};
#[cfg(not(target_os = "linux"))]
pub use no_openat2::kernel;
#[cfg(all(target_os = "linux", feature = "internals"))]
pub use openat2::Openat2Resolver;
#[cfg(all(target_os = "linux", feature = "supervisor"))]
pub use openat2::kernel_resolver;
pub use rules::{check_question, check_real_path};
pub use stepwise::StepwiseResolver;

use crate::{
    broker::Refusal,
    path::Root,
    sys::{
        Errno,
        fs::{Mounts, OpenRules, ResolveMethod},
    },
    terms::Resolver as Kind,
};

/// One way of walking from a root to a directory below it. Interchangeable: the same test-suite runs against each.
pub trait PathResolver {
    /// Opens the directory `rel` (not empty, already checked) below `root` as O_PATH. Any link on the way is `Escape`,
    /// whatever the rule of the root about links.
    fn open_directory(&self, root: BorrowedFd<'_>, rel: &[u8], rules: &Root) -> Result<OwnedFd, Refusal>;

    /// The kind of resolver, for `coder::info` and `stockade check`.
    fn kind(&self) -> Kind;
}

fn beneath_options(walk: ResolveMethod, rules: &Root) -> OpenRules {
    OpenRules { method: walk, mounts: if rules.cross_mounts { Mounts::Cross } else { Mounts::Refuse } }
}

/// Translates an errno of the walk. EACCES is a folder that the service's identity may not search; for the client that is the
/// same as a missing folder.
fn refusal_for(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT | Errno::ACCESS => Refusal::NotFound,
        Errno::LOOP => Refusal::Escape,
        Errno::XDEV => Refusal::Mount,
        Errno::NOTDIR => Refusal::NotDirectory,
        Errno::AGAIN => Refusal::Busy,
        other => Refusal::Io(other.raw_os_error()),
    }
}
