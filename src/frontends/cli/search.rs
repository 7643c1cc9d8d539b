//! `stockade search`: matches under the names of their files, as ripgrep shows them. Requests page after page until all are
//! shown.

use std::ffi::OsString;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CommandResult, FileSession,
    args::{SearchArgs, SortOrder},
    escape,
    failure::{CliFailure, EXIT_NOTHING_FOUND, unexpected_result},
    find::ignored_remark,
    output::{Output, OutputStyle, Paint},
    paths::PathBase,
    progress,
};

const METHOD: &str = "coder::search";

/// Matches of one call. Most pages end earlier, at the service's budget for a reply.
const PAGE_MATCHES: u32 = 10_000;

#[derive(Debug, Deserialize)]
struct CliSearchPage {
    content_matches: Vec<CliSearchMatch>,
    files: Option<Vec<CliSearchFile>>,
    truncated_reason: Option<String>,
    next_cursor: Option<String>,
    pattern_used: Option<String>,
    #[serde(default)]
    missing_paths: Vec<String>,
    skipped: Option<CliSearchSkipped>,
    hint: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct CliSearchMatch {
    path: String,
    path_bytes: Option<String>,
    line: u64,
    text: String,
    #[serde(default)]
    text_truncated: bool,
    #[serde(default)]
    spans: Vec<(usize, usize)>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    after: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct CliSearchFile {
    path: String,
    path_bytes: Option<String>,
    count: Option<u64>,
}

/// Counts of files that were not searched, as far as a user should know. Binaries and special files are not searched by
/// design.
#[derive(Debug, Default, Deserialize)]
struct CliSearchSkipped {
    #[serde(default)]
    unreadable: u64,
    #[serde(default)]
    too_deep: u64,
    #[serde(default)]
    long_line: u64,
    #[serde(default)]
    too_large: u64,
    #[serde(default)]
    ignored: u64,
}

pub(super) fn run(args: &SearchArgs, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let mut request = request(args, session.path_base())?;
    if out.json {
        return run_json(&mut request, session, out);
    }
    let mut view = MatchPrinter::new(args, session.path_base(), out);
    let mut skipped = CliSearchSkipped::default();
    let (mut is_first, mut is_found) = (true, false);
    loop {
        let page = request_page(&request, session)?;
        if std::mem::take(&mut is_first) {
            check_understood(page.warnings.iter().map(String::as_str))?;
            remark_on_page(&page, out)?;
        }
        skipped.add(page.skipped.as_ref());
        is_found |= !page.content_matches.is_empty() || page.files.as_ref().is_some_and(|files| !files.is_empty());
        if args.quiet && is_found {
            return Ok(0);
        }
        let mut text = Vec::new();
        page.content_matches.iter().for_each(|found| view.push_match(found, &mut text));
        page.files.iter().flatten().for_each(|file| view.push_file(file, &mut text));
        out.write_bytes(&text)?;
        let is_cut = page.next_cursor.is_none() && page.truncated_reason.is_some();
        if !set_cursor(&mut request, page.next_cursor, page.truncated_reason.as_deref())? {
            if is_cut {
                return Err(CliFailure::File(
                    "not everything was searched in time; allow more time with --timeout".into(),
                ));
            }
            break;
        }
        if args.quiet {
            continue;
        }
        // Shows the matches so far to a user who waits for the rest.
        out.flush()?;
    }
    if let Some(text) = skipped.summary() {
        out.write_remark(&text)?;
    }
    if !is_found && let Some(text) = ignored_remark(skipped.ignored) {
        out.write_remark(&text)?;
    }
    Ok(if is_found { 0 } else { EXIT_NOTHING_FOUND })
}

/// Joins all pages into one reply.
fn run_json(request: &mut Value, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
    let reply = session.call(METHOD, &request.to_string())?;
    let mut whole: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
    check_understood(whole["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str))?;
    if whole["next_cursor"].is_null() {
        return out.write_json_line(reply.get()).map(|()| exit_code(&whole));
    }
    let mut cursor = whole["next_cursor"].as_str().map(Into::into);
    let mut reason = whole["truncated_reason"].as_str().map(str::to_owned);
    while set_cursor(request, cursor, reason.as_deref())? {
        let reply = session.call(METHOD, &request.to_string())?;
        let page: Value = serde_json::from_str(reply.get()).map_err(unexpected_result)?;
        cursor = page["next_cursor"].as_str().map(Into::into);
        reason = page["truncated_reason"].as_str().map(str::to_owned);
        join_pages(&mut whole, page);
    }
    out.write_json_line(&whole.to_string()).map(|()| exit_code(&whole))
}

/// A service of an earlier version ignores the fields of newer options, and would then answer another question.
fn check_understood<'w>(mut warnings: impl Iterator<Item = &'w str>) -> Result<(), CliFailure> {
    let unknown = warnings.find_map(|warning| Some(warning.split_once(": unknown field, ignored")?.0));
    unknown.map_or(Ok(()), |field| {
        Err(CliFailure::File(format!(
            "this service does not know the option for `{}`; leave it out, or update the service",
            field.replace('_', "-")
        )))
    })
}

fn exit_code(whole: &Value) -> u8 {
    let is_found = |list: &str| whole[list].as_array().is_some_and(|list| !list.is_empty());
    if is_found("content_matches") || is_found("files") { 0 } else { EXIT_NOTHING_FOUND }
}

fn join_pages(whole: &mut Value, mut page: Value) {
    for list in ["content_matches", "path_matches", "files"] {
        if let (Some(all), Some(more)) = (whole[list].as_array_mut(), page[list].as_array_mut()) {
            all.append(more);
        }
    }
    if let (Some(total), Some(more)) = (whole["total"].as_u64(), page["total"].as_u64()) {
        whole["total"] = (total + more).into();
    }
    if let (Some(all), Some(more)) = (whole["skipped"].as_object_mut(), page["skipped"].as_object()) {
        for (name, count) in all.iter_mut() {
            *count = (count.as_u64().unwrap_or(0) + more.get(name).and_then(Value::as_u64).unwrap_or(0)).into();
        }
    }
    for field in ["truncated", "truncated_reason", "next_cursor"] {
        whole[field] = page[field].take();
    }
    if let Some(fields) = whole.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn request_page(request: &Value, session: &mut dyn FileSession) -> Result<CliSearchPage, CliFailure> {
    let reply = progress::show_during("searching", || session.call(METHOD, &request.to_string()))?;
    serde_json::from_str(reply.get()).map_err(unexpected_result)
}

/// False if there are no more pages. A page that ended where it began would repeat for ever.
fn set_cursor(request: &mut Value, cursor: Option<String>, reason: Option<&str>) -> Result<bool, CliFailure> {
    let Some(cursor) = cursor else { return Ok(false) };
    if request["cursor"] == cursor.as_str() {
        let text = match reason {
            Some("deadline") => "the rest takes longer than a call may; allow more time with --timeout",
            _ => "the rest does not fit into a reply; ask for less context",
        };
        return Err(CliFailure::File(text.into()));
    }
    request["cursor"] = cursor.into();
    Ok(true)
}

/// The pattern, whether it is a regex, and the paths: with `-e` the first argument is a path as well.
fn query(args: &SearchArgs) -> Result<(String, bool, Vec<OsString>), CliFailure> {
    let mut paths = args.paths.clone();
    match (args.patterns.as_slice(), &args.pattern) {
        ([], pattern) => {
            let pattern = pattern.clone().unwrap_or_default();
            let not_text = |_| CliFailure::Usage("the pattern is not UTF-8".into());
            Ok((pattern.into_string().map_err(not_text)?, !args.fixed_strings, paths))
        }
        (patterns, first_path) => {
            paths.splice(..0, first_path.clone());
            if let [only] = patterns {
                return Ok((only.clone(), !args.fixed_strings, paths));
            }
            let literal = |pattern: &String| regex::escape(pattern);
            let group = |pattern: &String| format!("(?:{pattern})");
            let parts: Vec<String> = match args.fixed_strings {
                true => patterns.iter().map(literal).collect(),
                false => patterns.iter().map(group).collect(),
            };
            Ok((parts.join("|"), true, paths))
        }
    }
}

fn request(args: &SearchArgs, base: &PathBase) -> Result<Value, CliFailure> {
    let (excluded, included): (Vec<&String>, Vec<&String>) = args.glob.iter().partition(|glob| glob.starts_with('!'));
    let (query, is_regex, paths) = query(args)?;
    let mut request = json!({
        "query": query,
        "regex": is_regex,
        "search_paths": false,
        "max_matches": if args.quiet { 1 } else { PAGE_MATCHES },
        "gitignore": !args.no_ignore,
    });
    base.scope(&paths).write_to(&mut request);
    let flags = [
        ("ignore_case", args.ignore_case),
        ("word", args.word),
        ("multiline", args.multiline),
        ("files_only", args.files_with_matches),
        ("count_only", args.count),
        ("smart_case", args.smart_case),
        ("invert", args.invert),
        ("only_matching", args.only_matching),
    ];
    for (field, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        request[*field] = true.into();
    }
    if args.all {
        request["use_default_excludes"] = false.into();
    }
    if !included.is_empty() {
        request["include_globs"] = included.iter().map(|glob| base.place_glob(glob)).collect();
    }
    if !excluded.is_empty() {
        request["exclude_globs"] = excluded.iter().map(|glob| base.place_glob(&glob[1..])).collect();
    }
    for (field, types) in [("type", &args.types), ("type_not", &args.types_not)] {
        if !types.is_empty() {
            request[field] = json!(types);
        }
    }
    if args.sort == SortOrder::Mtime {
        request["sort"] = "mtime".into();
    }
    let numbers = [
        ("context_lines_before", args.before_context.or(args.context)),
        ("context_lines_after", args.after_context.or(args.context)),
        ("max_per_file", args.max_count),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            request[field] = number.into();
        }
    }
    Ok(request)
}

fn remark_on_page(page: &CliSearchPage, out: &mut Output<'_>) -> Result<(), CliFailure> {
    if let Some(used) = &page.pattern_used {
        out.write_remark(&format!("not a regex as it stands; searching for {used}"))?;
    }
    if page.hint.is_some() {
        // Without -F the pattern is a regex, and a shell passes no backspace by mistake.
        out.write_remark("nothing matches; PATTERN was taken literally and looks like a regex: leave -F out")?;
    }
    if !page.missing_paths.is_empty() {
        out.write_remark(&format!("not found or not accessible: {}", page.missing_paths.join(", ")))?;
    }
    Ok(())
}

impl CliSearchSkipped {
    fn add(&mut self, more: Option<&CliSearchSkipped>) {
        let Some(more) = more else { return };
        self.unreadable += more.unreadable;
        self.too_deep += more.too_deep;
        self.long_line += more.long_line;
        self.too_large += more.too_large;
        self.ignored += more.ignored;
    }

    fn summary(&self) -> Option<String> {
        let reasons = [
            (self.unreadable, "could not be read"),
            (self.too_deep, "lie too deep"),
            (self.long_line, "have lines too long for a regex"),
            (self.too_large, "are too large for matches over lines"),
        ];
        let told: Vec<String> =
            reasons.iter().filter(|(count, _)| *count > 0).map(|(count, reason)| format!("{count} {reason}")).collect();
        (!told.is_empty()).then(|| format!("not searched: {}", told.join(", ")))
    }
}

/// What was printed last, so that context lines appear only once and gaps are marked.
struct MatchPrinter {
    base: PathBase,
    style: OutputStyle,
    /// Names above their lines, as on a terminal; otherwise before each line.
    is_grouped: bool,
    /// A user sees the output, perhaps through a pager.
    is_for_person: bool,
    shows_names: bool,
    shows_numbers: bool,
    /// Names as bytes that end with a NUL.
    is_for_xargs: bool,
    last_printed: Option<(Vec<u8>, u64)>,
}

impl MatchPrinter {
    fn new(args: &SearchArgs, base: &PathBase, out: &Output<'_>) -> Self {
        Self {
            base: base.clone(),
            style: out.style,
            is_grouped: out.terminal_columns.is_some() && !args.no_filename,
            is_for_person: out.is_for_person(),
            shows_names: !args.no_filename,
            shows_numbers: !args.no_line_number,
            is_for_xargs: args.null,
            last_printed: None,
        }
    }

    fn push_match(&mut self, found: &CliSearchMatch, text: &mut Vec<u8>) {
        let path = self.base.shorten(&found.path, found.path_bytes.as_deref());
        let mut last = match self.last_printed.take() {
            Some((shown, line)) if shown == path => line,
            other => {
                if self.is_grouped {
                    let gap = if other.is_some() { "\n" } else { "" };
                    let name = self.style.paint(Paint::Path, &escape::name(&path));
                    text.extend(format!("{gap}{name}\n").into_bytes());
                }
                0
            }
        };
        let first = found.line - (found.before.len() as u64).min(found.line - 1);
        let has_context = !found.before.is_empty() || !found.after.is_empty();
        if has_context && last > 0 && first > last + 1 {
            text.extend(b"--\n");
        }
        for (line, neighbour) in (first..).zip(&found.before) {
            self.push_line(&path, line, '-', &self.escape_content(neighbour), &mut last, text);
        }
        for (line, part) in (found.line..).zip(self.paint_matches(found).split('\n')) {
            self.push_line(&path, line, ':', part, &mut last, text);
        }
        let behind = last + 1;
        for (line, neighbour) in (behind..).zip(&found.after) {
            self.push_line(&path, line, '-', &self.escape_content(neighbour), &mut last, text);
        }
        self.last_printed = Some((path, last));
    }

    /// Prints a line once, because context lines of two matches overlap. A match is printed even if it was a context line
    /// before.
    fn push_line(&self, path: &[u8], line: u64, mark: char, content: &str, last: &mut u64, text: &mut Vec<u8>) {
        if line <= *last && mark == '-' {
            return;
        }
        if !self.is_grouped && self.shows_names {
            text.extend(self.style.paint(Paint::Path, &escape::name(path)).into_bytes());
            text.push(mark as u8);
        }
        if self.shows_numbers {
            text.extend(self.style.paint(Paint::Line, &line.to_string()).into_bytes());
            text.push(mark as u8);
        }
        text.extend(content.as_bytes());
        text.push(b'\n');
        *last = line.max(*last);
    }

    /// A line of a file: escaped for a terminal, unchanged for a pipe.
    fn escape_content(&self, line: &str) -> String {
        if self.is_for_person { escape::line(line) } else { line.to_owned() }
    }

    /// The line with its matches painted, newlines of a match over several lines kept.
    fn paint_matches(&self, found: &CliSearchMatch) -> String {
        let mut text = String::new();
        let mut from = 0;
        let plain = |part: &str| part.split('\n').map(|part| self.escape_content(part)).collect::<Vec<_>>().join("\n");
        for (start, end) in &found.spans {
            let (Some(before), Some(hit)) = (found.text.get(from..*start), found.text.get(*start..*end)) else {
                break;
            };
            text.push_str(&plain(before));
            let lines: Vec<String> =
                hit.split('\n').map(|part| self.style.paint(Paint::Match, &self.escape_content(part))).collect();
            text.push_str(&lines.join("\n"));
            from = *end;
        }
        text.push_str(&plain(found.text.get(from..).unwrap_or_default()));
        if found.text_truncated {
            text.push_str(&self.style.paint(Paint::Dim, if self.style.unicode { " […]" } else { " [...]" }));
        }
        text
    }

    fn push_file(&self, file: &CliSearchFile, text: &mut Vec<u8>) {
        let path = self.base.shorten(&file.path, file.path_bytes.as_deref());
        if self.is_for_xargs {
            text.extend(path);
            return text.push(0);
        }
        let name = self.shows_names.then(|| self.style.paint(Paint::Path, &escape::name(&path)));
        let facts = name.into_iter().chain(file.count.map(|count| count.to_string()));
        text.extend(facts.collect::<Vec<_>>().join(":").into_bytes());
        text.push(b'\n');
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
