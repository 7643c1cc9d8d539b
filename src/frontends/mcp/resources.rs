//! Runs in `stockade mcp`: files as MCP resources, by `file:` URIs, and the page that says how to work with them.
//! Failures here are protocol errors, because the protocol has no other; they carry the code in `data`.

use rmcp::{
    ErrorData,
    model::{
        ErrorCode, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    backend::Backend,
    handler::Failure,
    scope::Scope,
    uri::{path_of_uri, uri_of_path},
};
use crate::frontends::{
    client::CallError,
    escape::{one_line, quoted_name},
};

/// Resources of one page.
const PAGE_ENTRIES: u32 = 200;

const SKILL_URI: &str = "stockade://skill";
const SKILL: &str = include_str!("../../../docs/skill.md");

#[derive(Default, Deserialize)]
struct Page {
    files: Vec<Found>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Found {
    path: String,
    /// Base64: a name that is not UTF-8 has no URI that everybody would read alike.
    path_bytes: Option<String>,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
struct File {
    content: Option<String>,
    is_utf8: Option<bool>,
}

/// One page of files, folder by folder of the scope; leaves out ignored and excluded files.
pub(super) async fn list(
    backend: &Backend,
    scope: &Scope,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let (at, within) = place_of(cursor.as_deref()).ok_or_else(bad_cursor)?;
    let folder = scope.folders().get(at).ok_or_else(bad_cursor)?;
    let mut request = json!({
        "paths": ["."], "base_dir": folder, "kind": "file", "sort": "path", "limit": PAGE_ENTRIES
    });
    if let Some(within) = within {
        request["cursor"] = json!(within);
    }
    let page: Page = match call(backend, scope, "coder::find", request).await {
        // A root of the host need not be there.
        Err(Failure::Call(CallError::Remote(error))) if error.code == "C211" => Page::default(),
        page => page?,
    };
    let files = page.files.iter().filter(|found| found.path_bytes.is_none());
    let files = files.map(|found| {
        Resource::new(uri_of_path(&found.path), quoted_name(scope.show(&found.path))).with_size(found.size)
    });
    let skill = cursor.is_none().then(skill);
    let mut listed = ListResourcesResult::with_all_items(skill.into_iter().chain(files).collect());
    let next = at + 1;
    listed.next_cursor = match page.next_cursor {
        Some(within) => Some(format!("{at}:{within}")),
        None => (next < scope.folders().len()).then(|| format!("{next}:")),
    };
    Ok(listed)
}

/// Parses a cursor: the number of a folder, a colon, and the cursor of `coder::find` inside it.
fn place_of(cursor: Option<&str>) -> Option<(usize, Option<&str>)> {
    let Some(cursor) = cursor else { return Some((0, None)) };
    let (folder, within) = cursor.split_once(':')?;
    Some((folder.parse().ok()?, (!within.is_empty()).then_some(within)))
}

fn bad_cursor() -> ErrorData {
    let text = "C210 cursor: not from this list; call resources/list again without a cursor";
    ErrorData::new(ErrorCode::INVALID_PARAMS, text, Some(json!({ "code": "C210" })))
}

/// Where files are no resources: the page for agents alone.
pub(super) fn list_skill() -> ListResourcesResult {
    ListResourcesResult::with_all_items(vec![skill()])
}

fn skill() -> Resource {
    Resource::new(SKILL_URI, "skill")
        .with_description("How to work with these files: one page for agents")
        .with_mime_type("text/markdown")
        .with_size(SKILL.len() as u64)
}

pub(super) fn templates(are_files_offered: bool) -> ListResourceTemplatesResult {
    let file = ResourceTemplate::new("file://{+path}", "file")
        .with_description("A file by its absolute path inside one of the roots");
    ListResourceTemplatesResult::with_all_items(are_files_offered.then_some(file).into_iter().collect())
}

/// None if `uri` is another resource.
pub(super) fn read_skill(uri: &str) -> Option<ReadResourceResult> {
    let skill = || ResourceContents::text(SKILL, uri).with_mime_type("text/markdown");
    (uri == SKILL_URI).then(|| ReadResourceResult::new(vec![skill()]))
}

pub(super) fn not_offered(uri: &str) -> ErrorData {
    let text = format!(
        "C211 {}: files are not offered as resources, because the operator left out the tool read; tools/list shows what is \
         offered",
        one_line(uri)
    );
    ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, text, Some(json!({ "code": "C211" })))
}

pub(super) async fn read(
    backend: &Backend,
    scope: &Scope,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let Some(path) = path_of_uri(uri) else {
        return Err(ErrorData::new(
            ErrorCode::RESOURCE_NOT_FOUND,
            format!("{}: expected a file URI such as {}", one_line(uri), uri_of_path(scope.home())),
            None,
        ));
    };
    let read = async |request: Value| -> Result<File, ErrorData> {
        let read = call(backend, scope, "coder::read-file", request).await;
        read.map_err(|failure| protocol_error(&failure, Some(scope)))
    };
    let file = read(json!({ "path": path })).await?;
    if file.is_utf8 == Some(true) {
        let text = ResourceContents::text(file.content.unwrap_or_default(), uri);
        return Ok(ReadResourceResult::new(vec![text]));
    }
    let file = read(json!({ "path": path, "encoding": "base64" })).await?;
    let blob = ResourceContents::blob(file.content.unwrap_or_default(), uri);
    Ok(ReadResourceResult::new(vec![blob.with_mime_type("application/octet-stream")]))
}

async fn call<T: serde::de::DeserializeOwned>(
    backend: &Backend,
    scope: &Scope,
    method: &'static str,
    request: Value,
) -> Result<T, Failure> {
    let Value::Object(request) = request else { return Err(Failure::Arguments("C210 no object".into())) };
    let reply = backend.call(&scope.confine(method, request)?).await?;
    serde_json::from_str(reply.get()).map_err(|error| CallError::Protocol(error.to_string()).into())
}

impl From<Failure> for ErrorData {
    fn from(failure: Failure) -> Self {
        protocol_error(&failure, None)
    }
}

fn protocol_error(failure: &Failure, scope: Option<&Scope>) -> ErrorData {
    let code = match failure {
        Failure::Arguments(_) => "C210",
        Failure::Refused(refused) => refused.code,
        Failure::Call(CallError::Remote(remote)) => &remote.code,
        Failure::Call(lost) => return ErrorData::internal_error(lost.to_string(), None),
    };
    let kind = match code {
        "C211" | "C215" | "C218" => ErrorCode::RESOURCE_NOT_FOUND,
        "C210" => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(kind, failure.words(scope), Some(json!({ "code": code })))
}
