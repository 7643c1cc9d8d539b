//! Rules that read this source tree: imports and sizes, documents, and the golden files of the wire.

mod architecture;
mod docs;
mod golden;
#[path = "../support/mod.rs"]
mod support;
