//! Which layer blocks which way out of the jail, and what stays open. Derived from what the supervisor enforces, for
//! `coder::info` and `stockade check`. Runs in the worker and in clients. Pure; decides nothing.

use super::types::info::{Confinement, Layer};
use crate::terms::{AccessTimes, EnforcedConfinement, Hardlinks, Level, Mode, Root};

/// From this ABI on, Landlock itself forbids truncating a file of a read-only root.
const ABI_TRUNCATE: u32 = 3;
const ABI_TCP: u32 = 4;
const ABI_IOCTL: u32 = 5;
const ABI_SCOPES: u32 = 6;

/// What is protected without the kernel's jail, and the layers that protect it.
const USERSPACE_LAYERS: &[(&str, &[&str])] = &[
    ("links and mount points on the way", &["resolver"]),
    ("writing in read-only roots", &["request table"]),
    #[cfg(target_os = "linux")]
    ("privileges", &["capabilities", "no_new_privs"]),
    #[cfg(target_os = "linux")]
    ("memory, descriptors, file size, core dumps", &["rlimits"]),
    #[cfg(not(target_os = "linux"))]
    ("descriptors, file size, core dumps", &["rlimits"]),
];

/// `roots`: the roots of one profile.
pub fn describe_confinement(enforced: &EnforcedConfinement, roots: &[Root]) -> Confinement {
    let EnforcedConfinement { level, landlock_abi, resolver } = *enforced;
    let abi = landlock_abi.unwrap_or_default();
    let layers = match level {
        Level::Kernel => kernel_layers(abi, has_mode(roots, Mode::Rw)),
        Level::Userspace => USERSPACE_LAYERS.iter().map(|(closes, by)| new_layer(closes, by)).collect(),
    };
    Confinement { level, landlock_abi, resolver, layers, limitations: limitations(level, abi, roots) }
}

fn has_mode(roots: &[Root], mode: Mode) -> bool {
    roots.iter().any(|root| root.mode == mode)
}

fn new_layer(closes: &str, by: &[&str]) -> Layer {
    Layer { closes: closes.into(), by: by.iter().map(|name| (*name).into()).collect() }
}

/// `landlock` is named only where this kernel's ABI has the right.
fn kernel_layers(abi: u32, writable: bool) -> Vec<Layer> {
    let with_landlock = |closes: &str, first: &str, needs: u32| {
        if abi >= needs { new_layer(closes, &[first, "landlock"]) } else { new_layer(closes, &[first]) }
    };
    vec![
        new_layer("links, magic links and mount points on the way", &["openat2"]),
        new_layer("reading outside the roots", &["openat2", "landlock"]),
        new_layer("creating, changing or removing outside the roots", &["openat2", "landlock"]),
        new_layer("writing in read-only roots", &["request table", "landlock"]),
        with_landlock("emptying files of read-only roots", "request table", ABI_TRUNCATE),
        new_layer("mode and times", &["seccomp"]),
        // A writing worker may set them through descriptors, so that a replaced file keeps them; Landlock lets it open none
        // outside the roots.
        new_layer("owner and attributes outside the roots", if writable { &["landlock"] } else { &["seccomp"] }),
        new_layer("programs, processes, threads, executable memory", &["seccomp"]),
        with_landlock("TCP", "seccomp", ABI_TCP),
        new_layer("every other socket", &["seccomp"]),
        with_landlock("device control", "seccomp", ABI_IOCTL),
        with_landlock("signals and abstract sockets", "seccomp", ABI_SCOPES),
        new_layer("io_uring, bpf, mounts, namespaces, tracing", &["seccomp"]),
        new_layer("privileges", &["capabilities", "no_new_privs"]),
        new_layer("memory, descriptors, file size, core dumps", &["rlimits"]),
    ]
}

fn limitations(level: Level, abi: u32, roots: &[Root]) -> Vec<String> {
    let mut known = Vec::new();
    if level == Level::Userspace {
        known.push("the operator chose to go without the kernel's jail: only the service's own checks hold".into());
    } else {
        known.push("hostile code inside a worker can see that outside names exist, and their metadata".into());
        if abi < ABI_TRUNCATE && has_mode(roots, Mode::Ro) {
            known.push("hostile code inside a worker can empty files of read-only roots on this kernel".into());
        }
    }
    if has_mode(roots, Mode::Rw) && has_mode(roots, Mode::Ro) {
        known.push(
            "hostile code inside a worker can change attributes (access lists among them) and the group of files in \
             read-only roots and lock them, because another root of this profile is writable"
                .into(),
        );
    }
    let is_read_only = |times| roots.iter().any(|root| root.mode == Mode::Ro && root.access_times == times);
    if is_read_only(AccessTimes::OwnerOnly) {
        known.push(
            "reading a read-only root changes the access times of symbolic links, and of files and folders that another \
             user than the service's owns; a mount with noatime keeps them"
                .into(),
        );
    }
    if is_read_only(AccessTimes::Updated) {
        known.push("reading a read-only root changes access times on this system".into());
    }
    if roots.iter().any(|root| root.hardlinks == Hardlinks::Allow) {
        known.push("files that somebody else hard-linked into a root are served as part of it".into());
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::{Resolver, Symlinks};

    fn enforced(landlock_abi: u32) -> EnforcedConfinement {
        EnforcedConfinement { level: Level::Kernel, landlock_abi: Some(landlock_abi), resolver: Resolver::Openat2 }
    }

    #[test]
    fn landlock_is_named_only_for_what_the_abi_has() {
        let by = |abi: u32, closes: &str| {
            let report = describe_confinement(&enforced(abi), &[]);
            report.layers.into_iter().find(|layer| layer.closes == closes).expect("listed").by
        };
        assert_eq!(by(3, "TCP"), ["seccomp"]);
        assert_eq!(by(4, "TCP"), ["seccomp", "landlock"]);
        assert_eq!(by(2, "emptying files of read-only roots"), ["request table"]);
    }

    #[test]
    fn access_times_are_told_for_read_only_roots_where_reads_may_change_them() {
        let told = |mode: Mode, access_times: AccessTimes| {
            let (symlinks, hardlinks) = (Symlinks::Refuse, Hardlinks::Refuse);
            let path = "/srv".into();
            let root = Root { path, mode, symlinks, cross_mounts: false, hardlinks, access_times };
            limitations(Level::Kernel, 7, &[root]).iter().any(|known| known.contains("access times"))
        };
        assert!(told(Mode::Ro, AccessTimes::OwnerOnly) && told(Mode::Ro, AccessTimes::Updated));
        assert!(!told(Mode::Ro, AccessTimes::Kept) && !told(Mode::Rw, AccessTimes::OwnerOnly));
    }

    #[test]
    fn userspace_claims_no_kernel_layer() {
        let userspace =
            EnforcedConfinement { level: Level::Userspace, landlock_abi: None, resolver: Resolver::Stepwise };
        let report = describe_confinement(&userspace, &[]);
        assert_eq!(report.landlock_abi, None);
        assert!(report.layers.iter().all(|layer| !layer.by.iter().any(|by| by == "landlock" || by == "seccomp")));
        assert!(report.limitations[0].contains("without the kernel's jail"));
    }
}
