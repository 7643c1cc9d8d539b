//! The command line of `stockaded`.

use std::{ffi::OsString, path::PathBuf};

use crate::{
    path::Symlinks,
    policy::{Policy, RootArg},
};

pub const HELP: &str = include_str!("help.txt");

#[derive(Debug, Default, Clone)]
pub struct SupervisorArgs {
    pub policy: Option<PathBuf>,
    pub roots: Vec<RootArg>,
    pub protect: Vec<String>,
    pub unprotect: Vec<String>,
    pub no_protect: bool,
    pub deny: Vec<String>,
    pub symlinks: Option<Symlinks>,
    pub trash: bool,
    pub socket: Option<PathBuf>,
    /// The option as written: a file, or `off`.
    pub audit: Option<OsString>,
    pub mode: RunMode,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    #[default]
    Daemon,
    Inetd,
    Check,
    Help,
    Version,
}

impl SupervisorArgs {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        use lexopt::prelude::*;
        let mut args = Self::default();
        let failed = |error: lexopt::Error| error.to_string();
        let text = |value: OsString| value.into_string().map_err(|value| format!("{}: not UTF-8", value.display()));
        let mut parser = lexopt::Parser::from_iter(arguments);
        while let Some(argument) = parser.next().map_err(failed)? {
            match argument {
                Long("policy") => args.policy = Some(parser.value().map_err(failed)?.into()),
                Long("root") => {
                    let root = RootArg::parse(&parser.value().map_err(failed)?);
                    args.roots.push(root.map_err(|error| error.to_string())?);
                }
                Long("protect") => args.protect.push(text(parser.value().map_err(failed)?)?),
                Long("unprotect") => args.unprotect.push(text(parser.value().map_err(failed)?)?),
                Long("no-protect") => args.no_protect = true,
                Long("deny") => args.deny.push(text(parser.value().map_err(failed)?)?),
                Long("symlinks") => {
                    args.symlinks = Some(match text(parser.value().map_err(failed)?)?.as_str() {
                        "refuse" => Symlinks::Refuse,
                        "beneath" => Symlinks::Beneath,
                        other => return Err(format!("--symlinks {other}: allowed: refuse, beneath")),
                    })
                }
                Long("trash") => args.trash = true,
                Long("socket") => args.socket = Some(parser.value().map_err(failed)?.into()),
                Long("audit") => args.audit = Some(parser.value().map_err(failed)?),
                Long("inetd") => args.mode = RunMode::Inetd,
                Long("check") => args.mode = RunMode::Check,
                Long("version") | Short('V') => args.mode = RunMode::Version,
                Long("help") | Short('h') => args.mode = RunMode::Help,
                other => return Err(other.unexpected().to_string()),
            }
        }
        args.check_consistent()
    }

    /// The policy of a service that has no policy file.
    pub fn command_line_policy(&self) -> Policy {
        let mut policy = Policy::embedded(&self.roots);
        if self.no_protect {
            policy.protect.read_only_globs.clear();
        }
        policy.protect.read_only_globs.extend(self.protect.iter().cloned());
        policy.protect.except_globs.extend(self.unprotect.iter().cloned());
        policy.deny.non_accessible_globs.extend(self.deny.iter().cloned());
        policy.roots.iter_mut().for_each(|root| root.symlinks = self.symlinks.unwrap_or(root.symlinks));
        policy.trash.default |= self.trash;
        policy
    }

    fn check_consistent(self) -> Result<Self, String> {
        if matches!(self.mode, RunMode::Help | RunMode::Version) {
            return Ok(self);
        }
        if self.policy.is_some() && !self.roots.is_empty() {
            return Err("--policy and --root exclude each other; name the roots in the policy".into());
        }
        let has_globs = [&self.protect, &self.unprotect, &self.deny].iter().any(|globs| !globs.is_empty());
        let has_rules = has_globs || self.no_protect || self.symlinks.is_some() || self.trash;
        if has_rules && self.roots.is_empty() {
            return Err("--protect, --unprotect, --no-protect, --deny, --symlinks and --trash go with --root; a policy has keys \
                        for them"
                .into());
        }
        self.command_line_policy()
            .globs()
            .map_err(|error| error.replace("protect:", "--protect, --unprotect:").replace("deny:", "--deny:"))?;
        if self.policy.is_none() && self.roots.is_empty() && self.mode != RunMode::Check {
            return Err("no root: give --root DIR or --policy FILE".into());
        }
        if self.audit.is_some() && (self.mode != RunMode::Inetd || self.policy.is_some()) {
            return Err("--audit goes together with --inetd and --root; a policy names its own audit".into());
        }
        if self.mode != RunMode::Daemon && self.socket.is_some() {
            return Err("--socket has no meaning together with --inetd or --check".into());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<SupervisorArgs, String> {
        SupervisorArgs::parse(std::iter::once("stockaded").chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn a_root_or_a_policy_is_needed() {
        assert!(parse(&[]).expect_err("refused").contains("--root"));
        assert!(parse(&["--root", "."]).is_ok());
        assert!(parse(&["--policy", "p.toml"]).is_ok());
        assert!(parse(&["--policy", "p.toml", "--root", "."]).is_err());
    }

    #[test]
    fn protection_goes_with_roots_and_its_globs_are_checked() {
        let protects = |arguments: &[&str]| parse(arguments).expect("accepted").command_line_policy().protect;
        let all = protects(&["--root", "."]);
        assert!(all.read_only_globs.len() > 10 && all.except_globs.is_empty());
        let more = protects(&["--protect", "a/**", "--root", ".", "--unprotect", "**/.git"]);
        assert_eq!(more.read_only_globs.len(), all.read_only_globs.len() + 1);
        assert_eq!(more.except_globs, ["**/.git"]);
        let only = protects(&["--root", ".", "--no-protect", "--protect", "b"]);
        assert_eq!(only.read_only_globs, ["b"]);
        for wrong in [
            &["--policy", "p.toml", "--no-protect"][..],
            &["--policy", "p.toml", "--protect", "a"],
            &["--check", "--unprotect", "a"],
        ] {
            assert!(parse(wrong).expect_err("refused").contains("go with --root"), "{wrong:?}");
        }
        for wrong in ["[a", "/a", "a/"] {
            let error = parse(&["--root", ".", "--protect", wrong]).expect_err("refused");
            assert!(error.starts_with("--protect") && error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn rules_go_with_roots_and_become_those_of_the_policy() {
        let policy = |arguments: &[&str]| parse(arguments).expect("accepted").command_line_policy();
        let plain = policy(&["--root", "a", "--root", "b"]);
        assert!(!plain.trash.default && plain.roots.iter().all(|root| root.symlinks == Symlinks::Refuse));
        let more = policy(&["--root", "a", "--deny", "**/x", "--symlinks", "beneath", "--trash", "--root", "b"]);
        assert!(more.trash.default && more.roots.iter().all(|root| root.symlinks == Symlinks::Beneath));
        assert_eq!(more.deny.non_accessible_globs.last().map(String::as_str), Some("**/x"));
        assert_eq!(more.deny.non_accessible_globs.len(), plain.deny.non_accessible_globs.len() + 1);
        for rule in [&["--deny", "x"][..], &["--symlinks", "beneath"], &["--trash"]] {
            let error = parse(&[&["--policy", "p.toml"], rule].concat()).expect_err("refused");
            assert!(error.contains("go with --root"), "{error}");
        }
        assert!(
            parse(&["--root", ".", "--symlinks", "follow"]).expect_err("refused").contains("allowed: refuse, beneath")
        );
        assert!(parse(&["--root", ".", "--deny", "[a"]).expect_err("refused").starts_with("--deny: [a"));
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(parse(&["--root", ".", "--sokcet", "x"]).is_err());
    }
}
