//! The line of a file that is most like a text which is not in it. Linear in the file; long lines count by their
//! beginning.

use memchr::memmem;

use crate::text::lines;

/// Lines of the wanted text that are searched for the one that is wrong.
const MAX_SEARCHED_LINES: usize = 50;
/// Bytes of a line that are compared.
const MAX_COMPARED_BYTES: usize = 512;
/// Lines between two checks for cancellation.
const CHECK_EVERY: usize = 4096;

/// The number and the text of the most similar line. None if no line has anything in common with the wanted text, or if the
/// call is over.
pub(super) fn find<'b>(body: &'b [u8], wanted: &[u8], goes_on: &dyn Fn() -> bool) -> Option<(u64, &'b [u8])> {
    let wanted = lines::lines(wanted).map(|line| lines::text_of(line).trim_ascii()).filter(|line| !line.is_empty());
    let first = wanted.clone().next()?;
    // A line that differs tells the client more than one that is in the file.
    let missing =
        wanted.take(MAX_SEARCHED_LINES).find(|line| !goes_on() || memmem::find(body, line).is_none()).unwrap_or(first);
    if let Some(at) = memmem::find(body, missing) {
        let start = lines::start_at(body, at);
        return Some((lines::number_at(body, at), lines::text_of(&body[start..lines::end_at(body, at)])));
    }
    let mut likeness = PairSimilarity::to(missing);
    let mut best = None;
    let mut best_score = 0;
    for (index, line) in lines::lines(body).enumerate() {
        if index % CHECK_EVERY == 0 && !goes_on() {
            return best;
        }
        let text = lines::text_of(line);
        let score = likeness.score(text);
        if score > best_score {
            best_score = score;
            best = Some((index as u64 + 1, text));
        }
    }
    best
}

/// Pairs of neighbouring bytes that two lines share: cheap, and blind to where in the line they differ.
struct PairSimilarity {
    /// How often each pair of characters occurs in the wanted line.
    pairs: Vec<u16>,
    len: usize,
    taken: Vec<u16>,
}

impl PairSimilarity {
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

    fn nearest(body: &str, wanted: &str) -> Option<(u64, String)> {
        let found = find(body.as_bytes(), wanted.as_bytes(), &|| true);
        found.map(|(number, line)| (number, String::from_utf8_lossy(line).into_owned()))
    }

    const BODY: &str = "fn main() {\n    let total = count(&items);\r\n    println!(\"{total}\");\n}\n";

    #[test]
    fn a_small_difference_is_found_with_its_line() {
        let line = Some((2, "    let total = count(&items);".to_owned()));
        assert_eq!(nearest(BODY, "let total = count(items);"), line);
        assert_eq!(nearest(BODY, "\tlet total  = count(&items);"), line);
    }

    #[test]
    fn of_several_lines_the_one_that_differs_counts() {
        let wanted = "fn main() {\n    let total = count(&items);\n    println!(\"{}\", total);\n";
        assert_eq!(nearest(BODY, wanted), Some((3, "    println!(\"{total}\");".to_owned())));
    }

    #[test]
    fn lines_that_are_there_but_not_together_are_told_by_the_first() {
        assert_eq!(nearest(BODY, "}\nfn main() {\n"), Some((3, "    println!(\"{total}\");".to_owned())));
        assert_eq!(nearest(BODY, "fn main() {\n}\n"), Some((1, "fn main() {".to_owned())));
    }

    #[test]
    fn nothing_is_nearest_where_nothing_is_shared() {
        assert_eq!(nearest(BODY, "qqq"), None);
        assert_eq!(nearest("", "abc"), None);
        assert_eq!(nearest(BODY, "\n \n"), None);
    }

    #[test]
    fn who_does_not_wait_hears_nothing() {
        assert_eq!(find(b"abc\n", b"abd", &|| false), None);
    }
}
