//! Runs in the worker: the older line of the wire, as a mode. Pure: JSON values in, JSON values out.
//! Trusts our own results; requests are a client's. Functions stay what they are; only how they are asked and answered
//! differs, so that a client written for that line works unchanged.

mod request;
mod response;

use serde_json::Value;

use super::{Result, Warnings};
pub use crate::terms::Wire;

/// A function as the older line knew it.
#[derive(Debug, Clone, Copy)]
pub struct Older {
    name: &'static str,
    fields: &'static request::Fields,
}

/// What a request said, for its result to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echo {
    /// `path` of the request itself.
    path: Option<String>,
    /// The paths of its entries.
    entries: Vec<Option<String>>,
    /// The folder of `base_dir`, relative to its root. The paths of the result are relative to it, as those of the request
    /// are.
    base: Option<String>,
}

impl Wire {
    /// None where nothing differs: in the current wire, and for functions that came later.
    pub fn older(self, function: &str) -> Option<Older> {
        match self {
            Self::Current => None,
            Self::V02 => request::find(function),
        }
    }
}

impl Echo {
    /// `base` is the folder of `base_dir` below its root; empty for the root itself.
    pub fn with_base(self, base: String) -> Self {
        Self { base: Some(base).filter(|base| !base.is_empty()), ..self }
    }
}

impl Older {
    /// Fields that the line does not know are taken out of a reading request and refused in a changing one (C210); guards
    /// and `base_dir` stay. What the line did differently by default is put in.
    pub fn request(self, params: &mut Value, warnings: &mut Warnings) -> Result<Echo> {
        request::adapt(self, params, warnings)
    }

    pub fn response(self, echo: Echo, mut result: Value) -> Value {
        response::adapt(self, echo, &mut result);
        result
    }
}

#[cfg(test)]
mod tests;
