//! Wire 0.2 as a mode of the connection: translates its requests and results. Runs in the worker. Pure: JSON values in, JSON
//! values out. Trusts the results of this program, not the requests of a client. The functions are the same; only the form of
//! requests and results differs, so that a client written for wire 0.2 works unchanged.

mod request;
mod response;

use serde_json::Value;

use super::{Result, Warnings};
pub use crate::terms::WireVersion;

/// A function in the form that wire 0.2 has.
#[derive(Debug, Clone, Copy)]
pub struct Wire02Function {
    name: &'static str,
    fields: &'static request::KnownFields,
}

/// The paths of a request, which its result repeats.
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
    /// `None` if nothing has to be translated: in the current wire, and for functions that wire 0.2 does not have.
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
    /// Removes fields that wire 0.2 does not have from a reading request, and refuses them in a changing one (C210). Guards
    /// and `base_dir` stay. Adds the defaults of wire 0.2 where they differ from the current ones.
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
