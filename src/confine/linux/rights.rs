//! Pure: the rights that Landlock will allow, as data, so that they can be read and tested without confining a process.

use ::landlock::{ABI, Access, AccessFs, BitFlags, make_bitflags};

use crate::path::Mode;

/// Every right about files that the newest known ABI can check. Landlock leaves out those that the kernel lacks.
pub fn handled_rights() -> BitFlags<AccessFs> {
    AccessFs::from_all(ABI::V9)
}

/// Rights that the kernel must be able to check: without them no process starts to confine itself. Whether the kernel has
/// `min_landlock_abi` was checked before.
pub fn required_rights() -> BitFlags<AccessFs> {
    AccessFs::from_all(ABI::V2)
}

/// No EXECUTE in any root: nothing that an agent writes can be run by the service. No device, socket or FIFO either.
pub fn root_rights(mode: Mode) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    match mode {
        Mode::Ro => read,
        Mode::Rw => {
            read | make_bitflags!(AccessFs::{
                WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
            })
        }
    }
}

/// The supervisor's rights to the worker's program.
pub fn program_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{Execute | ReadFile})
}

/// The supervisor's rights to the folder of its policy: it reads the policy again at a reload. A rule for the file alone
/// would end when an editor replaces the file.
pub fn policy_folder_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile})
}

/// The supervisor's rights to the folder of its socket: it removes the socket when it ends.
pub fn socket_folder_rights() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{RemoveFile})
}

/// Rights of the supervisor in the folder of its audit: create files, so that it can go on after a rotation, and with `rotates`
/// rename them. It can neither read nor truncate them.
pub fn audit_folder_rights(rotates: bool) -> BitFlags<AccessFs> {
    let append = make_bitflags!(AccessFs::{MakeReg | WriteFile});
    if rotates { append | AccessFs::RemoveFile } else { append }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_root_has_no_right_that_writes() {
        assert!((root_rights(Mode::Ro) & AccessFs::from_write(ABI::V9)).is_empty());
    }

    #[test]
    fn no_root_may_execute_or_make_special_files() {
        let never = make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock | MakeSock | MakeFifo | IoctlDev});
        assert!((root_rights(Mode::Rw) & never).is_empty());
    }

    #[test]
    fn every_right_given_is_a_right_handled() {
        assert!(handled_rights().contains(root_rights(Mode::Rw)));
    }

    #[test]
    fn only_the_default_minimum_closes_truncation() {
        assert!(AccessFs::from_all(ABI::V3).contains(AccessFs::Truncate));
        assert!(!required_rights().contains(AccessFs::Truncate), "a policy may accept ABI 2");
        assert!(required_rights().contains(AccessFs::Refer), "ABI 1 is never enough");
    }
}
