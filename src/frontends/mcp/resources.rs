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
use serde_json::json;

use super::{
    backend::Backend,
    render::in_tool_words,
    scope::{Scope, path_of_uri, uri_of_path},
};
use crate::frontends::client::CallError;

/// Resources of one page.
const PAGE_ENTRIES: u32 = 200;

const SKILL_URI: &str = "stockade://skill";
const SKILL: &str = include_str!("../../../docs/skill.md");

#[derive(Deserialize)]
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

/// All files of the roots, page by page, without what ignore files and default excludes leave out.
pub(super) async fn list(
    backend: &Backend,
    scope: &Scope,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let mut request =
        json!({"paths": scope.folders(), "kind": "file", "sort": "path", "limit": PAGE_ENTRIES});
    if let Some(cursor) = &cursor {
        request["cursor"] = json!(cursor);
    }
    let page: Page = call(backend, "coder::find", &request).await?;
    let skill = cursor.is_none().then(|| {
        Resource::new(SKILL_URI, "skill")
            .with_description("How to work with these files: one page for agents")
            .with_mime_type("text/markdown")
            .with_size(SKILL.len() as u64)
    });
    let files = page.files.iter().filter(|found| found.path_bytes.is_none());
    let files = files
        .map(|found| Resource::new(uri_of_path(&found.path), scope.show(&found.path)).with_size(found.size));
    let mut listed = ListResourcesResult::with_all_items(skill.into_iter().chain(files).collect());
    listed.next_cursor = page.next_cursor;
    Ok(listed)
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let file = ResourceTemplate::new("file://{+path}", "file")
        .with_description("A file by its absolute path inside one of the roots");
    ListResourceTemplatesResult::with_all_items(vec![file])
}

pub(super) async fn read(
    backend: &Backend,
    scope: &Scope,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    if uri == SKILL_URI {
        let skill = ResourceContents::text(SKILL, uri).with_mime_type("text/markdown");
        return Ok(ReadResourceResult::new(vec![skill]));
    }
    let Some(path) = path_of_uri(uri) else {
        return Err(ErrorData::new(
            ErrorCode::RESOURCE_NOT_FOUND,
            format!("{uri}: expected a file URI such as {}", uri_of_path(scope.home())),
            None,
        ));
    };
    let mut request = json!({ "path": path });
    if let Some(base_dir) = request.as_object().and_then(|request| scope.base_dir(request)) {
        request["base_dir"] = json!(base_dir);
    }
    let file: File = call(backend, "coder::read-file", &request).await?;
    if file.is_utf8 == Some(true) {
        return Ok(ReadResourceResult::new(vec![ResourceContents::text(
            file.content.unwrap_or_default(),
            uri,
        )]));
    }
    request["encoding"] = json!("base64");
    let file: File = call(backend, "coder::read-file", &request).await?;
    let blob = ResourceContents::blob(file.content.unwrap_or_default(), uri);
    Ok(ReadResourceResult::new(vec![blob.with_mime_type("application/octet-stream")]))
}

async fn call<T: serde::de::DeserializeOwned>(
    backend: &Backend,
    method: &str,
    request: &serde_json::Value,
) -> Result<T, ErrorData> {
    let reply = backend.call(method, &request.to_string()).await.map_err(|error| protocol_error(&error))?;
    serde_json::from_str(reply.get()).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

pub(super) fn protocol_error(error: &CallError) -> ErrorData {
    let CallError::Remote(remote) = error else {
        return ErrorData::internal_error(error.to_string(), None);
    };
    let code = match remote.code.as_str() {
        "C211" | "C215" | "C218" => ErrorCode::RESOURCE_NOT_FOUND,
        "C210" => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let message = format!("{} {}", remote.code, in_tool_words(&remote.message));
    ErrorData::new(code, message, Some(json!({ "code": remote.code })))
}
