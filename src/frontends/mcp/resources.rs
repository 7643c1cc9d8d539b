//! Runs in `stockade mcp`: files as MCP resources, by `file:` URIs, and the page that says how to work with them.
//! Failures here are protocol errors, because the protocol has no other; they carry the code in `data`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    backend::Backend,
    handler::Failure,
    message::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError},
    object::Object,
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
) -> Result<Value, RpcError> {
    let (at, within) = place_of(cursor.as_deref()).ok_or_else(bad_cursor)?;
    let folder = scope.folders().get(at).ok_or_else(bad_cursor)?;
    let mut request = Object::default();
    request.set("paths", &["."]);
    request.set("base_dir", folder);
    request.set("kind", &"file");
    request.set("sort", &"path");
    request.set("limit", &PAGE_ENTRIES);
    if let Some(within) = within {
        request.set("cursor", &within);
    }
    let page: Page = match call(backend, scope, "coder::find", request).await {
        // A root of the host need not be there.
        Err(Failure::Call(CallError::Remote(error))) if error.code == "C211" => Page::default(),
        page => page?,
    };
    let files = page.files.iter().filter(|found| found.path_bytes.is_none());
    let files = files.map(|found| {
        json!({"uri": uri_of_path(&found.path), "name": quoted_name(scope.show(&found.path)), "size": found.size})
    });
    let skill = cursor.is_none().then(skill);
    let mut listed = json!({"resources": skill.into_iter().chain(files).collect::<Vec<Value>>()});
    let next = at + 1;
    let next = match page.next_cursor {
        Some(within) => Some(format!("{at}:{within}")),
        None => (next < scope.folders().len()).then(|| format!("{next}:")),
    };
    if let Some(next) = next {
        listed["nextCursor"] = json!(next);
    }
    Ok(listed)
}

/// Parses a cursor: the number of a folder, a colon, and the cursor of `coder::find` inside it.
fn place_of(cursor: Option<&str>) -> Option<(usize, Option<&str>)> {
    let Some(cursor) = cursor else { return Some((0, None)) };
    let (folder, within) = cursor.split_once(':')?;
    Some((folder.parse().ok()?, (!within.is_empty()).then_some(within)))
}

fn bad_cursor() -> RpcError {
    let text = "C210 cursor: not from this list; call resources/list again without a cursor";
    RpcError::new(INVALID_PARAMS, text).with_data(json!({ "code": "C210" }))
}

/// Where files are no resources: the page for agents alone.
pub(super) fn list_skill() -> Value {
    json!({"resources": [skill()]})
}

fn skill() -> Value {
    json!({
        "uri": SKILL_URI, "name": "skill", "description": "How to work with these files: one page for agents",
        "mimeType": "text/markdown", "size": SKILL.len(),
    })
}

pub(super) fn templates(are_files_offered: bool) -> Value {
    let file = json!({
        "uriTemplate": "file://{+path}", "name": "file",
        "description": "A file by its absolute path inside one of the roots",
    });
    json!({"resourceTemplates": are_files_offered.then_some(file).into_iter().collect::<Vec<Value>>()})
}

/// None if `uri` is another resource.
pub(super) fn read_skill(uri: &str) -> Option<Value> {
    let skill = || json!({"contents": [{"uri": uri, "mimeType": "text/markdown", "text": SKILL}]});
    (uri == SKILL_URI).then(skill)
}

pub(super) fn not_offered(uri: &str) -> RpcError {
    let text = format!(
        "C211 {}: files are not offered as resources, because the operator left out the tool read; tools/list shows what is \
         offered",
        one_line(uri)
    );
    RpcError::new(RESOURCE_NOT_FOUND, text).with_data(json!({ "code": "C211" }))
}

pub(super) async fn read(backend: &Backend, scope: &Scope, uri: &str) -> Result<Value, RpcError> {
    let Some(path) = path_of_uri(uri) else {
        let text = format!("{}: expected a file URI such as {}", one_line(uri), uri_of_path(scope.home()));
        return Err(RpcError::new(RESOURCE_NOT_FOUND, text));
    };
    let read = async |encoding: Option<&str>| -> Result<File, RpcError> {
        let mut request = Object::default();
        request.set("path", &path);
        if let Some(encoding) = encoding {
            request.set("encoding", &encoding);
        }
        let read = call(backend, scope, "coder::read-file", request).await;
        read.map_err(|failure| protocol_error(&failure, Some(scope)))
    };
    let file = read(None).await?;
    if file.is_utf8 == Some(true) {
        let text = file.content.unwrap_or_default();
        return Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}));
    }
    let blob = read(Some("base64")).await?.content.unwrap_or_default();
    Ok(json!({"contents": [{"uri": uri, "mimeType": "application/octet-stream", "blob": blob}]}))
}

async fn call<T: serde::de::DeserializeOwned>(
    backend: &Backend,
    scope: &Scope,
    method: &'static str,
    request: Object,
) -> Result<T, Failure> {
    let reply = backend.call(&scope.confine(method, request)?).await?;
    serde_json::from_str(reply.get()).map_err(|error| CallError::Protocol(error.to_string()).into())
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> Self {
        protocol_error(&failure, None)
    }
}

fn protocol_error(failure: &Failure, scope: Option<&Scope>) -> RpcError {
    let code = match failure {
        Failure::Arguments(_) => "C210",
        Failure::Refused(refused) => refused.code,
        Failure::Call(CallError::Remote(remote)) => &remote.code,
        Failure::Call(lost) => return RpcError::new(INTERNAL_ERROR, lost.to_string()),
    };
    let kind = match code {
        "C211" | "C215" | "C218" => RESOURCE_NOT_FOUND,
        "C210" => INVALID_PARAMS,
        _ => INTERNAL_ERROR,
    };
    RpcError::new(kind, failure.words(scope)).with_data(json!({ "code": code }))
}
