//! Runs in `stockade mcp`: the tool `read`. Asks the service for as much as one reply may hold, finds out what binary files are, and
//! shows images as images.
//! Does not trust the host: every loop is bounded by the entries of the call, and images have a limit of their own.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    handler::{Bridge, RequestFailure, ToolCall, ToolReply},
    media::{ContentKind, ImageKind},
    object::JsonObject,
    render::{McpReadResult, ReadParts, render_call, render_read, render_unknown},
};

/// Bytes at the beginning of a file that are read to find its kind and the size of an image.
const HEAD_BYTES: u64 = 256 << 10;

/// Bytes of all images of one reply. Models take no larger ones.
const MAX_IMAGE_BYTES: u64 = 3 << 20;

/// Width and height of an image that is shown. Models refuse larger ones, and a refused image stays in the conversation.
const MAX_IMAGE_PIXELS: u32 = 8000;

/// Calls of the service until a reply fits. The first budget is nearly always right.
const MAX_ATTEMPTS: u32 = 4;

/// Bytes of a reply for each file beside its lines: the header, a warning, and the call that continues.
const FILE_BYTES: usize = 700;

/// The smallest budget of a request, because at least one line has to fit.
const MIN_BUDGET_BYTES: usize = 1024;

/// An image in the form that the host gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownImage {
    pub(super) mime_type: &'static str,
    /// In base64.
    pub(super) data: String,
}

/// A file that is not shown as text.
#[derive(Debug)]
pub(super) enum Media {
    Image {
        kind: ImageKind,
        dimensions: Option<(u32, u32)>,
        /// In base64. None: too large.
        data: Option<String>,
    },
    Binary {
        kind: &'static str,
    },
}

/// Which part of a file was asked for, and in which form.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedWindow {
    pub(super) line_from: Option<u64>,
    pub(super) line_to: Option<u64>,
    pub(super) tail: Option<u64>,
    pub(super) byte_from: Option<u64>,
    pub(super) byte_to: Option<u64>,
    pub(super) encoding: Option<String>,
    /// Lines without their numbers.
    pub(super) is_plain: bool,
    is_stat: bool,
}

impl AskedWindow {
    pub(super) fn of(arguments: &JsonObject) -> Self {
        Self {
            line_from: arguments.decode("line_from"),
            line_to: arguments.decode("line_to"),
            tail: arguments.decode("tail"),
            byte_from: arguments.decode("byte_from"),
            byte_to: arguments.decode("byte_to"),
            encoding: arguments.text("encoding"),
            is_plain: arguments.decode("numbered") == Some(false),
            is_stat: arguments.decode("stat") == Some(true),
        }
    }

    pub(super) fn base64() -> Self {
        Self { encoding: Some("base64".into()), ..Self::default() }
    }

    pub(super) fn is_of_bytes(&self) -> bool {
        self.byte_from.is_some() || self.byte_to.is_some()
    }

    pub(super) fn is_base64(&self) -> bool {
        self.encoding.as_deref() == Some("base64")
    }

    /// False if the caller names an encoding: it gets that encoding, whatever the file is.
    fn allows_media(&self) -> bool {
        self.encoding.is_none() && !self.is_stat
    }
}

/// The files of one call: those that a reply can hold, and the call for the others.
struct ReadCall {
    request: JsonObject,
    windows: Vec<AskedWindow>,
    rest: Option<String>,
    /// Bytes of text that the files of this call get, without what stands around them.
    budget: usize,
}

impl ReadCall {
    /// `shown`: the arguments as the caller sent them.
    fn new(mut request: JsonObject, shown: &JsonObject, max_reply: usize) -> Self {
        let Some(paths) = request.decode::<Vec<Box<RawValue>>>("paths") else {
            let name = request.get("path").map_or(0, |path| path.get().len());
            let windows = vec![AskedWindow::of(&request)];
            return Self { request, windows, rest: None, budget: max_reply.saturating_sub(FILE_BYTES + 3 * name) };
        };
        // Half of the reply at most goes to headers.
        let mut around = 0;
        let cost = |entry: &RawValue| FILE_BYTES + 3 * entry.get().len();
        let mut fits = |entry: &RawValue| {
            around += cost(entry);
            around <= max_reply / 2
        };
        let count = paths.iter().take_while(|entry| fits(entry)).count().max(1).min(paths.len());
        let around: usize = paths[..count].iter().map(|entry| cost(entry)).sum();
        let rest = (count < paths.len()).then(|| render_rest(shown, count, max_reply));
        let windows = paths[..count].iter().map(|entry| window_of_entry(entry)).collect();
        request.set("paths", &&paths[..count]);
        let used = around + rest.as_ref().map_or(0, String::len);
        Self { request, windows, rest, budget: max_reply.saturating_sub(used) }
    }
}

fn window_of_entry(entry: &RawValue) -> AskedWindow {
    serde_json::from_str::<JsonObject>(entry.get()).map(|entry| AskedWindow::of(&entry)).unwrap_or_default()
}

/// The call for the paths that this reply leaves out, or a description of it if the call would take too much of the reply.
fn render_rest(shown: &JsonObject, count: usize, max_reply: usize) -> String {
    let paths: Vec<Box<RawValue>> = shown.decode("paths").unwrap_or_default();
    let mut next = shown.clone();
    next.set("paths", &paths.get(count..).unwrap_or_default());
    let call = render_call("read", &next);
    let left = paths.len().saturating_sub(count);
    if call.len() <= max_reply / 4 {
        return format!("… {left} more files; next: {call}\n");
    }
    format!("… {left} more files; next: the same call without its first {count} paths\n")
}

impl Bridge {
    pub(super) async fn read(&self, call: &ToolCall<'_>, request: JsonObject) -> Result<ToolReply, RequestFailure> {
        let ReadCall { mut request, windows, rest, mut budget } = ReadCall::new(request, call.shown(), self.max_reply);
        for _ in 0..MAX_ATTEMPTS {
            request.set("budget_bytes", &budget.max(MIN_BUDGET_BYTES));
            let result = self.call_function(call, request.clone()).await?;
            let Some(reply) = McpReadResult::parse(&result) else {
                return Ok(self.reply(render_unknown(&call.context(), &result), result));
            };
            let media = self.identify_media(call, &reply, &windows).await;
            let parts = ReadParts { windows: &windows, media: &media, rest: rest.as_deref() };
            let rendered = render_read(&call.context(), &reply, parts, &result);
            let length = rendered.text.decoded_length();
            if length <= self.max_reply {
                return Ok(self.reply(rendered, result));
            }
            budget = budget.saturating_sub(length - self.max_reply + MIN_BUDGET_BYTES);
        }
        let why =
            format!("C213 read: the reply would be longer than {} bytes; read fewer files at a time", self.max_reply);
        Err(RequestFailure::Arguments(why))
    }

    /// Identifies the files whose content cannot be text, in the order of the files.
    async fn identify_media(
        &self,
        call: &ToolCall<'_>,
        reply: &McpReadResult<'_>,
        windows: &[AskedWindow],
    ) -> Vec<Option<Media>> {
        let mut left = MAX_IMAGE_BYTES;
        let mut media = Vec::new();
        for (file, window) in reply.files().iter().zip(windows) {
            media.push(match window.allows_media() && file.may_be_binary() {
                true => self.identify(call, file, &mut left).await,
                false => None,
            });
        }
        media
    }

    /// None for text, and for a file that cannot be read any more.
    async fn identify(&self, call: &ToolCall<'_>, file: &McpReadResult<'_>, left: &mut u64) -> Option<Media> {
        let head = self.read_base64(call, file, Some(HEAD_BYTES)).await?;
        let bytes = BASE64.decode(&head).ok()?;
        let kind = match ContentKind::of(&bytes) {
            ContentKind::Text => return None,
            ContentKind::Binary(kind, _) => return Some(Media::Binary { kind }),
            ContentKind::Image(kind) => kind,
        };
        let dimensions = kind.dimensions(&bytes);
        let is_large = dimensions.is_some_and(|(width, height)| width.max(height) > MAX_IMAGE_PIXELS);
        let data = match (file.size <= *left && !is_large, bytes.len() as u64 >= file.size) {
            (false, _) => None,
            (true, true) => Some(head),
            (true, false) => self.read_base64(call, file, None).await,
        };
        *left -= data.as_ref().map_or(0, |_| file.size);
        Some(Media::Image { kind, dimensions, data })
    }

    /// The beginning of a file, or all of it, in base64.
    async fn read_base64(&self, call: &ToolCall<'_>, file: &McpReadResult<'_>, end: Option<u64>) -> Option<String> {
        #[derive(Deserialize)]
        struct Exact {
            content: String,
            size: u64,
        }
        let mut request = JsonObject::default();
        match &file.path_bytes {
            Some(bytes) => request.set("path_bytes", bytes),
            None => request.set("path", &file.path),
        }
        request.set("byte_from", &0);
        request.set("byte_to", &end.unwrap_or(MAX_IMAGE_BYTES));
        request.set("encoding", &"base64");
        let result = self.call_function(call, request).await.ok()?;
        let exact: Exact = serde_json::from_str(result.get()).ok()?;
        // A file that grew meanwhile is not shown as half an image.
        (end.is_some() || exact.size == file.size).then_some(exact.content)
    }
}
