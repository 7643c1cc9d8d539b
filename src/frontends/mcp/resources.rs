//! Files as MCP resources, with `file:` URIs, and the page for agents about how to work with them. Runs in `stockade mcp`.
//! Failures are protocol errors with the code in `data`, because the protocol has no other errors for resources.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    backend::Backend,
    handler::RequestFailure,
    media::{ContentKind, named_mime_type, text_mime_type},
    message::{INTERNAL_ERROR, INVALID_PARAMS, McpError, RESOURCE_NOT_FOUND},
    object::JsonObject,
    scope::HostScope,
    uri::{path_of_uri, uri_of_path},
};
use crate::frontends::{
    client::CallError,
    escape::{escape_text, quote_name},
};

/// Base64 of one resource: an image that a model can take.
const MAX_BLOB_BYTES: u64 = 4 << 20;

/// Bytes that are read to find the kind of a file, and the length of their base64.
const HEAD_BYTES: usize = 6144;
const HEAD_CHARACTERS: usize = HEAD_BYTES / 3 * 4;

/// Resources of one page.
const PAGE_ENTRIES: u32 = 200;

const SKILL_URI: &str = "stockade://skill";
const SKILL_TEXT: &str = include_str!("../../../docs/skill.md");

#[derive(Default, Deserialize)]
struct McpResourcePage {
    files: Vec<McpResourceFile>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct McpResourceFile {
    path: String,
    /// Base64 of a name that is not UTF-8. Such a name has no URI that all hosts would read alike.
    path_bytes: Option<String>,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
struct McpResourceContent {
    content: Option<String>,
    is_utf8: Option<bool>,
}

/// One page of files, folder by folder of the scope; leaves out ignored and excluded files.
pub(super) async fn list_files(
    backend: &Backend,
    scope: &HostScope,
    cursor: Option<String>,
) -> Result<Value, McpError> {
    let (at, within) = parse_cursor(cursor.as_deref()).ok_or_else(invalid_cursor)?;
    let folder = scope.allowed_folders().get(at).ok_or_else(invalid_cursor)?;
    let mut request = JsonObject::default();
    request.set("paths", &["."]);
    request.set("base_dir", folder);
    request.set("kind", &"file");
    request.set("sort", &"path");
    request.set("limit", &PAGE_ENTRIES);
    if let Some(within) = within {
        request.set("cursor", &within);
    }
    let page: McpResourcePage = match call_function(backend, scope, "coder::find", request).await {
        // A root of the host need not be there.
        Err(RequestFailure::Call(CallError::Remote(error))) if error.code == "C211" => McpResourcePage::default(),
        page => page?,
    };
    let files = page.files.iter().filter(|found| found.path_bytes.is_none());
    let files = files.map(|found| {
        let name = quote_name(scope.shorten(&found.path));
        let mut listed = json!({"uri": uri_of_path(&found.path), "name": name, "size": found.size});
        if let Some(mime_type) = named_mime_type(&found.path) {
            listed["mimeType"] = json!(mime_type);
        }
        listed
    });
    let skill = cursor.is_none().then(skill_resource);
    let mut listed = json!({"resources": skill.into_iter().chain(files).collect::<Vec<Value>>()});
    let next = at + 1;
    let next = match page.next_cursor {
        Some(within) => Some(format!("{at}:{within}")),
        None => (next < scope.allowed_folders().len()).then(|| format!("{next}:")),
    };
    if let Some(next) = next {
        listed["nextCursor"] = json!(next);
    }
    Ok(listed)
}

/// Parses a cursor: the number of a folder, a colon, and the cursor of `coder::find` inside it.
fn parse_cursor(cursor: Option<&str>) -> Option<(usize, Option<&str>)> {
    let Some(cursor) = cursor else { return Some((0, None)) };
    let (folder, within) = cursor.split_once(':')?;
    Some((folder.parse().ok()?, (!within.is_empty()).then_some(within)))
}

fn invalid_cursor() -> McpError {
    let text = "C210 cursor: not from this list; call resources/list again without a cursor";
    McpError::new(INVALID_PARAMS, text).with_data(json!({ "code": "C210" }))
}

/// The list if files are not offered as resources: only the page for agents.
pub(super) fn list_skill() -> Value {
    json!({"resources": [skill_resource()]})
}

fn skill_resource() -> Value {
    json!({
        "uri": SKILL_URI, "name": "skill", "description": "How to work with these files: one page for agents",
        "mimeType": "text/markdown", "size": SKILL_TEXT.len(),
    })
}

pub(super) fn list_templates(are_files_offered: bool) -> Value {
    let file = json!({
        "uriTemplate": "file://{+path}", "name": "file",
        "description": "A file by its absolute path inside one of the roots",
    });
    json!({"resourceTemplates": are_files_offered.then_some(file).into_iter().collect::<Vec<Value>>()})
}

/// None if `uri` is another resource.
pub(super) fn read_skill(uri: &str) -> Option<Value> {
    let skill = || json!({"contents": [{"uri": uri, "mimeType": "text/markdown", "text": SKILL_TEXT}]});
    (uri == SKILL_URI).then(skill)
}

pub(super) fn not_offered(uri: &str) -> McpError {
    let text = format!(
        "C211 {}: files are not offered as resources, because the operator left out the tool read; tools/list shows what is \
         offered",
        escape_text(uri)
    );
    McpError::new(RESOURCE_NOT_FOUND, text).with_data(json!({ "code": "C211" }))
}

pub(super) async fn read_file(backend: &Backend, scope: &HostScope, uri: &str) -> Result<Value, McpError> {
    let Some(path) = path_of_uri(uri) else {
        let text = format!("{}: expected a file URI such as {}", escape_text(uri), uri_of_path(scope.base_folder()));
        return Err(McpError::new(RESOURCE_NOT_FOUND, text));
    };
    let read = async |encoding: Option<&str>| -> Result<McpResourceContent, McpError> {
        let mut request = JsonObject::default();
        request.set("path", &path);
        if let Some(encoding) = encoding {
            request.set("encoding", &encoding);
            request.set("max_output_bytes", &MAX_BLOB_BYTES);
        }
        let read = call_function(backend, scope, "coder::read-file", request).await;
        read.map_err(|failure| protocol_error(&failure, Some(scope)))
    };
    // A text that is too large is not sent as a blob either.
    let text = match read(None).await {
        Err(error) if is_too_large(&error) => match ContentKind::of(&read_head(backend, scope, &path).await) {
            ContentKind::Text => return Err(error),
            _ => None,
        },
        file => Some(file?).filter(|file| file.is_utf8 == Some(true)).and_then(|file| file.content),
    };
    if let Some(text) = text.filter(|text| ContentKind::of(text.as_bytes()) == ContentKind::Text) {
        return Ok(json!({"contents": [{"uri": uri, "mimeType": text_mime_type(&path), "text": text}]}));
    }
    let blob = read(Some("base64")).await?.content.unwrap_or_default();
    let head = BASE64.decode(&blob[..blob.len().min(HEAD_CHARACTERS)]).unwrap_or_default();
    let mime_type = ContentKind::of(&head).mime_type();
    Ok(json!({"contents": [{"uri": uri, "mimeType": mime_type, "blob": blob}]}))
}

async fn call_function<T: serde::de::DeserializeOwned>(
    backend: &Backend,
    scope: &HostScope,
    method: &'static str,
    request: JsonObject,
) -> Result<T, RequestFailure> {
    let reply = backend.call(&scope.confine(method, request)?).await?;
    serde_json::from_str(reply.get()).map_err(|error| CallError::Protocol(error.to_string()).into())
}

impl From<RequestFailure> for McpError {
    fn from(failure: RequestFailure) -> Self {
        protocol_error(&failure, None)
    }
}

/// The first bytes of a file, which show its kind. Empty if it cannot be read.
async fn read_head(backend: &Backend, scope: &HostScope, path: &str) -> Vec<u8> {
    let mut request = JsonObject::default();
    request.set("path", &path);
    request.set("byte_from", &0);
    request.set("byte_to", &HEAD_BYTES);
    request.set("encoding", &"base64");
    let read = call_function::<McpResourceContent>(backend, scope, "coder::read-file", request).await;
    let content = read.ok().and_then(|head| head.content).unwrap_or_default();
    BASE64.decode(content).unwrap_or_default()
}

fn is_too_large(error: &McpError) -> bool {
    error.data.as_ref().is_some_and(|data| data["code"] == "C213")
}

fn protocol_error(failure: &RequestFailure, scope: Option<&HostScope>) -> McpError {
    let code = match failure {
        RequestFailure::Arguments(_) => "C210",
        RequestFailure::Refused(refused) => refused.code,
        RequestFailure::Call(CallError::Remote(remote)) => &remote.code,
        RequestFailure::Call(lost) => return McpError::new(INTERNAL_ERROR, lost.to_string()),
    };
    let kind = match code {
        "C211" | "C215" | "C218" => RESOURCE_NOT_FOUND,
        "C210" => INVALID_PARAMS,
        _ => INTERNAL_ERROR,
    };
    McpError::new(kind, failure.error_text(scope, None)).with_data(json!({ "code": code }))
}
