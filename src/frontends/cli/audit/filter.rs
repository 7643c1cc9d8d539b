//! Selects acts by the options of the command. Pure, except that it reads the working folder for a relative `--path`.

use globset::GlobSet;

use super::{
    super::{
        args::{AuditFilter, AuditOutcome},
        failure::CliFailure,
    },
    event::CliAuditEvent,
};
use crate::text::globs::{self, StarAtSlash};

#[derive(Debug, Default)]
pub(super) struct AuditEventFilter {
    path: Option<AuditPathFilter>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    outcomes: Vec<AuditOutcome>,
    uid: Option<u64>,
}

#[derive(Debug)]
enum AuditPathFilter {
    Glob(GlobSet),
    /// Absolute, and as typed, because the audit holds paths that could not be resolved as the client sent them.
    Below(Vec<u8>, Vec<u8>),
}

impl AuditEventFilter {
    pub(super) fn new(args: &AuditFilter, now_ms: i64) -> Result<Self, CliFailure> {
        let path =
            args.path.as_deref().map(|path| AuditPathFilter::new(path).map_err(CliFailure::Usage)).transpose()?;
        Ok(Self {
            path,
            since_ms: args.since.map(|when| when.unix_ms(now_ms)),
            until_ms: args.until.map(|when| when.unix_ms(now_ms)),
            outcomes: args.outcome.clone(),
            uid: args.uid.map(u64::from),
        })
    }

    pub(super) fn selects(&self, act: &CliAuditEvent) -> bool {
        self.since_ms.is_none_or(|since| act.time_ms >= since)
            && self.until_ms.is_none_or(|until| act.time_ms <= until)
            && (self.outcomes.is_empty() || self.outcomes.contains(&act.outcome))
            && self.uid.is_none_or(|uid| act.uid == uid)
            && self
                .path
                .as_ref()
                .is_none_or(|wanted| wanted.matches(&act.path) || act.to.as_ref().is_some_and(|to| wanted.matches(to)))
    }
}

impl AuditPathFilter {
    fn new(path: &str) -> Result<Self, String> {
        if path.contains(['*', '?', '[', '{']) {
            let anywhere = if path.starts_with('/') { path.to_owned() } else { format!("**/{path}") };
            let set = globs::compile(&[anywhere, path.to_owned()], StarAtSlash::Stops);
            return set.map(Self::Glob).map_err(|error| format!("--path {error}"));
        }
        let absolute = std::path::absolute(path).map_err(|error| format!("--path {path}: {error}"))?;
        // `.` at the end, which `absolute` leaves.
        let absolute: std::path::PathBuf = absolute.components().collect();
        let typed = path.trim_end_matches('/').as_bytes().to_vec();
        Ok(Self::Below(absolute.into_os_string().into_encoded_bytes(), typed))
    }

    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Glob(set) => globs::matches(set, path),
            Self::Below(absolute, typed) => is_below(path, absolute) || is_below(path, typed),
        }
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
