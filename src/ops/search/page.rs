//! Builds the reply: as many hits as a page holds, in order, and where the next page begins. Pure.

use super::{
    collect::{FileHits, FileKey, ModifiedAt, SearchCollector, match_cost},
    plan::{ResumePoint, SearchPlan, SearchResultKind},
};
use crate::{
    ops::names::encode_name,
    text::{
        order,
        search::{MatchedLines, ScanCut, ScanOutcome},
    },
    wire::types::search::{
        ContentMatch, FileMatch, PathMatch, SearchResponse, SearchSort, SearchTruncated as Truncated, Skipped,
    },
};

/// `reached`: the deadline has passed, and from this path on the hits are incomplete.
pub(super) fn respond(
    plan: &SearchPlan,
    collector: &SearchCollector,
    reached: Option<&[u8]>,
    missing_paths: Vec<String>,
) -> SearchResponse {
    let (files, skipped) = collector.take();
    let mut page = SearchPage::new(plan, skipped, missing_paths);
    let mut end = None;
    // By time, a file that was not reached may stand anywhere: all that was found is shown, and there is nowhere to go on.
    let reached_path = reached.filter(|_| plan.sort == SearchSort::Path);
    for (key, hits) in files {
        if reached_path.is_some_and(|reached| order::by_component(&key.path, reached).is_ge()) {
            break;
        }
        if let Err(stopped) = page.add(&key, hits) {
            end = Some(stopped);
            break;
        }
    }
    let mut response = page.response;
    if let (None, Some(reached)) = (&end, reached) {
        response.truncated = true;
        response.truncated_reason = Some(Truncated::Deadline);
        if plan.sort == SearchSort::Mtime {
            return response;
        }
        let key = FileKey { changed: ModifiedAt::default(), path: reached.to_vec() };
        // The place may be the very file that a reply before ended in.
        let from = plan.resume_point_in(reached).cloned();
        end = Some((Truncated::Deadline, from.unwrap_or(ResumePoint { key, in_content: false, after_offset: None })));
    }
    if let Some((reason, from)) = end {
        response.truncated = true;
        response.truncated_reason = Some(reason);
        response.next_cursor = Some(plan.write_cursor(&from));
    }
    response
}

struct SearchPage<'a> {
    plan: &'a SearchPlan,
    response: SearchResponse,
    left_bytes: u64,
}

type PageEnd = (Truncated, ResumePoint);

impl<'a> SearchPage<'a> {
    fn new(plan: &'a SearchPlan, skipped: Skipped, missing_paths: Vec<String>) -> Self {
        let is_list = plan.result_kind != SearchResultKind::Matches;
        let response = SearchResponse {
            content_matches: Vec::new(),
            path_matches: Vec::new(),
            truncated: false,
            truncated_reason: None,
            next_cursor: None,
            skipped,
            files: is_list.then(Vec::new),
            total: (plan.result_kind == SearchResultKind::Counts).then_some(0),
            pattern_used: plan.pattern.repaired().map(Into::into),
            pattern_repaired: plan.pattern.repaired().is_some(),
            missing_paths,
            hint: None,
        };
        Self { plan, response, left_bytes: plan.budget_bytes }
    }

    /// The error says where the page ended.
    fn add(&mut self, key: &FileKey, hits: FileHits) -> Result<(), PageEnd> {
        let path = &key.path;
        let (text, bytes) = encode_name(path);
        let at = |in_content, after_offset| ResumePoint { key: key.clone(), in_content, after_offset };
        if let Some(files) = &mut self.response.files {
            let is_full = files.len() as u64 >= self.plan.max_matches;
            take_bytes(is_full, &mut self.left_bytes, path.len() as u64).map_err(|why| (why, at(false, None)))?;
            let count = (self.plan.result_kind == SearchResultKind::Counts).then_some(hits.content.count);
            files.push(FileMatch { path: text, path_bytes: bytes, count });
            self.response.total = self.response.total.map(|total| total + hits.content.count);
            return Ok(());
        }
        if hits.has_path {
            let is_full = self.response.path_matches.len() as u64 >= self.plan.max_matches;
            take_bytes(is_full, &mut self.left_bytes, path.len() as u64).map_err(|why| (why, at(false, None)))?;
            self.response.path_matches.push(PathMatch { path: text.clone(), path_bytes: bytes.clone() });
        }
        let within = self.plan.resume_point_in(path);
        let mut last = within.and_then(|from| from.after_offset);
        let ScanOutcome { found, cut, .. } = hits.content;
        let count = found.len();
        let mut etag = hits.etag;
        for (index, found) in found.into_iter().enumerate() {
            let is_full = self.response.content_matches.len() as u64 >= self.plan.max_matches;
            let offset = found.offset;
            let in_content = hits.has_path || index > 0 || within.is_some_and(|from| from.in_content);
            take_bytes(is_full, &mut self.left_bytes, match_cost(path, &found))
                .map_err(|why| (why, at(in_content, last)))?;
            let more_in_file = cut == Some(ScanCut::PerFile) && index + 1 == count;
            self.response.content_matches.push(ContentMatch {
                etag: etag.take(),
                ..content_match(text.clone(), bytes.clone(), found, more_in_file)
            });
            last = Some(offset);
        }
        Ok(())
    }
}

fn take_bytes(is_full: bool, left_bytes: &mut u64, cost: u64) -> Result<(), Truncated> {
    if is_full {
        return Err(Truncated::MaxMatches);
    }
    *left_bytes = left_bytes.checked_sub(cost).ok_or(Truncated::Budget)?;
    Ok(())
}

fn content_match(path: String, path_bytes: Option<String>, found: MatchedLines, more_in_file: bool) -> ContentMatch {
    let MatchedLines { line, last_line, column, shown, before, after, .. } = found;
    ContentMatch {
        path,
        path_bytes,
        line,
        last_line: (last_line > line).then_some(last_line),
        column,
        text: shown.text,
        text_truncated: shown.offset.is_some(),
        text_offset: shown.offset,
        spans: shown.spans,
        before,
        after,
        more_in_file,
        etag: None,
    }
}
