//! `coder::read-file`. One file (`path`) fails or succeeds as a call; a batch (`paths`) entry by entry.
//!
//! `plan` checks what was asked; `full` reads a whole file in a call of its own, `part` every other shape of content, and `batch`
//! many files.

mod batch;
mod full;
mod part;
mod plan;
mod tail;
mod utf16_bytes;
mod version;
mod view;

use super::{
    Handler, batch as entries,
    names::{decode_path, encode_path},
};
use crate::{
    broker::{Intent, Question},
    jail::{BATCH_QUESTIONS, Call, Jail},
    path::RawPath,
    wire::{
        Error, Result,
        function::Cost,
        types::read_file::{ReadEntry, ReadFile, ReadFileRequest, ReadFileResponse},
    },
};
use plan::{ReadOptions, ReadShape};
use view::ReadBudget;

/// A window that begins beyond this line has to read megabytes before it.
const FAR_LINE: u64 = 100_000;

impl Handler for ReadFile {
    fn questions(jail: &Jail, request: &ReadFileRequest) -> Vec<Question> {
        let base_dir = base_dir(request);
        if let Some(paths) = &request.paths {
            return entries::questions::<ReadEntry>(jail, paths, base_dir.as_ref());
        }
        let name = decode_path(request.path.as_deref(), request.path_bytes.as_deref()).ok().flatten();
        let located = name.and_then(|name| jail.locate_early(&name, base_dir.as_ref()));
        located.iter().map(|located| located.question(Intent::Read)).collect()
    }

    /// A call is long if it may have to read whole files, however large they are.
    fn cost(request: &ReadFileRequest) -> Cost {
        let whole = request.etag == Some(true) || request.count_lines == Some(true);
        let far = request.line_from.is_some_and(|line| line > FAR_LINE);
        let many = request
            .paths
            .as_ref()
            .is_some_and(|paths| paths.len() > BATCH_QUESTIONS || paths.iter().any(serde_json::Value::is_object));
        if whole || far || many { Cost::Long } else { Cost::Short }
    }

    fn run(jail: &Jail, call: &mut Call, request: ReadFileRequest) -> Result<ReadFileResponse> {
        match (decode_path(request.path.as_deref(), request.path_bytes.as_deref())?, &request.paths) {
            (Some(_), Some(_)) => Err(Error::bad_input("give path (one file) or paths (many), not both")),
            (None, None) => Err(Error::bad_input(
                "path is missing: give path (one file) or paths (many), for example {\"path\": \"src/main.rs\"}",
            )),
            (Some(name), None) => read_single(jail, call, &request, &name),
            (None, Some(_)) => batch::run(jail, call, request),
        }
    }
}

fn base_dir(request: &ReadFileRequest) -> Option<RawPath> {
    request.base_dir.as_deref().map(RawPath::text)
}

fn read_single(jail: &Jail, call: &mut Call, request: &ReadFileRequest, name: &RawPath) -> Result<ReadFileResponse> {
    let plan = ReadOptions::from(request).plan()?;
    let located = jail.locate(call, name, base_dir(request).as_ref())?;
    let file = jail.open(call, &located, Intent::Read)?.open_content(jail, call)?;
    let mut view = match plan.shape {
        ReadShape::Full => full::read(&file, call, &plan)?,
        _ => part::read(&file, call, &plan, ReadBudget::for_single(&call.limits, plan.budget_bytes))?,
    };
    view::add_line_end(&mut view, &file, call)?;
    let (path, path_bytes) = encode_path(jail, &located.path);
    Ok(ReadFileResponse { path: Some(path), path_bytes, file: Some(view), results: None })
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod special_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod utf16_tests;
#[cfg(test)]
mod version_tests;
#[cfg(test)]
mod window_tests;
