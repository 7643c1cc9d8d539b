//! Finding text in files. Pure: bytes come in regions of whole lines, matches go out.
//!
//! Two steps. A *finder* looks for the next candidate in a whole region at once, so that a file without one costs a
//! single pass at the speed of memory; only then lines are cut. What the finder found is confirmed on the line alone where
//! the finder is not exact: its form of a pattern says nothing about word boundaries, which are slow outside ASCII.
//! So a pattern is matched against each line without its terminator, and nothing spans lines unless `multiline` is on.

mod clip;
mod engine;
mod hir;
mod pattern;
mod repair;
mod required;
mod scan;
mod smart_case;

pub use clip::ClippedLine;
pub use engine::{MIN_UNCHECKED_BYTES, SearchAbort};
pub use pattern::{EngineBuffers, PatternOptions, SearchPattern};
pub use scan::{MatchedLines, ScanControl, ScanCut, ScanOptions, ScanOutcome, Scanner};
