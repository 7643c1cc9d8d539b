//! `stockade create`: new files, byte for byte.

use std::{ffi::OsString, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::{
    Outcome, Session,
    args::CreateArgs,
    change::{BATCH_ENTRIES, Change, put_version},
    failure::Failure,
    home::{shown, wire_path},
    output::Output,
    source,
    units::counted,
};

const METHOD: &str = "coder::create-file";

/// Content of one call, so that several copies of a large one fit into the wire's frames.
const BATCH_BYTES: usize = 16 << 20;

/// What to create, read before a connection exists.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    paths: &'a [OsString],
    change: Change,
}

impl<'a> Plan<'a> {
    pub(super) fn new(args: &'a CreateArgs) -> Result<Self, Failure> {
        let bytes = match (&args.content, &args.from) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, from) => source::read_from("the content", from.as_deref().unwrap_or(Path::new("-")))?,
        };
        let step = (BATCH_BYTES / bytes.len().max(1)).clamp(1, BATCH_ENTRIES);
        let content = Content::new(bytes);
        let mut entries: Vec<Value> = args.paths.iter().map(|path| content.entry(path, args)).collect();
        put_version(&args.version, &mut entries)?;
        let mut change = Change::new(METHOD, "files", entries, &args.batch);
        change.step = step;
        Ok(Self { paths: &args.paths, change })
    }

    pub(super) fn run(self, session: &mut dyn Session, out: &mut Output<'_>) -> Outcome {
        let paths = self.paths;
        self.change.run(session, out, |at, done, out| {
            let (name, bytes) = (shown(&paths[at]), counted(done.bytes_written.unwrap_or(0), "byte"));
            out.text(&format!("{} {name}, {bytes}{}\n", done.verb("wrote", "write"), done.caveat()))?;
            done.show_diff(&name, out)
        })
    }
}

/// As the wire takes it.
enum Content {
    Text(String),
    Base64(String),
}

impl Content {
    fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|error| Self::Base64(BASE64.encode(error.as_bytes())), Self::Text)
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
