//! `coder::create-file`.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    Handler,
    changes::{self, Plan, Turn, required},
    modes, versions,
};
use crate::{
    broker::{Intent, Question},
    jail::{Call, Claim, Commit, Jail, Like},
    path::{RawPath, Symlinks},
    sys::fs::Kind,
    wire::{
        Code, Error, Result,
        types::{
            create_file::{CreateEntry, CreateFile, CreateFileRequest, CreateFileResponse, CreateResult},
            read_file::Encoding,
        },
    },
};

const MODE: u32 = 0o644;

/// What an entry wants, checked as far as its text goes.
struct Wanted {
    content: Vec<u8>,
    mode: Option<u32>,
    parents: bool,
    overwrite: bool,
}

struct Created {
    bytes: u64,
    etag: String,
    owner_changed: bool,
}

impl Handler for CreateFile {
    fn questions(_: &Jail, _: &CreateFileRequest) -> Vec<Question> {
        Vec::new()
    }

    fn run(jail: &Jail, call: &mut Call, request: CreateFileRequest) -> Result<CreateFileResponse> {
        changes::check_len(call, "files", request.files.len())?;
        let base_dir = request.base_dir.as_deref().map(RawPath::text);
        let plan = |call: &mut Call, entry: CreateEntry| plan(jail, call, base_dir.as_ref(), entry);
        let names = [("path", "path_bytes")];
        let wishes = changes::wishes(call, "files", request.files, None, &names, plan);
        let done = changes::run(jail, call, "files", request.atomic, wishes, |call, turn, commit| {
            create(jail, call, turn, commit)
        });
        let results = done.into_iter().map(|mut done| {
            let (path, path_bytes) = done.name(0);
            let (created, error) = done.outcome.map_or_else(|e| (None, Some(e)), |done| (Some(done), None));
            CreateResult {
                path,
                path_bytes,
                success: error.is_none(),
                bytes_written: created.as_ref().map_or(0, |created| created.bytes),
                owner_changed: created.as_ref().is_some_and(|created| created.owner_changed),
                etag: created.map(|created| created.etag),
                error,
            }
        });
        Ok(CreateFileResponse { results: results.collect() })
    }
}

fn plan(jail: &Jail, call: &Call, base_dir: Option<&RawPath>, entry: CreateEntry) -> Result<Plan<Wanted>> {
    let name = required("path", entry.path.as_deref(), entry.path_bytes.as_deref())?;
    let mode = entry.mode.as_deref().map(|text| modes::parse("mode", text)).transpose()?;
    let overwrite = entry.overwrite.unwrap_or(false);
    match (entry.if_none_match.as_deref(), &entry.if_match) {
        (None, _) => {}
        (Some("*"), None) if !overwrite => {}
        (Some("*"), _) => {
            return Err(Error::bad_input(
                "if_none_match: \"*\" means that nothing is there; not together with overwrite or if_match",
            ));
        }
        (Some(_), _) => return Err(Error::bad_input("if_none_match: only \"*\" is possible")),
    }
    let content = match entry.encoding.unwrap_or_default() {
        Encoding::Utf8 => entry.content.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&entry.content).map_err(|_| {
            Error::bad_input(
                "content: not base64; expected standard base64 with padding, for example \"YWJj\"",
            )
        })?,
    };
    let located = jail.locate(call, &name, base_dir)?;
    let wanted = Wanted { content, mode, parents: entry.parents.unwrap_or(true), overwrite };
    Ok(Plan { what: wanted, names: vec![(located, Intent::Create)], if_match: entry.if_match })
}

fn create(jail: &Jail, call: &mut Call, turn: &mut Turn<Wanted>, commit: &mut Commit<'_>) -> Result<Created> {
    let claim = turn.claim(jail, call, 0)?;
    check_size(call, &claim.name().sent, turn.what.content.len())?;
    let claim = match claim.kind() {
        Some(Kind::Symlink) => follow(jail, call, claim, turn.what.overwrite)?,
        _ => claim,
    };
    versions::check(jail, call, &claim, turn.if_match())?;
    let wanted = &turn.what;
    let staged = match claim.stat() {
        None => {
            claim.check_parents(wanted.parents)?;
            let like = Like { mode: wanted.mode.unwrap_or(MODE), old: None };
            let staged = claim.stage(jail, call, like, &wanted.content)?;
            commit.place(jail, call, &claim, staged).map_err(|error| match error.code {
                // It was free a moment ago; another look would find what to replace.
                Code::C217 if wanted.overwrite => Error::busy(&claim.name().sent),
                _ => error,
            })?;
            None
        }
        Some(_) if !wanted.overwrite => return Err(exists(&claim.name().sent)),
        Some(stat) if stat.kind == Kind::Dir => {
            return Err(Error::io(&claim.name().sent, "is a folder, which no file replaces"));
        }
        Some(_) => {
            let old = claim.open_content(jail)?;
            let like = Like { mode: wanted.mode.unwrap_or(old.stat().mode), old: Some(&old) };
            let staged = claim.stage(jail, call, like, &wanted.content)?;
            let kept = (staged.owner_changed(), staged.lost_attributes().to_vec());
            commit.replace(jail, call, &claim, staged, old.stat())?;
            Some(kept)
        }
    };
    let (owner_changed, lost) = staged.unwrap_or_default();
    changes::warn_of_lost(call, turn.place, &lost);
    Ok(Created {
        bytes: turn.what.content.len() as u64,
        etag: versions::etag_of_bytes(&turn.what.content),
        owner_changed,
    })
}

/// A link: refused, or where the root follows links, replaced behind it. Behind a dangling one nothing is made.
fn follow(jail: &Jail, call: &mut Call, claim: Claim, overwrite: bool) -> Result<Claim> {
    let name = claim.name().clone();
    if jail.roots().rules(&name.path).symlinks == Symlinks::Refuse {
        return claim.check_content(jail).map(|()| claim);
    }
    if !overwrite {
        return Err(exists(&name.sent));
    }
    // Its lease first: holding one name while waiting for another is how two calls wait for each other.
    drop(claim);
    let behind = jail.claim(call, &name, Intent::Edit)?;
    if behind.stat().is_none() {
        let text = format!("{}: is a link that leads nowhere; name the file itself", name.sent);
        let error = Error::new(Code::C215, text);
        jail.report_escape(call, &name, &error);
        return Err(error);
    }
    Ok(behind)
}

fn check_size(call: &Call, sent: &str, len: usize) -> Result<()> {
    let most = call.limits.max_write_bytes;
    if len as u64 > most {
        return Err(Error::new(Code::C213, format!("{sent}: {len} bytes, max_write_bytes is {most}")));
    }
    Ok(())
}

fn exists(sent: &str) -> Error {
    Error::new(Code::C217, format!("{sent} already exists; pass overwrite=true to replace it"))
}
