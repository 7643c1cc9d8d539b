//! Executing code, and the kernel's less travelled doors.

use libc::{EMFILE, ENOMEM, EPERM, O_RDONLY, PROT_EXEC, PROT_READ, PROT_WRITE};

use super::{Attempt, all_give, attempt, call, close, openat2, refused, with};

const PAGE: usize = 4096;
const ANONYMOUS: usize = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
/// More descriptors than any limit of a worker.
const MANY: usize = 4096;

fn map(length: usize, protection: i32) -> i32 {
    call(libc::SYS_mmap, &[0, length, protection as usize, ANONYMOUS, usize::MAX, 0])
}

pub static KERNEL: &[Attempt] = &[
    refused!("execve", SYS_execve, |t| [c"/bin/true".as_ptr() as usize, 0, 0]),
    refused!("execve_inside", SYS_execve, |t| [t.file.as_ptr() as usize, 0, 0]),
    attempt!("execveat", [EPERM], |t| with(&t.file, O_RDONLY, |fd| {
        call(libc::SYS_execveat, &[fd, c"".as_ptr() as usize, 0, 0, libc::AT_EMPTY_PATH as usize])
    })),
    refused!("memfd_create", SYS_memfd_create, |t| [c"x".as_ptr() as usize, 0]),
    refused!("memfd_secret", SYS_memfd_secret, |t| [0]),
    attempt!("executable_memory", [EPERM], |_| all_give(
        EPERM,
        [PROT_EXEC, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC].map(|p| map(PAGE, p))
    )),
    attempt!("executable_file_mapping", [EPERM], |t| with(&t.file, O_RDONLY, |fd| {
        call(libc::SYS_mmap, &[0, PAGE, (PROT_READ | PROT_EXEC) as usize, libc::MAP_PRIVATE as usize, fd, 0])
    })),
    attempt!("memory_made_executable", [EPERM], |_| {
        let mut page = vec![0u8; 4 * PAGE];
        let at = (page.as_mut_ptr() as usize).next_multiple_of(PAGE);
        all_give(
            EPERM,
            [PROT_EXEC, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC]
                .map(|p| call(libc::SYS_mprotect, &[at, PAGE, p as usize])),
        )
    }),
    refused!("memory_made_executable_by_key", SYS_pkey_mprotect, |t| [0, PAGE, PROT_EXEC as usize, usize::MAX]),
    refused!("shared_memory", SYS_shmget, |t| [0, PAGE, 0o1600]),
    refused!("read_implies_execute", SYS_personality, |t| [0x040_0000]),
    refused!("io_uring_setup", SYS_io_uring_setup, |t| [8, 0]),
    refused!("io_uring_enter", SYS_io_uring_enter, |t| [0, 1, 0, 0, 0, 0]),
    refused!("io_uring_register", SYS_io_uring_register, |t| [0, 0, 0, 0]),
    refused!("bpf", SYS_bpf, |t| [0, 0, 0]),
    refused!("userfaultfd", SYS_userfaultfd, |t| [1]),
    refused!("unshare", SYS_unshare, |t| [(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) as usize]),
    refused!("setns", SYS_setns, |t| [0, 0]),
    refused!("mount", SYS_mount, |t| [t.outside.as_ptr() as usize, t.inside.as_ptr() as usize, 0, 4096, 0]),
    refused!("umount", SYS_umount2, |t| [t.inside.as_ptr() as usize, 0]),
    refused!("pivot_root", SYS_pivot_root, |t| [t.inside.as_ptr() as usize, t.inside.as_ptr() as usize]),
    refused!("fsopen", SYS_fsopen, |t| [c"tmpfs".as_ptr() as usize, 0]),
    refused!("move_mount", SYS_move_mount, |t| [0, 0, 0, 0, 0]),
    refused!("keyctl", SYS_keyctl, |t| [0, 0, 0, 0, 0]),
    refused!("add_key", SYS_add_key, |t| [0, 0, 0, 0, 0]),
    refused!("fanotify_init", SYS_fanotify_init, |t| [0, 0]),
    refused!("inotify_init1", SYS_inotify_init1, |t| [0]),
    refused!("landlock_again", SYS_landlock_create_ruleset, |t| [0, 0, 1]),
    refused!("seccomp_again", SYS_seccomp, |t| [0, 0, 0]),
    refused!("prctl", SYS_prctl, |t| [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0]),
    refused!("setuid", SYS_setuid, |t| [0]),
    refused!("capset", SYS_capset, |t| [0, 0]),
    refused!("setrlimit", SYS_prlimit64, |t| [0, libc::RLIMIT_NOFILE as usize, 0, 0]),
    refused!("dup", SYS_dup, |t| [0]),
    refused!("push_input_to_a_terminal", SYS_ioctl, |t| [t.connection as usize, libc::TIOCSTI as usize, 0]),
    // Ceilings, for what is not forbidden.
    attempt!("memory_without_end", [ENOMEM], |_| map(64 << 30, PROT_READ | PROT_WRITE)),
    attempt!("descriptors_without_end", [EMFILE], |t| {
        let opened: Vec<_> = (0..MANY).map_while(|_| openat2(libc::AT_FDCWD, &t.file, O_RDONLY).ok()).collect();
        let last = openat2(libc::AT_FDCWD, &t.file, O_RDONLY).err().unwrap_or(0);
        opened.into_iter().for_each(close);
        last
    }),
    #[cfg(target_arch = "x86_64")]
    refused!("modify_ldt", SYS_modify_ldt, |t| [0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    refused!("arch_prctl", SYS_arch_prctl, |t| [0, 0]),
    #[cfg(target_arch = "x86_64")]
    refused!("iopl", SYS_iopl, |t| [3]),
];

/// getpid of the 32-bit table. The filter kills before it can answer.
#[cfg(target_arch = "x86_64")]
pub fn int80() -> i32 {
    let mut result: i32 = 20;
    // SAFETY: at worst the process ends, which is the point.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}
