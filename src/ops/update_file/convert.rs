//! Converts between the types of the wire and those of the text engine.

use crate::{
    jail::Call,
    ops::changes::EntryPosition,
    ops::pasted::Pasted,
    text::edit::{EVERY_MATCH, FileEditEcho, FileEditOp, RegexReplace, StrReplace},
    wire::{
        Result,
        types::update_file::{OpEcho, UpdateOp, Whitespace},
    },
};

/// Literal text must occur exactly once, unless the caller expects another number.
const DEFAULT_EXPECT_MATCHES: u64 = 1;

/// `strict`: a regular expression has to match, unless the caller expects otherwise.
pub(super) fn to_text_op(op: &UpdateOp, strict: bool) -> FileEditOp<'_> {
    match op {
        UpdateOp::Insert { at_line, content } => FileEditOp::Insert { at_line: (*at_line).into(), content },
        UpdateOp::Remove { from_line, to_line } => {
            FileEditOp::Remove { from_line: (*from_line).into(), to_line: (*to_line).into() }
        }
        UpdateOp::UpdateLines { from_line, to_line, content } => {
            FileEditOp::UpdateLines { from_line: (*from_line).into(), to_line: (*to_line).into(), content }
        }
        UpdateOp::Replace { pattern, replacement, ignore_case, dot_matches_newline, expect_matches } => {
            FileEditOp::Replace(RegexReplace {
                pattern,
                replacement,
                ignore_case: *ignore_case == Some(true),
                dot_matches_newline: *dot_matches_newline == Some(true),
                expect_matches: *expect_matches,
                must_match: strict,
            })
        }
        UpdateOp::StrReplace { old, new, expect_matches, all, whitespace } => {
            let default = if *all == Some(true) { EVERY_MATCH } else { DEFAULT_EXPECT_MATCHES };
            FileEditOp::StrReplace(StrReplace {
                old,
                new,
                expect_matches: expect_matches.unwrap_or(default),
                ignores_white_space: *whitespace == Some(Whitespace::Ignore),
            })
        }
        UpdateOp::Append { content } => FileEditOp::Append { content },
        UpdateOp::Prepend { content } => FileEditOp::Prepend { content },
    }
}

pub(super) fn to_op_echo(echo: FileEditEcho) -> OpEcho {
    OpEcho {
        op_index: to_u32(echo.op_index),
        from_line: echo.from_line,
        lines: echo.lines,
        elided: echo.elided,
        total_replacements: echo.total_replacements,
    }
}

/// The number of ops is bounded by the values in a frame, far below this.
pub(super) fn to_u32(ops: usize) -> u32 {
    u32::try_from(ops).unwrap_or(u32::MAX)
}

/// Applies the rule for pasted line numbers to the new text of all ops. Returns warnings without the position of the entry.
pub(super) fn check_pasted(pasted: Pasted, ops: &mut [UpdateOp]) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for (at, op) in ops.iter_mut().enumerate() {
        let (field, content) = match op {
            UpdateOp::Insert { content, .. }
            | UpdateOp::UpdateLines { content, .. }
            | UpdateOp::Append { content }
            | UpdateOp::Prepend { content } => ("content", content),
            UpdateOp::StrReplace { new, .. } => ("new", new),
            UpdateOp::Remove { .. } | UpdateOp::Replace { .. } => continue,
        };
        warnings.extend(pasted.apply(&format!("ops[{at}].{field}"), content)?);
    }
    Ok(warnings)
}

/// `"\b"` in JSON is a backspace, and almost never what was meant.
pub(super) fn warn_of_backspace(call: &mut Call, position: EntryPosition, ops: &[UpdateOp]) {
    for (at, op) in ops.iter().enumerate() {
        if matches!(op, UpdateOp::Replace { pattern, .. } if pattern.contains('\u{8}')) {
            call.warnings.push(format!(
                "{}.ops[{at}].pattern: holds a backspace (U+0008); a word boundary is \\\\b in JSON",
                position.text()
            ));
        }
    }
}
