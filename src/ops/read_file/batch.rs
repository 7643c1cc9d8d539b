//! Many files in one call: all share one budget, in request order.

use super::{
    base_dir, part,
    plan::{ReadOptions, ReadPlan, ReadShape},
    view::{ReadBudget, add_line_end},
};
use crate::{
    broker::Intent,
    jail::{Call, Jail, JailEntry},
    ops::batch::{self, PathEntry},
    wire::{
        Code, Error, Result,
        types::read_file::{FileView, ReadEntry, ReadFileRequest, ReadFileResponse, ReadResult},
    },
};

impl PathEntry for ReadEntry {
    const EXAMPLE: &'static str = "{\"path\": \"src/main.rs\", \"line_from\": 1, \"line_to\": 40}";
    const INTENT: Intent = Intent::Read;

    fn from_path(path: String) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    fn path_fields(&self) -> (Option<&str>, Option<&str>) {
        (self.path.as_deref(), self.path_bytes.as_deref())
    }
}

pub(super) fn run(jail: &Jail, call: &mut Call, mut request: ReadFileRequest) -> Result<ReadFileResponse> {
    let paths = request.paths.take().unwrap_or_default();
    batch::check_entry_count(call, &paths)?;
    warn_of_ignored(call, &request);
    let base_dir = base_dir(&request);
    let total = call.limits.batch_read_budget_bytes;
    let shared = request.budget_bytes.filter(|bytes| *bytes < total);
    let mut budget = BatchBudget { total: shared.unwrap_or(total), is_shared: shared.is_some(), returned: 0 };
    let done = batch::run(
        jail,
        call,
        paths,
        base_dir.as_ref(),
        |entry: &ReadEntry| ReadOptions::from(entry).plan(),
        |call, entry, plan, left| read_entry(jail, call, entry, &plan, &mut budget, left as u64),
    )?;
    let results = done.into_iter().map(|done| {
        let (file, error) = done.outcome.map_or_else(|error| (None, Some(error)), |view| (Some(view), None));
        ReadResult { path: done.path, path_bytes: done.path_bytes, success: error.is_none(), file, error }
    });
    Ok(ReadFileResponse { results: Some(results.collect()), ..ReadFileResponse::default() })
}

/// Warns that options beside `paths` apply to no entry.
fn warn_of_ignored(call: &mut Call, request: &ReadFileRequest) {
    let fields = [
        ("line_from", request.line_from.is_some()),
        ("line_to", request.line_to.is_some()),
        ("tail", request.tail.is_some()),
        ("byte_from", request.byte_from.is_some()),
        ("byte_to", request.byte_to.is_some()),
        ("stat", request.stat == Some(true)),
        ("numbered", request.numbered == Some(true)),
        ("format", request.format.is_some()),
        ("encoding", request.encoding.is_some()),
        ("truncate", request.truncate == Some(true)),
        ("count_lines", request.count_lines == Some(true)),
        ("etag", request.etag == Some(true)),
        ("max_output_bytes", request.max_output_bytes.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        call.warnings.push(format!("{field}: ignored beside paths; give it to the entries of paths"));
    }
}

struct BatchBudget {
    total: u64,
    /// Every file gets a part, so that the first ones do not take all.
    is_shared: bool,
    returned: u64,
}

fn read_entry(
    jail: &Jail,
    call: &mut Call,
    entry: JailEntry,
    plan: &ReadPlan,
    budget: &mut BatchBudget,
    entries_left: u64,
) -> Result<FileView> {
    // The kind is checked before the budget, so that a name gets the same error whether or not the budget is used up.
    entry.check_content(jail, call)?;
    let remaining = budget.total - budget.returned;
    if remaining == 0 && plan.shape != ReadShape::Stat {
        let text = format!(
            "{}: nothing left of this batch: batch_read_budget_bytes is {} and it has returned {} bytes; read this file \
             in a call of its own, give entries line_from/line_to, or probe with stat: true",
            entry.name().sent,
            budget.total,
            budget.returned
        );
        return Err(Error::new(Code::TooLarge, text));
    }
    let file = entry.open_content(jail, call)?;
    let part = if budget.is_shared { remaining / entries_left } else { remaining };
    let mut view =
        part::read(&file, call, plan, ReadBudget::for_batch(&call.limits, part, budget.total, budget.is_shared))?;
    add_line_end(&mut view, &file, call)?;
    budget.returned += view.content.as_ref().map_or(0, |content| content.len() as u64);
    Ok(view)
}
