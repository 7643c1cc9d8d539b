//! `stockade create`: new files, byte for byte.

use std::{ffi::OsString, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::{
    CommandResult, FileSession,
    args::CreateArgs,
    change::{BATCH_ENTRIES, ChangeCommand, set_if_match},
    failure::CliFailure,
    output::Output,
    paths::{display_path, wire_path},
    units::counted,
    user_input,
};

const METHOD: &str = "coder::create-file";

/// Bytes of content in one call, so that a large content for several files does not exceed a frame of the wire.
const BATCH_BYTES: usize = 16 << 20;

/// The files to create, read before a connection exists.
#[derive(Debug)]
pub(super) struct CreateCommand<'a> {
    paths: &'a [OsString],
    change: ChangeCommand,
}

impl<'a> CreateCommand<'a> {
    pub(super) fn new(args: &'a CreateArgs) -> Result<Self, CliFailure> {
        let bytes = match (&args.content, &args.from) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, from) => user_input::read_file_or_stdin("the content", from.as_deref().unwrap_or(Path::new("-")))?,
        };
        let step = (BATCH_BYTES / bytes.len().max(1)).clamp(1, BATCH_ENTRIES);
        let content = CreateContent::new(bytes);
        let mut entries: Vec<Value> = args.paths.iter().map(|path| content.entry(path, args)).collect();
        set_if_match(&args.version, &mut entries)?;
        let mut change = ChangeCommand::new(METHOD, "files", entries, &args.batch);
        change.entries_per_call = step;
        Ok(Self { paths: &args.paths, change })
    }

    pub(super) fn run(self, session: &mut dyn FileSession, out: &mut Output<'_>) -> CommandResult {
        let paths = self.paths;
        self.change.run(session, out, |at, done, out| {
            let (name, bytes) = (display_path(&paths[at]), counted(done.bytes_written.unwrap_or(0), "byte"));
            out.write_text(&format!("{} {name}, {bytes}{}\n", done.verb("wrote", "write"), done.owner_note()))?;
            done.print_diff(&name, out)
        })
    }
}

/// The content in the form of the wire.
enum CreateContent {
    Text(String),
    Base64(String),
}

impl CreateContent {
    fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Base64(BASE64.encode(error.as_bytes())), Self::Text)
    }

    fn entry(&self, path: &OsString, args: &CreateArgs) -> Value {
        let mut entry = wire_path(path);
        match self {
            Self::Text(text) => entry["content"] = text.as_str().into(),
            Self::Base64(text) => {
                entry["content"] = text.as_str().into();
                entry["encoding"] = "base64".into();
            }
        }
        if args.force {
            entry["overwrite"] = true.into();
        }
        if args.no_parents {
            entry["parents"] = false.into();
        }
        if let Some(mode) = &args.mode {
            entry["mode"] = mode.as_str().into();
        }
        entry
    }
}
