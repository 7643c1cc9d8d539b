//! The edit distance of two names, for "did you mean". Runs wherever a misspelt name is answered. Pure.
//! Takes time proportional to the product of both lengths; callers bound them.

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
pub fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_the_textbook_does() {
        let count = |a: &str, b: &str| edit_distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, n) in [("kitten", "sitting", 3), ("", "abc", 3), ("ab", "ba", 1), ("same", "same", 0)] {
            assert_eq!((count(a, b), count(b, a)), (n, n));
        }
    }
}
