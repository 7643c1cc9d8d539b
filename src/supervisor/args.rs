//! The command line of `stockaded`.

use std::{ffi::OsString, path::PathBuf};

use crate::policy::RootArg;

pub const HELP: &str = "\
stockaded: serves files below allowed directories, and nothing else

usage: stockaded [--policy FILE] [--root DIR[:ro|:rw]]... [--socket PATH]

  --policy FILE        what is allowed, to whom; see policy/default.toml
  --root DIR[:ro|:rw]  allow DIR without a policy file (read-write unless :ro); the first is primary
  --socket PATH        where to listen; default $XDG_RUNTIME_DIR/stockade.sock, as root /run/stockade/stockade.sock;
                       not together with a socket that systemd hands over
  --inetd              serve the one connection given as standard input, then exit
  --audit FILE|off     with --inetd and --root: where the audit goes, or that there is none; default
                       $XDG_STATE_HOME/stockade/audit.jsonl, else ~/.local/state/stockade/audit.jsonl
  --check              show what this kernel enforces: try to escape from a confined worker, print a JSON report
  --version, --help

signals: HUP reads the policy again and reopens the audit; TERM and INT let running calls finish

exit status: 0 done, 1 failed, 2 wrong usage or policy, 4 the jail cannot be enforced here
";

#[derive(Debug, Default)]
pub struct Args {
    pub policy: Option<PathBuf>,
    pub roots: Vec<RootArg>,
    pub socket: Option<PathBuf>,
    /// As given: a file, or `off`.
    pub audit: Option<OsString>,
    pub mode: Mode,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Daemon,
    Inetd,
    Check,
    Help,
    Version,
}

impl Args {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        use lexopt::prelude::*;
        let mut args = Self::default();
        let mut parser = lexopt::Parser::from_iter(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Long("policy") => {
                    args.policy = Some(parser.value().map_err(|error| error.to_string())?.into())
                }
                Long("root") => {
                    args.roots.push(
                        RootArg::parse(&parser.value().map_err(|error| error.to_string())?)
                            .map_err(|error| error.to_string())?,
                    );
                }
                Long("socket") => {
                    args.socket = Some(parser.value().map_err(|error| error.to_string())?.into())
                }
                Long("audit") => args.audit = Some(parser.value().map_err(|error| error.to_string())?),
                Long("inetd") => args.mode = Mode::Inetd,
                Long("check") => args.mode = Mode::Check,
                Long("version") | Short('V') => args.mode = Mode::Version,
                Long("help") | Short('h') => args.mode = Mode::Help,
                other => return Err(other.unexpected().to_string()),
            }
        }
        args.consistent()
    }

    fn consistent(self) -> Result<Self, String> {
        if matches!(self.mode, Mode::Help | Mode::Version) {
            return Ok(self);
        }
        if self.policy.is_some() && !self.roots.is_empty() {
            return Err("--policy and --root exclude each other; name the roots in the policy".into());
        }
        if self.policy.is_none() && self.roots.is_empty() && self.mode != Mode::Check {
            return Err("no root: give --root DIR or --policy FILE".into());
        }
        if self.audit.is_some() && (self.mode != Mode::Inetd || self.policy.is_some()) {
            return Err("--audit goes together with --inetd and --root; a policy names its own audit".into());
        }
        if self.mode != Mode::Daemon && self.socket.is_some() {
            return Err("--socket has no meaning together with --inetd or --check".into());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, String> {
        Args::parse(std::iter::once("stockaded").chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn a_root_or_a_policy_is_needed() {
        assert!(parse(&[]).expect_err("refused").contains("--root"));
        assert!(parse(&["--root", "."]).is_ok());
        assert!(parse(&["--policy", "p.toml"]).is_ok());
        assert!(parse(&["--policy", "p.toml", "--root", "."]).is_err());
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(parse(&["--root", ".", "--sokcet", "x"]).is_err());
    }
}
