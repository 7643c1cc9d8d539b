//! Finds the name for "did you mean" after a client has sent an unknown one. Pure. Does not trust the name: its length is
//! bounded before anything is compared.

use crate::edit_distance::edit_distance;

/// Longer names get no suggestion, so the comparison costs at most this squared per candidate.
const MAX_NAME_BYTES: usize = 64;

/// Shorter names are part of too many other names for that to mean anything.
const MIN_CONTAINED_CHARS: usize = 4;

/// The candidate that the sender of `name` most likely meant; `None` if no candidate is near.
///
/// Three mistakes count as near: a typo (few edits), other word order or style (`fromLine` for `line_from`), and a missing or
/// an additional word (`filepath` for `path`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    let sent = ComparableName::of(name);
    let near = candidates.into_iter().filter_map(|c| Some((sent.distance(&ComparableName::of(c))?, c)));
    // Takes the first of several equal ones, so the order of the candidates decides.
    near.min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Like `nearest`, for function names. Ignores their common prefix, whose letters would count as equal and make `coder::stat`
/// the nearest name to `coder::list`.
pub fn nearest_function<'a>(name: &str, offered: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    fn bare(name: &str) -> &str {
        name.strip_prefix("coder::").unwrap_or(name)
    }
    let offered: Vec<&str> = offered.into_iter().collect();
    let near = nearest(bare(name), offered.iter().map(|name| bare(name)))?;
    offered.into_iter().find(|name| bare(name) == near)
}

/// The names that the writer of one most likely meant, of any number that are offered one by one.
#[derive(Debug)]
pub struct NearNames {
    sent: ComparableName,
    max_names: usize,
    /// Distance and shown text, the nearest first.
    near: Vec<(usize, String)>,
}

impl NearNames {
    /// None for a name to which none is near: it is empty or too long.
    pub fn new(name: &str, max_names: usize) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        fits.then(|| Self { sent: ComparableName::of(name), max_names, near: Vec::new() })
    }

    /// `show` makes the text that is kept if the name is near.
    pub fn offer(&mut self, name: &str, show: impl FnOnce() -> String) {
        let Some(distance) = self.sent.distance(&ComparableName::of(name)) else { return };
        let found = (distance, show());
        let at = self.near.partition_point(|kept| *kept < found);
        if at < self.max_names {
            self.near.insert(at, found);
            self.near.truncate(self.max_names);
        }
    }

    pub fn into_names(self) -> Vec<String> {
        self.near.into_iter().map(|(_, name)| name).collect()
    }
}

/// A name without its style.
#[derive(Debug)]
/// A name without the differences of style: case and separators.
struct ComparableName {
    plain: Vec<char>,
    sorted: Vec<char>,
}

impl ComparableName {
    fn of(name: &str) -> Self {
        let mut words: Vec<String> = vec![String::new()];
        for c in name.chars() {
            let starts_word = !c.is_alphanumeric() || c.is_uppercase();
            if starts_word && words.last().is_some_and(|w| !w.is_empty()) {
                words.push(String::new());
            }
            if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
                word.extend(c.to_lowercase());
            }
        }
        let plain = words.concat().chars().collect();
        words.sort_unstable();
        Self { plain, sorted: words.concat().chars().collect() }
    }

    /// The number of edits between the names, or `None` if they are not near.
    fn distance(&self, other: &Self) -> Option<usize> {
        let (shorter, longer) = if self.plain.len() <= other.plain.len() { (self, other) } else { (other, self) };
        let n = shorter.plain.len();
        // Each letter that one of them has more is an edit, so most names need no comparison.
        let surplus = longer.plain.len() - n;
        if surplus <= n / 3 {
            let edits = edit_distance(&self.plain, &other.plain).min(edit_distance(&self.sorted, &other.sorted));
            // A third of the letters may differ; a name of two letters allows none but its style.
            if edits <= n / 3 {
                return Some(edits);
            }
        }
        let inside = n >= MIN_CONTAINED_CHARS && longer.plain.windows(n).any(|w| w == shorter.plain);
        inside.then_some(surplus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 7] = ["path", "paths", "line_from", "line_to", "stat", "max_output_bytes", "op"];

    #[test]
    fn slips_that_agents_make_find_their_field() {
        for (sent, meant) in [
            ("filepath", "path"),
            ("file_path", "path"),
            ("pth", "path"),
            ("Paths", "paths"),
            ("lineFrom", "line_from"),
            ("from_line", "line_from"),
            ("fromLine", "line_from"),
            ("line-to", "line_to"),
            ("lnie_from", "line_from"),
            ("output_bytes", "max_output_bytes"),
        ] {
            assert_eq!(nearest(sent, FIELDS), Some(meant), "{sent}");
        }
    }

    #[test]
    fn the_nearest_few_of_many_are_kept_in_order() {
        let mut near = NearNames::new("main.rs", 3).unwrap();
        for name in ["lib.rs", "domain.rs", "Main.rs", "mian.rs", "maint.rs", "remain.rs", "", "src"] {
            near.offer(name, || format!("src/{name}"));
        }
        assert_eq!(near.into_names(), ["src/Main.rs", "src/maint.rs", "src/mian.rs"]);
        assert!(NearNames::new("", 3).is_none() && NearNames::new(&"x".repeat(65), 3).is_none());
    }

    #[test]
    fn far_names_get_no_suggestion() {
        for sent in ["recursive", "x", "", "encoding", "ab", "___", &"path".repeat(100)] {
            assert_eq!(nearest(sent, FIELDS), None, "{sent}");
        }
    }

    #[test]
    fn functions_are_compared_without_what_they_share() {
        let offered = ["coder::info", "coder::read-file", "coder::list-folder", "coder::tree", "coder::stat"];
        for (sent, meant) in [
            ("coder::list", Some("coder::list-folder")),
            ("list_folder", Some("coder::list-folder")),
            ("coder::stats", Some("coder::stat")),
            ("coder_read_file", Some("coder::read-file")),
            ("coder::move", None),
            ("coder::", None),
        ] {
            assert_eq!(nearest_function(sent, offered), meant, "{sent}");
        }
    }
}
