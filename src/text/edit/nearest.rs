//! The lines of a file that are most like a text which is not in it, and what differs. Linear in the file; of the text, the first
//! lines count, and of long lines the first bytes.

use std::collections::HashMap;

use crate::text::{lines, number};

/// Lines of the wanted text that are compared.
const MAX_WANTED_LINES: usize = 200;
/// Lines shown, and bytes of each.
const MAX_SHOWN_LINES: usize = 10;
const MAX_SHOWN_BYTES: usize = 1000;
/// Lines shown before the first one that differs, if not all fit.
const LINES_BEFORE: usize = 2;
/// Bytes of a line that are compared.
const MAX_COMPARED_BYTES: usize = 512;
/// Lines between two checks of the clock.
const CHECK_EVERY: usize = 4096;
/// A shorter line, such as a brace, says nothing about the position.
const LEAST_LINE_BYTES: usize = 2;
/// Positions in the file that can be counted. A line of the wanted text that is all over the file must not use up the memory.
const MAX_POSITIONS: usize = 1 << 14;
/// Most differences between text and file that an error lists.
const MAX_NAMED: usize = 4;
/// The least likeness of a line that is shown, in millionths.
const LEAST_SCORE: u64 = 400_000;

/// Lines of the file that are most like the wanted text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nearest {
    /// Number of the first line, 1-based.
    pub from_line: u64,
    /// As in the file, without terminators. What is not UTF-8 is replaced, and a very long line is cut and ends with `…`.
    pub lines: Vec<String>,
    /// Names the differences, for the error text.
    pub differs: String,
}

/// None if no line has much in common with the wanted text, or if the time is up.
pub(super) fn find(body: &[u8], wanted: &str, goes_on: &dyn Fn() -> bool) -> Option<Nearest> {
    let stripped = number::without_prefixes(wanted);
    let text = stripped.as_deref().unwrap_or(wanted);
    let all: Vec<&[u8]> = lines::lines(text.as_bytes()).take(MAX_WANTED_LINES).collect();
    let blank_lines = all.iter().take_while(|line| line.trim_ascii().is_empty()).count();
    let wanted_lines = &all[blank_lines..];
    let first = match by_equal_lines(body, wanted_lines, goes_on) {
        Some(first) => first,
        None => by_likeness(body, wanted_lines, goes_on)?,
    };
    // The beginning of the wanted text may lie before the file.
    let skipped = usize::try_from(-first).unwrap_or(0);
    let from = usize::try_from(first).unwrap_or(0);
    let start = (0..from).fold(0, |start, _| lines::end_at(body, start));
    let there: Vec<&[u8]> = lines::lines(&body[start..]).take(wanted_lines.len().saturating_sub(skipped)).collect();
    let pairs: Vec<Pair<'_>> =
        wanted_lines.get(skipped..)?.iter().zip(&there).map(|(old, file)| Pair { old, file }).collect();
    let last = (wanted_lines.len() - skipped).checked_sub(1)?;
    let differences: Vec<Option<Difference>> =
        pairs.iter().enumerate().map(|(at, pair)| pair.difference(at == 0 && skipped == 0, at == last)).collect();
    let first_differing = differences.iter().position(Option::is_some).unwrap_or(0);
    let shown_from = if pairs.len() <= MAX_SHOWN_LINES { 0 } else { first_differing.saturating_sub(LINES_BEFORE) };
    let mut differs: Vec<String> = Vec::new();
    if stripped.is_some() {
        differs.push("old has line numbers before its lines".into());
    }
    for (at, difference) in differences.iter().enumerate() {
        let words = match difference {
            None => continue,
            // Of a single line there is nothing more to say.
            Some(Difference::Other) if there.len() == 1 => continue,
            Some(Difference::Other) => format!("line {}", from + at + 1),
            Some(difference) => difference.words().to_owned(),
        };
        if !differs.contains(&words) && differs.len() < MAX_NAMED {
            differs.push(words);
        }
    }
    if there.len() < wanted_lines.len() - skipped {
        differs.push("old goes on where the file ends".into());
    }
    let shown = there.iter().skip(shown_from).take(MAX_SHOWN_LINES).map(|line| shown(line)).collect();
    Some(Nearest { from_line: (from + shown_from) as u64 + 1, lines: shown, differs: differs.join(", ") })
}

fn shown(line: &[u8]) -> String {
    let text = lines::text_of(line);
    let cut = String::from_utf8_lossy(&text[..text.len().min(MAX_SHOWN_BYTES)]);
    if text.len() > MAX_SHOWN_BYTES { format!("{cut}…") } else { cut.into_owned() }
}

/// A line of the wanted text and the line of the file at its position.
struct Pair<'a> {
    old: &'a [u8],
    file: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    TabsForSpaces,
    SpacesForTabs,
    Indentation,
    TrailingSpace,
    InnerSpace,
    Quotes,
    Case,
    LineEnd,
    FinalNewline,
    Other,
}

impl Difference {
    fn words(self) -> &'static str {
        match self {
            Self::TabsForSpaces => "indentation (spaces in the file, tabs in old)",
            Self::SpacesForTabs => "indentation (tabs in the file, spaces in old)",
            Self::Indentation => "indentation",
            Self::TrailingSpace => "white space at the end of a line",
            Self::InnerSpace => "white space inside a line",
            Self::Quotes => "quotation marks",
            Self::Case => "upper and lower case",
            Self::LineEnd => "line ends (CR LF in old, LF in the file)",
            Self::FinalNewline => "the end (a newline in old, none in the file)",
            Self::Other => "another text",
        }
    }
}

impl Pair<'_> {
    /// The text may begin inside its first line and end inside its last one.
    fn difference(&self, is_first: bool, is_last: bool) -> Option<Difference> {
        let (old, file) = (lines::text_of(self.old), lines::text_of(self.file));
        let is_equal = |old: &[u8], file: &[u8]| {
            old == file
                || (is_first && file.ends_with(old))
                || (is_last && !self.old.ends_with(b"\n") && file.starts_with(old))
        };
        if is_equal(old, file) {
            return self.difference_of_ends();
        }
        if old.trim_ascii_end() == file.trim_ascii_end() {
            return Some(Difference::TrailingSpace);
        }
        if old.trim_ascii() == file.trim_ascii() {
            return Some(match (old.first(), file.first()) {
                (Some(b'\t'), Some(b' ')) => Difference::TabsForSpaces,
                (Some(b' '), Some(b'\t')) => Difference::SpacesForTabs,
                _ => Difference::Indentation,
            });
        }
        let equal_as = |form: fn(&[u8]) -> String| is_equal(form(old).as_bytes(), form(file).as_bytes());
        if equal_as(|line| with_single_spaces(&String::from_utf8_lossy(line))) {
            Some(Difference::InnerSpace)
        } else if equal_as(normal) {
            Some(Difference::Quotes)
        } else if equal_as(|line| normal(line).to_lowercase()) {
            Some(Difference::Case)
        } else {
            Some(Difference::Other)
        }
    }

    fn difference_of_ends(&self) -> Option<Difference> {
        match (lines::Terminator::at_end_of(self.old), lines::Terminator::at_end_of(self.file)) {
            (Some(lines::Terminator::CrLf), Some(lines::Terminator::Lf)) => Some(Difference::LineEnd),
            (Some(_), None) => Some(Difference::FinalNewline),
            _ => None,
        }
    }
}

fn with_single_spaces(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first bytes of a line with single spaces, and with straight quotation marks of one kind.
fn normal(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_COMPARED_BYTES)]);
    let straight = |c: char| match c {
        '"' | '`' | '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}' => '\'',
        other => other,
    };
    with_single_spaces(&line.chars().map(straight).collect::<String>())
}

/// The line of the file, 0-based and perhaps negative, where the wanted text would begin so that most of its lines meet an equal
/// one. Lines that the text has twice do not count, because they say nothing about the position.
fn by_equal_lines(body: &[u8], wanted: &[&[u8]], goes_on: &dyn Fn() -> bool) -> Option<i64> {
    let mut known: HashMap<String, Option<i64>> = HashMap::new();
    for (at, line) in wanted.iter().enumerate() {
        let normal = normal(line);
        if normal.len() >= LEAST_LINE_BYTES {
            known.entry(normal).and_modify(|at| *at = None).or_insert(Some(at as i64));
        }
    }
    let mut votes: HashMap<i64, u32> = HashMap::new();
    for (at, line) in lines::lines(body).enumerate() {
        if at % CHECK_EVERY == 0 && !goes_on() {
            return None;
        }
        if line.trim_ascii().len() < LEAST_LINE_BYTES {
            continue;
        }
        let Some(Some(position)) = known.get(&normal(line)) else { continue };
        let first = at as i64 - position;
        if votes.len() < MAX_POSITIONS || votes.contains_key(&first) {
            *votes.entry(first).or_default() += 1;
        }
    }
    let best = votes.into_iter().max_by_key(|(first, votes)| (*votes, -first));
    best.map(|(first, _)| first)
}

/// The same by the line that is most like the longest wanted one.
fn by_likeness(body: &[u8], wanted: &[&[u8]], goes_on: &dyn Fn() -> bool) -> Option<i64> {
    let (position, longest) =
        wanted.iter().enumerate().max_by_key(|(at, line)| (line.trim_ascii().len(), std::cmp::Reverse(*at)))?;
    let mut likeness = Likeness::to(longest);
    let (mut best, mut best_score) = (None, LEAST_SCORE);
    for (at, line) in lines::lines(body).enumerate() {
        if at % CHECK_EVERY == 0 && !goes_on() {
            return None;
        }
        let score = likeness.score(line);
        if score > best_score {
            (best, best_score) = (Some(at as i64 - position as i64), score);
        }
    }
    best
}
/// Pairs of neighbouring bytes that two lines share: cheap, and blind to where in the line they differ.
struct Likeness {
    /// How often each pair occurs in the wanted line.
    pairs: Vec<u16>,
    len: usize,
    taken: Vec<u16>,
}

impl Likeness {
    fn to(line: &[u8]) -> Self {
        let mut pairs = vec![0; 1 << 16];
        pairs_of(line).for_each(|pair| pairs[usize::from(pair)] += 1);
        Self { pairs, len: pairs_of(line).count(), taken: Vec::new() }
    }

    /// Twice the shared pairs over all pairs, in millionths.
    fn score(&mut self, line: &[u8]) -> u64 {
        let mut len = 0;
        for pair in pairs_of(line) {
            len += 1;
            let left = &mut self.pairs[usize::from(pair)];
            if *left > 0 {
                *left -= 1;
                self.taken.push(pair);
            }
        }
        let shared = self.taken.len() as u64;
        self.taken.drain(..).for_each(|pair| self.pairs[usize::from(pair)] += 1);
        2_000_000 * shared / (self.len + len).max(1) as u64
    }
}

fn pairs_of(line: &[u8]) -> impl Iterator<Item = u16> {
    let line = line.trim_ascii();
    line[..line.len().min(MAX_COMPARED_BYTES)].windows(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "fn main() {\n    let total = count(&items);\r\n    println!(\"{total}\");\n}\n";

    #[track_caller]
    fn assert_nearest(body: &str, wanted: &str, from_line: u64, shown: &[&str], differs: &str) {
        let found = find(body.as_bytes(), wanted, &|| true).unwrap_or_else(|| panic!("{wanted:?}"));
        assert_eq!(
            (found.from_line, found.lines, found.differs.as_str()),
            (from_line, shown.iter().map(|line| (*line).to_owned()).collect(), differs)
        );
    }

    #[test]
    fn each_kind_of_difference_is_named() {
        for (wanted, line, shown, differs) in [
            (
                "\tlet total = count(&items);\n",
                2,
                "    let total = count(&items);",
                "indentation (spaces in the file, tabs in old)",
            ),
            ("      let total = count(&items);\n", 2, "    let total = count(&items);", "indentation"),
            (
                "    let total = count(&items);  \n",
                2,
                "    let total = count(&items);",
                "white space at the end of a line",
            ),
            ("    let  total = count(&items);\n", 2, "    let total = count(&items);", "white space inside a line"),
            ("    println!(\u{201c}{total}\u{201d});\n", 3, "    println!(\"{total}\");", "quotation marks"),
            ("    println!('{total}');\n", 3, "    println!(\"{total}\");", "quotation marks"),
            ("fn Main() {\n", 1, "fn main() {", "upper and lower case"),
            ("fn main() {\r\n", 1, "fn main() {", "line ends (CR LF in old, LF in the file)"),
            ("    let total = count(items);\n", 2, "    let total = count(&items);", ""),
        ] {
            assert_nearest(BODY, wanted, line, &[shown], differs);
        }
        assert_nearest(
            "a line\nlast line",
            "last line\n",
            2,
            &["last line"],
            "the end (a newline in old, none in the file)",
        );
        assert_nearest(
            "a\n\tgo(now)\n",
            "7→  go(now)\n8→end\n",
            2,
            &["\tgo(now)"],
            "old has line numbers before its lines, indentation (tabs in the file, spaces in old), old goes on where the file ends",
        );
    }

    #[test]
    fn the_position_is_that_where_most_lines_are_equal() {
        let body = "begin\nsame\nend\n\nbegin\nother\nlast\nend\n";
        assert_nearest(body, "begin\nothr\nlast\nend", 5, &["begin", "other", "last", "end"], "line 6");
        assert_nearest(body, "before\nbegin\nsame\nEND\n", 1, &["begin", "same", "end"], "upper and lower case");
    }

    #[test]
    fn of_a_long_text_ten_lines_around_the_first_difference_are_shown() {
        let body: String = (1..=40).map(|n| format!("line number {n}\n")).collect();
        let wanted: String =
            (5..=30).map(|n| if n == 20 { "changed\n".into() } else { format!("line number {n}\n") }).collect();
        let found = find(body.as_bytes(), &wanted, &|| true).unwrap();
        assert_eq!((found.from_line, found.lines.len(), found.differs.as_str()), (18, 10, "line 20"));
        assert_eq!(found.lines[2], "line number 20");
    }

    #[test]
    fn nothing_is_nearest_where_little_is_shared_or_time_is_up() {
        for wanted in ["qqq", "\n \n", "something else altogether"] {
            assert_eq!(find(BODY.as_bytes(), wanted, &|| true), None, "{wanted:?}");
        }
        assert_eq!(find(b"", "abc", &|| true), None);
        assert_eq!(find(b"abc\n", "abd", &|| false), None);
        assert_eq!(find(b"abcd\n", "abce", &|| true).unwrap().lines, ["abcd"]);
    }

    #[test]
    fn a_very_long_line_is_cut() {
        let body = format!("{}\n", "word ".repeat(1000));
        let found = find(body.as_bytes(), &"word ".repeat(999), &|| true).unwrap();
        assert_eq!(found.lines[0].chars().count(), MAX_SHOWN_BYTES + 1);
    }

    #[test]
    fn a_line_that_is_everywhere_does_not_use_up_the_memory() {
        let body = "    same line\n".repeat(100_000);
        let found = find(body.as_bytes(), "same line\nno such line\n", &|| true).unwrap();
        assert_eq!(found.from_line, 1);
    }
}
