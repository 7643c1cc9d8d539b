//! The calls that a writable root gives a worker: refused where there is none, and of no use outside where there is one.

use libc::{EACCES, EBADF, EPERM, EXDEV, O_DIRECTORY, O_PATH, O_RDWR, O_TMPFILE};

use super::{
    Attempt, On, Target, all_give, call,
    files::{ATTRIBUTE, BYTES, CWD, by_descriptor, by_path},
    join, open, with,
};

macro_rules! given {
    ($name:literal, $run:expr) => {
        Attempt { name: $name, held: &[EPERM], run: $run, on: On::ReadOnly }
    };
}

/// Not listed at all in a profile without a writable root: the arguments do not matter.
pub static GIVEN: &[Attempt] = &[
    given!("unlinkat", |t| by_path(t, libc::SYS_unlinkat, &[CWD], &[0])),
    given!("mkdirat", |t| by_path(t, libc::SYS_mkdirat, &[CWD], &[0o777])),
    given!("symlinkat", |t| by_path(t, libc::SYS_symlinkat, &[c"/".as_ptr() as usize, CWD], &[])),
    given!("linkat_in_and_out", |t| in_and_out(t, EPERM, libc::SYS_linkat, 0)),
    given!("renameat2_in_and_out", |t| in_and_out(t, EPERM, libc::SYS_renameat2, 0)),
    given!("fchown", |t| by_descriptor(t, libc::SYS_fchown, &[1, 1])),
    given!("flistxattr", |t| by_descriptor(t, libc::SYS_flistxattr, &[0, 0])),
    given!("fgetxattr", |t| by_descriptor(t, libc::SYS_fgetxattr, &[ATTRIBUTE.as_ptr() as usize, 0, 0])),
    given!("fsetxattr", |t| by_descriptor(t, libc::SYS_fsetxattr, &set_attribute())),
    given!("ftruncate", |t| by_descriptor(t, libc::SYS_ftruncate, &[0])),
    given!("pwrite64", |t| by_descriptor(t, libc::SYS_pwrite64, &[BYTES.as_ptr() as usize, 5, 0])),
    given!("fsync", |t| by_descriptor(t, libc::SYS_fsync, &[])),
    given!("flock", |t| by_descriptor(t, libc::SYS_flock, &[libc::LOCK_EX as usize])),
];

macro_rules! outside {
    ($name:literal, [$($held:expr),+], $run:expr) => {
        Attempt { name: $name, held: &[$($held),+], run: $run, on: On::Writable }
    };
}

/// With a writable root the filter lets these pass, and Landlock stands alone.
pub static OUTSIDE: &[Attempt] = &[
    outside!("unlinkat_outside", [EACCES], |t| all_give(
        EACCES,
        [(&t.secret, 0), (&join(&t.outside, "empty"), 0), (&join(&t.outside, "deep/er"), libc::AT_REMOVEDIR)]
            .map(|(path, flags)| call(libc::SYS_unlinkat, &[CWD, path.as_ptr() as usize, flags as usize]))
    )),
    outside!("mkdirat_outside", [EACCES], |t| {
        call(libc::SYS_mkdirat, &[CWD, join(&t.outside, "new").as_ptr() as usize, 0o755])
    }),
    outside!("mkdirat_with_setgid_or_sticky", [EPERM], |t| all_give(
        EPERM,
        [0o1777, 0o2777, 0o4777]
            .map(|mode| { call(libc::SYS_mkdirat, &[CWD, join(&t.inside, "new").as_ptr() as usize, mode]) })
    )),
    outside!("symlinkat_outside", [EACCES], |t| {
        let new = join(&t.outside, "new");
        call(libc::SYS_symlinkat, &[c"/".as_ptr() as usize, CWD, new.as_ptr() as usize])
    }),
    // Landlock says EXDEV for what only lacks the right to move between folders.
    outside!("an_outside_file_linked_in", [EXDEV], |t| link(&t.secret, &join(&t.inside, "new"))),
    outside!("an_inside_file_linked_out", [EACCES], |t| link(&t.file, &join(&t.outside, "new"))),
    outside!("renameat2_in_and_out", [EACCES], |t| in_and_out(t, EACCES, libc::SYS_renameat2, 0)),
    outside!("exchange_in_and_out", [EACCES], |t| {
        let swap = |from: &std::ffi::CStr, to: &std::ffi::CStr| {
            let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
            call(libc::SYS_renameat2, &[CWD, from, CWD, to, libc::RENAME_EXCHANGE as usize])
        };
        all_give(EACCES, [swap(&t.secret, &t.file), swap(&t.file, &t.secret), swap(&t.outside, &t.inside)])
    }),
    outside!("rename_within_outside", [EACCES], |t| {
        let new = join(&t.outside, "new");
        call(libc::SYS_renameat2, &[CWD, t.secret.as_ptr() as usize, CWD, new.as_ptr() as usize, 0])
    }),
    outside!("changes_through_a_held_outside_folder", [EACCES], |t| with(&t.outside, O_PATH | O_DIRECTORY, |fd| {
        let name = |name: &'static std::ffi::CStr| name.as_ptr() as usize;
        all_give(
            EACCES,
            [
                call(libc::SYS_unlinkat, &[fd, name(c"secret.txt"), 0]),
                call(libc::SYS_mkdirat, &[fd, name(c"new"), 0o755]),
                call(libc::SYS_symlinkat, &[name(c"/"), fd, name(c"new")]),
                call(libc::SYS_renameat2, &[fd, name(c"secret.txt"), fd, name(c"new"), 0]),
            ],
        )
    })),
    outside!("an_unnamed_file_named_outside", [EACCES], |t| with(&t.inside, O_TMPFILE | O_RDWR, |fd| {
        let new = join(&t.outside, "new");
        let by_itself = [fd, c"".as_ptr() as usize, CWD, new.as_ptr() as usize, libc::AT_EMPTY_PATH as usize];
        let magic = join(c"/proc/self/fd", &fd.to_string());
        let by_link = [CWD, magic.as_ptr() as usize, CWD, new.as_ptr() as usize, libc::AT_SYMLINK_FOLLOW as usize];
        all_give(EACCES, [call(libc::SYS_linkat, &by_itself), call(libc::SYS_linkat, &by_link)])
    })),
    outside!("a_held_outside_file_linked_in", [EXDEV], |t| with(&t.secret, O_PATH, |fd| {
        let new = join(&t.inside, "new");
        let magic = join(c"/proc/self/fd", &fd.to_string());
        let flags = libc::AT_SYMLINK_FOLLOW as usize;
        call(libc::SYS_linkat, &[CWD, magic.as_ptr() as usize, CWD, new.as_ptr() as usize, flags])
    })),
    outside!("a_held_outside_file_changed", [EBADF], |t| with(&t.secret, O_PATH, |fd| all_give(
        EBADF,
        [
            call(libc::SYS_fchown, &[fd, usize::MAX, usize::MAX]),
            call(libc::SYS_fsetxattr, &[&[fd][..], &set_attribute()].concat()),
            call(libc::SYS_flistxattr, &[fd, 0, 0]),
            call(libc::SYS_ftruncate, &[fd, 0]),
            call(libc::SYS_pwrite64, &[fd, BYTES.as_ptr() as usize, 5, 0]),
            call(libc::SYS_fsync, &[fd]),
            call(libc::SYS_flock, &[fd, libc::LOCK_EX as usize]),
        ]
    ))),
];

macro_rules! read_only {
    ($name:literal, $run:expr) => {
        Attempt { name: $name, held: &[EACCES], run: $run, on: On::Mixed }
    };
}

/// A read-only root beside a writable one: its files can be opened, and so the filter lets calls on descriptors pass.
pub static READ_ONLY: &[Attempt] = &[
    read_only!("read_only_file_to_write", |t| all_give(
        EACCES,
        [libc::O_WRONLY, O_RDWR, libc::O_WRONLY | libc::O_APPEND].map(|flags| open(&t.secret, flags))
    )),
    read_only!("read_only_file_to_empty", |t| all_give(
        EACCES,
        [libc::O_RDONLY, libc::O_WRONLY, O_RDWR].map(|flags| open(&t.secret, flags | libc::O_TRUNC))
    )),
    read_only!("read_only_folder_to_create", |t| {
        let new = join(&t.outside, "new");
        let make = [libc::O_WRONLY, libc::O_RDONLY].map(|flags| open(&new, flags | libc::O_CREAT));
        all_give(EACCES, make.into_iter().chain([open(&t.outside, O_RDWR | O_TMPFILE)]))
    }),
    Attempt {
        name: "read_only_file_by_descriptor",
        held: &[EBADF],
        run: |t| {
            with(&t.secret, libc::O_RDONLY, |fd| {
                let written = call(libc::SYS_pwrite64, &[fd, BYTES.as_ptr() as usize, 5, 0]);
                // The kernel's word for a descriptor that may not write.
                let emptied = call(libc::SYS_ftruncate, &[fd, 0]);
                if emptied == libc::EINVAL { written } else { emptied }
            })
        },
        on: On::Mixed,
    },
];

fn link(from: &std::ffi::CStr, to: &std::ffi::CStr) -> i32 {
    call(libc::SYS_linkat, &[CWD, from.as_ptr() as usize, CWD, to.as_ptr() as usize, 0])
}

fn set_attribute() -> [usize; 4] {
    [ATTRIBUTE.as_ptr() as usize, BYTES.as_ptr() as usize, 3, 0]
}

/// A name outside made to mean a file inside, and the other way round.
fn in_and_out(t: &Target, errno: i32, number: i64, flags: usize) -> i32 {
    let (new_in, new_out) = (join(&t.inside, "new"), join(&t.outside, "new"));
    let change = |from: &std::ffi::CStr, to: &std::ffi::CStr| {
        call(number, &[CWD, from.as_ptr() as usize, CWD, to.as_ptr() as usize, flags])
    };
    all_give(errno, [change(&t.secret, &new_in), change(&t.file, &new_out)])
}
