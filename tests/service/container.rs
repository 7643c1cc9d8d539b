//! The service inside a container: behind the system-call filter and with the capabilities that Docker gives a container by
//! default. The filter is made from a list of what the profile refuses, because the profile allows nearly all calls.
//! The profile is `seccomp/default.json` of the repository `moby/profiles`.

use std::{collections::BTreeMap, process::Command, thread};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::support::{NO_STATE, Options, TestJail, Value, bin_dir, json, process};

/// System calls that the profile refuses with EPERM where the container has no further capability. Calls that no kernel has
/// any more are not listed: they answer ENOSYS.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The last call that the profile knows, `removexattrat`. Newer calls are refused like those of the list.
const LAST_KNOWN: i64 = 466;
/// Flags of `clone` that make namespaces.
const NAMESPACES: u64 = 0x7e02_0000;
/// `AF_ALG` and `AF_VSOCK`, the address families that the profile refuses.
const REFUSED_FAMILIES: [u64; 2] = [38, 40];
/// What a process that is root in a container may do.
const CAPABILITIES: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,\
    +net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value).unwrap()
}

fn compiled(rules: BTreeMap<i64, Vec<SeccompRule>>, otherwise: SeccompAction, matched: SeccompAction) -> BpfProgram {
    let arch: TargetArch = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, otherwise, matched, arch).unwrap().try_into().unwrap()
}

/// The profile as two filters, because one of them has one errno: EPERM for nearly all, ENOSYS for clone3, so that the C
/// library falls back to clone.
fn profile() -> [BpfProgram; 2] {
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = (0..=LAST_KNOWN).map(|number| (number, Vec::new())).collect();
    allowed.retain(|number, _| !REFUSED.contains(number));
    let no_namespace = condition(0, SeccompCmpOp::MaskedEq(NAMESPACES), 0);
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace]).unwrap()]);
    let families = REFUSED_FAMILIES.map(|family| condition(0, SeccompCmpOp::Ne, family));
    allowed.insert(libc::SYS_socket, vec![SeccompRule::new(families.to_vec()).unwrap()]);
    let missing = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    [
        compiled(allowed, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow),
        compiled(missing, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32)),
    ]
}

/// The command that a daemon is run through. Only root has capabilities to lose.
fn with_capabilities_of_a_container() -> Vec<String> {
    if !process::is_root() {
        return Vec::new();
    }
    ["setpriv", "--inh-caps=-all", &format!("--bounding-set={CAPABILITIES}")].map(Into::into).to_vec()
}

/// Runs `claims` in a thread behind the profile; what the thread starts is behind it, too.
fn in_a_container(claims: impl FnOnce() + Send + 'static) {
    let contained = thread::spawn(|| {
        for filter in profile() {
            seccompiler::apply_filter(&filter).unwrap();
        }
        claims();
    });
    contained.join().expect("all holds in a container");
}

#[test]
fn the_jail_holds_behind_dockers_default_profile() {
    in_a_container(|| {
        // The filter is in force: a container cannot make namespaces.
        let unshared = Command::new("unshare").args(["--user", "true"]).output().unwrap();
        let text = String::from_utf8_lossy(&unshared.stderr).into_owned();
        assert!(text.contains("Operation not permitted"), "{text}");

        let mut command = with_capabilities_of_a_container();
        command.extend([bin_dir(false).join("stockade").to_str().unwrap().to_owned(), "check".into()]);
        let checked = Command::new(&command[0]).args(&command[1..]).envs([NO_STATE]).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success() && text.contains("The jail holds"), "{text}");
        assert!(text.contains("kernel confinement") && text.contains("resolver openat2"), "{text}");
    });
}

#[test]
fn a_service_in_a_container_reads_changes_and_refuses() {
    in_a_container(|| {
        let through = with_capabilities_of_a_container();
        let jail = TestJail::with_tree(Options { through, ..Options::default() }, |root| {
            std::fs::write(root.join("note.txt"), "a note\n").unwrap();
            let outside = root.parent().unwrap().join("outside/secret.txt");
            std::os::unix::fs::symlink(outside, root.join("link")).unwrap();
        });
        assert_eq!(jail.read("note.txt").unwrap()["content"], "a note\n");
        let op = json!({"op": "append", "content": "more\n"});
        let edited = jail.call("coder::update-file", json!({"files": [{"path": "note.txt", "ops": [op]}]})).unwrap();
        assert_eq!(edited["results"][0]["success"], Value::Bool(true), "{edited}");
        let moved = json!({"files": [{"from": "note.txt", "to": "renamed.txt"}], "atomic": true});
        let moved = jail.call("coder::move", moved).unwrap();
        assert_eq!(moved["results"][0]["success"], Value::Bool(true), "{moved}");
        assert_eq!(jail.read("renamed.txt").unwrap()["content"], "a note\nmore\n");
        assert_eq!(jail.read("link").unwrap_err().code(), "C215");
        let info = jail.call("coder::info", json!({})).unwrap();
        assert_eq!(info["confinement"]["level"], "kernel", "{info}");
        jail.assert_intact();
    });
}
