//! Many files in one call: each succeeds or fails alone, all share one budget, in request order.

use serde_json::Value;

use super::{
    base_dir,
    plan::{Options, Plan, Shape},
    read_part,
    view::Room,
};
use crate::{
    broker::{Intent, Question, Refusal},
    jail::{BATCH, Call, Entry, Jail, Located, Together},
    ops::names::{named, shown, shown_path},
    path::RawPath,
    wire::{
        Code, Error, Result,
        decode::decode,
        types::read_file::{FileView, ReadEntry, ReadFileRequest, ReadFileResponse, ReadResult},
    },
};

/// The first message's worth: holding more parents than one step uses would only cost descriptors.
pub(super) fn questions(jail: &Jail, paths: &[Value], base_dir: Option<&RawPath>) -> Vec<Question> {
    let mut together = Together::default();
    paths
        .iter()
        .take(BATCH)
        .filter_map(|value| jail.locate(&sent(value)?, base_dir).ok())
        .map(|located| located.question(Intent::Read))
        .take_while(|question| together.admit(jail, question))
        .collect()
}

pub(super) fn run(jail: &Jail, call: &mut Call, mut request: ReadFileRequest) -> Result<ReadFileResponse> {
    let paths = request.paths.take().unwrap_or_default();
    let most = call.limits.max_batch_entries as usize;
    if paths.len() > most {
        let text = format!("paths: {} entries, at most {most} in one call; split the batch", paths.len());
        return Err(Error::new(Code::C213, text));
    }
    warn_of_ignored(call, &request);
    let base_dir = base_dir(&request);
    let mut budget = Budget { total: call.limits.batch_read_budget_bytes, returned: 0 };
    let mut results = Vec::with_capacity(paths.len());
    let mut together = Together::default();
    let mut chunk = Vec::new();
    for (index, value) in paths.into_iter().enumerate() {
        let wanted = Wanted::of(jail, call, value, index, base_dir.as_ref());
        if !wanted.joins(jail, &mut together) {
            read_together(jail, call, std::mem::take(&mut chunk), &mut budget, &mut results)?;
            together = Together::default();
            wanted.joins(jail, &mut together);
        }
        chunk.push(wanted);
    }
    read_together(jail, call, chunk, &mut budget, &mut results)?;
    Ok(ReadFileResponse { results: Some(results), ..ReadFileResponse::default() })
}

/// Options beside `paths` apply to no entry; who sets them should learn that.
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

struct Budget {
    total: u64,
    returned: u64,
}

/// One entry, as far as it can be understood without the disk.
struct Wanted {
    /// The path as sent, for a failed result.
    sent: Option<RawPath>,
    plan: Result<(Plan, Located)>,
}

impl Wanted {
    fn of(jail: &Jail, call: &mut Call, value: Value, index: usize, base_dir: Option<&RawPath>) -> Self {
        let sent = sent(&value);
        let plan = decode_entry(call, value, index).and_then(|entry| {
            let name = named(entry.path.as_deref(), entry.path_bytes.as_deref())?.ok_or_else(|| {
                Error::bad_input(format!(
                    "paths[{index}].path: missing; expected a path, for example \"src/main.rs\" or {{\"path\": \"src/main.rs\"}}"
                ))
            })?;
            let plan = Options::from(&entry).plan()?;
            Ok((plan, jail.locate(&name, base_dir)?))
        });
        Self { sent, plan }
    }

    /// One that asks nothing joins any message.
    fn joins(&self, jail: &Jail, together: &mut Together) -> bool {
        match &self.plan {
            Ok((_, name)) => together.admit(jail, &name.question(Intent::Read)),
            Err(_) => true,
        }
    }
}

fn decode_entry(call: &mut Call, value: Value, index: usize) -> Result<ReadEntry> {
    match value {
        Value::String(path) => Ok(ReadEntry { path: Some(path), ..ReadEntry::default() }),
        Value::Object(_) => decode(value, &format!("paths[{index}]"), &mut call.warnings),
        _ => Err(Error::bad_input(format!(
            "paths[{index}]: expected a string or an object, for example \"src/main.rs\" or {{\"path\": \"src/main.rs\", \"line_from\": 1, \"line_to\": 40}}"
        ))),
    }
}

/// The name in an entry that may be malformed otherwise.
fn sent(value: &Value) -> Option<RawPath> {
    let text = |field| value.get(field).and_then(Value::as_str);
    match value {
        Value::String(path) => Some(RawPath::text(path.as_str())),
        _ => {
            named(text("path"), text("path_bytes")).ok().flatten().or_else(|| text("path").map(RawPath::text))
        }
    }
}

/// Entries that are asked about together, then opened and read one after the other.
fn read_together(
    jail: &Jail,
    call: &mut Call,
    wanted: Vec<Wanted>,
    budget: &mut Budget,
    results: &mut Vec<ReadResult>,
) -> Result<()> {
    let names: Vec<Located> =
        wanted.iter().filter_map(|wanted| wanted.plan.as_ref().ok()).map(|(_, name)| name.clone()).collect();
    let mut answers = jail.ask(call, &names, Intent::Read).into_iter();
    for Wanted { sent, plan } in wanted {
        call.checkpoint()?;
        let read = plan.and_then(|(plan, name)| {
            let answer = answers.next().unwrap_or(Err(Refusal::Busy));
            let entry = jail.open_answered(call, &name, Intent::Read, answer)?;
            Ok((name, read_entry(jail, call, entry, &plan, budget)?))
        });
        results.push(match read {
            Ok((name, view)) => {
                let (path, path_bytes) = shown_path(jail, &name.path);
                ReadResult { path, path_bytes, success: true, file: Some(view), error: None }
            }
            // The time of the call is up, not this entry's fault.
            Err(error) if error.code == Code::C220 => return Err(error),
            Err(error) => {
                let (path, path_bytes) = sent.map_or_else(Default::default, |sent| shown(sent.as_bytes()));
                ReadResult { path, path_bytes, success: false, file: None, error: Some(error) }
            }
        });
    }
    Ok(())
}

fn read_entry(
    jail: &Jail,
    call: &mut Call,
    entry: Entry,
    plan: &Plan,
    budget: &mut Budget,
) -> Result<FileView> {
    // Kind before budget, so that a used-up budget tells nothing new about a name.
    entry.check_content(jail)?;
    let remaining = budget.total - budget.returned;
    if remaining == 0 && plan.shape != Shape::Stat {
        let text = format!(
            "{}: nothing left of this batch: batch_read_budget_bytes is {} and it has returned {} bytes; read this file \
             in a call of its own, give entries line_from/line_to, or probe with stat: true",
            entry.name().sent,
            budget.total,
            budget.returned
        );
        return Err(Error::new(Code::C213, text));
    }
    let file = entry.open_content(jail, call)?;
    let view = read_part(&file, call, plan, Room::batch(&call.limits, remaining))?;
    budget.returned += view.content.as_ref().map_or(0, |content| content.len() as u64);
    Ok(view)
}
