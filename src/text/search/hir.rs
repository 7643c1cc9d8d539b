//! A pattern's syntax tree, made fit for searching many lines at once.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
    LookSet, Repetition,
};

/// For a finder: what it matches in a region contains every match that a line has by itself.
pub(super) struct Finder {
    pub(super) hir: Hir,
    /// A match of it in a line that does not end with CR is a match of the pattern.
    pub(super) is_exact: bool,
    /// It asks where lines end.
    pub(super) sees_ends: bool,
}

/// The pattern can only match a line break, which is not part of any line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeedsNewline;

pub(super) fn for_lines(hir: Hir) -> Result<Finder, NeedsNewline> {
    let ends = LookSet::empty().insert(Look::End).insert(Look::EndLF).insert(Look::EndCRLF);
    let sees_ends = !hir.properties().look_set().intersect(ends).is_empty();
    let mut is_exact = true;
    let hir = lines(hir, &mut is_exact)?;
    Ok(Finder { hir, is_exact, sees_ends })
}

/// Recursion is bounded by the parser's nest limit.
fn lines(hir: Hir, is_exact: &mut bool) -> Result<Hir, NeedsNewline> {
    Ok(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => return Err(NeedsNewline),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(without_newline(class)),
        HirKind::Look(look) => line_look(look, is_exact),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(lines(*sub, is_exact)?) })
        }
        // Nobody asks for groups.
        HirKind::Capture(Capture { sub, .. }) => lines(*sub, is_exact)?,
        HirKind::Concat(subs) => Hir::concat(each(subs, |sub| lines(sub, is_exact))?),
        HirKind::Alternation(subs) => Hir::alternation(each(subs, |sub| lines(sub, is_exact))?),
    })
}

fn each(subs: Vec<Hir>, map: impl FnMut(Hir) -> Result<Hir, NeedsNewline>) -> Result<Vec<Hir>, NeedsNewline> {
    subs.into_iter().map(map).collect()
}

/// `^` and `$` are those of the line, whatever they were spelled. Word boundaries are left out: without them more
/// matches, never less, and a DFA need not give up at the first character that is not ASCII.
fn line_look(look: Look, is_exact: &mut bool) -> Hir {
    match look {
        Look::Start | Look::StartLF | Look::StartCRLF => Hir::look(Look::StartLF),
        Look::End | Look::EndLF | Look::EndCRLF => {
            *is_exact = false;
            before_line_end()
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

/// The end of a line is in front of LF and of CR LF.
fn before_line_end() -> Hir {
    let cr = Repetition { min: 0, max: Some(1), greedy: false, sub: Box::new(Hir::literal(&b"\r"[..])) };
    Hir::concat(vec![Hir::repetition(cr), Hir::look(Look::EndLF)])
}

fn without_newline(class: Class) -> Class {
    match class {
        Class::Unicode(mut class) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Class::Unicode(class)
        }
        Class::Bytes(mut class) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Class::Bytes(class)
        }
    }
}

/// For matches over several lines: only `$` learns about CR LF.
pub(super) fn for_whole(hir: Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Look(Look::EndLF | Look::EndCRLF) => before_line_end(),
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
