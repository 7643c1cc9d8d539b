//! Runs in the worker: the older line of the wire, as a mode. Pure: JSON values in, JSON values out.
//! Trusts our own results; requests are a client's. Functions stay what they are; only how they are asked and answered
//! differs, so that a client written for that line works unchanged.

mod request;
mod response;

use serde_json::Value;

use super::{Result, Warnings};
pub use crate::terms::WireVersion;

/// A function as the older line knew it.
#[derive(Debug, Clone, Copy)]
pub struct Wire02Function {
    name: &'static str,
    fields: &'static request::KnownFields,
}

/// What a request said, for its result to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPaths {
    /// `path` of the request itself.
    path: Option<String>,
    /// The paths of its entries.
    entries: Vec<Option<String>>,
    /// The folder of `base_dir`, relative to its root. The paths of the result are relative to it, as those of the request
    /// are.
    base_folder: Option<String>,
}

impl WireVersion {
    /// None where nothing differs: in the current wire, and for functions that came later.
    pub fn wire_02_function(self, function: &str) -> Option<Wire02Function> {
        match self {
            Self::Current => None,
            Self::V02 => request::find_wire_02(function),
        }
    }
}

impl SentPaths {
    /// `base_folder` is the folder of `base_dir` below its root; empty for the root itself.
    pub fn with_base_folder(self, base_folder: String) -> Self {
        Self { base_folder: Some(base_folder).filter(|base| !base.is_empty()), ..self }
    }
}

impl Wire02Function {
    /// Fields that the line does not know are taken out of a reading request and refused in a changing one (C210); guards
    /// and `base_dir` stay. What the line did differently by default is put in.
    pub fn adapt_request(self, params: &mut Value, warnings: &mut Warnings) -> Result<SentPaths> {
        request::adapt(self, params, warnings)
    }

    pub fn adapt_response(self, sent_paths: SentPaths, mut result: Value) -> Value {
        response::adapt(self, sent_paths, &mut result);
        result
    }
}

#[cfg(test)]
mod tests;
