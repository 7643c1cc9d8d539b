//! Searches text. Pure: bytes come in as regions of whole lines, matches go out.
//!
//! The search has two steps. A *finder* searches a whole region at once for the next candidate, so that a file without a
//! candidate costs a single pass at the speed of memory. Only then the text is split into lines. If the finder is not exact,
//! the candidate's line is matched again alone: the finder's form of a pattern omits word boundaries, which are slow outside
//! ASCII. So a pattern is matched against each line without its terminator, and no match spans lines unless `multiline` is
//! on.

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
