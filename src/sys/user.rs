//! The account database. Asked at start, before any confinement: look-ups may load libraries and ask daemons.

use nix::unistd::{Group, Uid, User};

/// A user as the identity change needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// None when there is no such user, or the database cannot be read.
pub fn uid_of(name: &str) -> Option<u32> {
    account_of(name).map(|account| account.uid)
}

pub fn gid_of(name: &str) -> Option<u32> {
    Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

pub fn account_of(name: &str) -> Option<Account> {
    User::from_name(name).ok().flatten().map(Account::from)
}

pub fn user(uid: u32) -> Option<Account> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(Account::from)
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_uid_and_gid_0() {
        assert_eq!((uid_of("root"), user(0).map(|root| root.name)), (Some(0), Some("root".into())));
        assert_eq!(account_of("root").map(|root| root.gid), Some(0));
        assert_eq!(gid_of("root").or_else(|| gid_of("wheel")), Some(0));
    }

    #[test]
    fn an_unknown_name_is_nobody() {
        assert_eq!((uid_of("no such user"), gid_of("no such group")), (None, None));
    }
}
