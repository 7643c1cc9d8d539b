//! The account files, read by ourselves. Runs in the supervisor at start.
//! Trusts /etc/passwd and /etc/group, which only the superuser may write.
//!
//! Not getpwnam and its kin (nor initgroups, getgrouplist): they load the name service modules of the host as shared
//! libraries. In a statically linked program that crashes, measured with libnss_systemd on the first unknown name; and it would
//! put foreign code into the trusted process. Accounts that live elsewhere (LDAP) are named by number.

use std::fs;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// A user as an identity change needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// Both files as they are now. A supervisor that has confined itself can read neither of them again.
#[derive(Debug, Clone)]
pub struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    /// Reads the account files. A file that cannot be read counts as empty.
    pub fn read() -> Self {
        // Lossy: a comment field in an old encoding must not hide all users.
        let read = |file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
        Self { passwd: read(PASSWD), group: read(GROUP) }
    }

    #[cfg(test)]
    pub fn parse(passwd: &str, group: &str) -> Self {
        Self { passwd: passwd.into(), group: group.into() }
    }

    pub fn uid_of(&self, name: &str) -> Option<u32> {
        self.account_of(name).map(|account| account.uid)
    }

    pub fn gid_of(&self, name: &str) -> Option<u32> {
        groups(&self.group).find(|group| group.0 == name).map(|group| group.1)
    }

    pub fn account_of(&self, name: &str) -> Option<Account> {
        accounts(&self.passwd).find(|account| account.name == name)
    }

    pub fn account_with(&self, uid: u32) -> Option<Account> {
        accounts(&self.passwd).find(|account| account.uid == uid)
    }

    /// Whether `gid` is the primary group of this user and has no other member. Members that are not in the account files
    /// cannot be seen, so a group of an unknown user never counts as private.
    pub fn is_private_group(&self, uid: u32, gid: u32) -> bool {
        let Some(owner) = self.account_with(uid).filter(|owner| owner.gid == gid) else { return false };
        let is_shared = accounts(&self.passwd).any(|other| other.gid == gid && other.uid != uid)
            || groups(&self.group).any(|(_, other, members)| {
                other == gid && members.split(',').any(|name| !name.is_empty() && name != owner.name)
            });
        !is_shared
    }

    /// Those that list the user as a member.
    pub fn groups_of(&self, user: &str) -> Vec<u32> {
        groups(&self.group)
            .filter(|(_, _, members)| members.split(',').any(|member| member == user))
            .map(|group| group.1)
            .collect()
    }
}

/// `name:password:uid:gid:…`; anything else (comments, NIS markers) is skipped.
fn accounts(passwd: &str) -> impl Iterator<Item = Account> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = name(fields.next()?)?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Account { name: name.into(), uid, gid })
    })
}

/// `name:password:gid:member,member`.
fn groups(group: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((name(fields.next()?)?, fields.nth(1)?.parse().ok()?, fields.next().unwrap_or_default()))
    })
}

fn name(field: &str) -> Option<&str> {
    (!field.is_empty() && !field.starts_with(['#', '+', '-'])).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_uid_and_gid_0() {
        let root = Account { name: "root".into(), uid: 0, gid: 0 };
        let known = Accounts::read();
        assert_eq!((known.account_of("root"), known.uid_of("root")), (Some(root), Some(0)));
        assert_eq!(known.gid_of("root").or_else(|| known.gid_of("wheel")), Some(0));
    }

    #[test]
    fn an_unknown_name_is_nobody_and_no_crash() {
        let known = Accounts::read();
        assert_eq!((known.uid_of("no such user"), known.gid_of("no such group")), (None, None));
    }

    #[test]
    fn a_user_is_a_member_by_its_whole_name() {
        let group = "staff:x:50:ada,bob\nteam:x:51:adam\nlast:x:52:bob,ada\nempty:x:53:\nshort:x:54\n";
        let known = Accounts::parse("", group);
        assert_eq!((known.groups_of("ada"), known.groups_of("")), (vec![50, 52], vec![53, 54]));
        assert_eq!(known.gid_of("short"), Some(54));
    }

    #[test]
    fn a_group_is_private_if_only_its_user_is_known_to_be_in_it() {
        let passwd = "ada:x:1000:100:\nbob:x:1001:101:\neve:x:1002:101:\nsue:x:1003:103:\n";
        let known = Accounts::parse(passwd, "ada:x:100:\nbob:x:101:bob\nsue:x:103:sue,eve\nbig:x:200:ada\n");
        let private = |uid: u32, gid: u32| known.is_private_group(uid, gid);
        assert!(private(1000, 100));
        assert!(!private(1001, 101), "another user has the same primary group");
        assert!(!private(1003, 103), "another user is listed as a member");
        assert!(!private(1000, 200), "not the primary group");
        assert!(!private(4242, 4242), "an unknown user");
    }

    #[test]
    fn lines_that_are_no_account_are_skipped() {
        let passwd = "# c:x:1:1:\n+:x:2:2:\n:x:3:3:\nshort:x\nbad:x:-1:0:::\nbig:x:4294967296:0:::\nada:x:1000:100:A,,,:/:/bin/sh\n";
        let found: Vec<_> = accounts(passwd).collect();
        assert_eq!(found, [Account { name: "ada".into(), uid: 1000, gid: 100 }]);
    }
}
