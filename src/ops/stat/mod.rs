//! `coder::stat`: metadata of names. A file is opened for its content only if the request asks for lines or versions.

use super::{Handler, batch, batch::PathEntry, folder::wire_kind, names::encode_name, survey::survey, versions};
use crate::{
    broker::{Intent, Question},
    jail::{BATCH_QUESTIONS, Call, Jail, JailEntry, JailFile},
    path::RawPath,
    sys::fs::FileKind,
    wire::{
        Result,
        function::Cost,
        types::stat::{Stat, StatEntry, StatRequest, StatResponse, StatResult, StatView},
    },
};

impl PathEntry for StatEntry {
    const EXAMPLE: &'static str = "{\"path\": \"src/main.rs\"}";
    const INTENT: Intent = Intent::Look;

    fn from_path(path: String) -> Self {
        Self { path: Some(path), path_bytes: None }
    }

    fn path_fields(&self) -> (Option<&str>, Option<&str>) {
        (self.path.as_deref(), self.path_bytes.as_deref())
    }
}

impl Handler for Stat {
    fn questions(jail: &Jail, request: &StatRequest) -> Vec<Question> {
        batch::questions::<StatEntry>(jail, &request.paths, base_dir(request).as_ref())
    }

    fn cost(request: &StatRequest) -> Cost {
        match content_options(request) {
            ContentOptions { etag: false, lines: false } if request.paths.len() <= BATCH_QUESTIONS => Cost::Short,
            _ => Cost::Long,
        }
    }

    fn run(jail: &Jail, call: &mut Call, request: StatRequest) -> Result<StatResponse> {
        batch::check_entry_count(call, &request.paths)?;
        let (base_dir, options) = (base_dir(&request), content_options(&request));
        let done = batch::run(
            jail,
            call,
            request.paths,
            base_dir.as_ref(),
            |_: &StatEntry| Ok(()),
            |call, entry, (), _| stat_view(jail, call, entry, options),
        )?;
        let results = done.into_iter().map(|done| {
            let (view, error) = done.outcome.map_or_else(|error| (None, Some(error)), |view| (Some(view), None));
            let success = error.is_none();
            StatResult { path: done.path, path_bytes: done.path_bytes, success, view, error }
        });
        Ok(StatResponse { results: results.collect() })
    }
}

fn base_dir(request: &StatRequest) -> Option<RawPath> {
    request.base_dir.as_deref().map(RawPath::text)
}

/// The fields that need the content.
#[derive(Debug, Clone, Copy)]
struct ContentOptions {
    etag: bool,
    lines: bool,
}

fn content_options(request: &StatRequest) -> ContentOptions {
    ContentOptions { etag: request.etag == Some(true), lines: request.lines == Some(true) }
}

fn stat_view(jail: &Jail, call: &Call, entry: JailEntry, options: ContentOptions) -> Result<StatView> {
    let link = (entry.kind() == FileKind::Symlink).then(|| entry.link_target()).transpose()?;
    let (link_target, link_target_bytes) = link.as_deref().map(encode_name).unzip();
    let has_content = entry.kind() == FileKind::File && (options.etag || options.lines);
    // If the content is read, the reply is about the file that was opened, not about the one that was stat-ed before.
    let (stat, file) = if has_content {
        let file = entry.open_content(jail, call)?;
        (*file.stat(), Some(file))
    } else {
        (*entry.stat(), None)
    };
    let mut view = StatView {
        kind: wire_kind(stat.kind),
        size: stat.size_bytes,
        mode: stat.mode,
        mtime: stat.mtime,
        mtime_ns: stat.mtime_ns,
        nlink: stat.nlink,
        link_target,
        link_target_bytes: link_target_bytes.flatten(),
        total_lines: None,
        is_utf8: None,
        etag: None,
    };
    if let Some(file) = file {
        add_content(&mut view, &file, call, options)?;
    }
    Ok(view)
}

fn add_content(view: &mut StatView, file: &JailFile, call: &Call, options: ContentOptions) -> Result<()> {
    if !options.lines {
        view.etag = Some(versions::read_etag(call, file)?);
        return Ok(());
    }
    let surveyed = survey(file, call)?;
    view.etag = options.etag.then_some(surveyed.etag);
    (view.total_lines, view.is_utf8) = (Some(surveyed.totals.lines), Some(surveyed.totals.is_utf8));
    Ok(())
}

#[cfg(test)]
mod tests;
