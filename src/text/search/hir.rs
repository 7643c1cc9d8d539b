//! A pattern's syntax tree, made fit for searching many lines at once.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, LookSet,
    Repetition,
};

/// For a finder: what it matches in a region contains every match that a line has by itself.
pub(super) struct LineFinder {
    pub(super) hir: Hir,
    /// A match of it in a line that does not end with CR is a match of the pattern.
    pub(super) is_exact: bool,
    /// It asks where lines end.
    pub(super) sees_ends: bool,
}

/// The pattern can only match a line break, which is not part of any line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeedsNewline;

pub(super) fn for_lines(hir: Hir) -> Result<LineFinder, NeedsNewline> {
    let sees_ends = sees_ends(&hir);
    let mut is_exact = true;
    let hir = rewrite_for_lines(hir, &mut |look| finder_look(look, &mut is_exact))?;
    Ok(LineFinder { hir, is_exact, sees_ends })
}

/// True if the pattern contains an assertion about the end of a line or of the text.
pub(super) fn sees_ends(hir: &Hir) -> bool {
    let ends = LookSet::empty().insert(Look::End).insert(Look::EndLF).insert(Look::EndCRLF);
    !hir.properties().look_set().intersect(ends).is_empty()
}

/// For one line by itself, without its terminator.
pub(super) fn for_line(hir: Hir) -> Result<Hir, NeedsNewline> {
    rewrite_for_lines(hir, &mut |look| match look {
        Look::Start | Look::StartLF | Look::StartCRLF => Hir::look(Look::StartLF),
        Look::End | Look::EndLF | Look::EndCRLF => before_line_end(1),
        other => Hir::look(other),
    })
}

/// Recursion is bounded by the parser's nest limit.
fn rewrite_for_lines(hir: Hir, look: &mut dyn FnMut(Look) -> Hir) -> Result<Hir, NeedsNewline> {
    Ok(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => return Err(NeedsNewline),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(without_terminators(class)),
        HirKind::Look(one) => look(one),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(rewrite_for_lines(*sub, look)?) })
        }
        // Nobody asks for groups.
        HirKind::Capture(Capture { sub, .. }) => rewrite_for_lines(*sub, look)?,
        HirKind::Concat(subs) => Hir::concat(each(subs, |sub| rewrite_for_lines(sub, look))?),
        HirKind::Alternation(subs) => Hir::alternation(each(subs, |sub| rewrite_for_lines(sub, look))?),
    })
}

fn each(subs: Vec<Hir>, map: impl FnMut(Hir) -> Result<Hir, NeedsNewline>) -> Result<Vec<Hir>, NeedsNewline> {
    subs.into_iter().map(map).collect()
}

/// `^` and `$` become those of a line, however they were written. Word boundaries are dropped: without them more lines match,
/// never fewer, and a DFA need not give up at the first character that is not ASCII.
fn finder_look(look: Look, is_exact: &mut bool) -> Hir {
    match look {
        Look::Start | Look::StartLF | Look::StartCRLF => Hir::look(Look::StartLF),
        Look::End | Look::EndLF | Look::EndCRLF => {
            *is_exact = false;
            // One is part of the terminator, one may be the line's own last character.
            before_line_end(2)
        }
        Look::WordAscii
        | Look::WordAsciiNegate
        | Look::WordStartAscii
        | Look::WordEndAscii
        | Look::WordStartHalfAscii
        | Look::WordEndHalfAscii => Hir::look(look),
        _ => {
            *is_exact = false;
            Hir::empty()
        }
    }
}

/// The end of a line is in front of LF and of CR LF, and of a CR that ends a text: so ripgrep has it.
fn before_line_end(most_cr: u32) -> Hir {
    let cr = Repetition { min: 0, max: Some(most_cr), greedy: false, sub: Box::new(Hir::literal(&b"\r"[..])) };
    Hir::concat(vec![Hir::repetition(cr), Hir::look(Look::EndLF)])
}

/// Like `--crlf` of ripgrep: no class and no dot matches a part of a terminator.
fn without_terminators(class: Class) -> Class {
    match class {
        Class::Unicode(mut class) => {
            let terminators = ['\n', '\r'].map(|c| ClassUnicodeRange::new(c, c));
            class.difference(&ClassUnicode::new(terminators));
            Class::Unicode(class)
        }
        Class::Bytes(mut class) => {
            let terminators = [b'\n', b'\r'].map(|byte| ClassBytesRange::new(byte, byte));
            class.difference(&ClassBytes::new(terminators));
            Class::Bytes(class)
        }
    }
}

/// For matches over several lines: only `$` learns about CR LF.
pub(super) fn for_whole(hir: Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Look(Look::EndLF | Look::EndCRLF) => before_line_end(1),
        HirKind::Look(Look::StartCRLF) => Hir::look(Look::StartLF),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(for_whole(*sub)) })
        }
        HirKind::Capture(Capture { sub, .. }) => for_whole(*sub),
        HirKind::Concat(subs) => Hir::concat(subs.into_iter().map(for_whole).collect()),
        HirKind::Alternation(subs) => Hir::alternation(subs.into_iter().map(for_whole).collect()),
    }
}

/// Only where no letter, digit or underscore stands directly before or behind.
pub(super) fn as_word(hir: Hir) -> Hir {
    Hir::concat(vec![Hir::look(Look::WordStartHalfUnicode), hir, Hir::look(Look::WordEndHalfUnicode)])
}
