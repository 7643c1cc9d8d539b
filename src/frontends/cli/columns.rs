//! Names in columns, filled downwards as `ls` does. Pure.

use super::escape::display_width;

const GAP: usize = 2;

/// One cell: the text that is measured, and the printed text, which is the same with colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) plain: String,
    pub(super) painted: String,
}

/// Lays `cells` out in as few lines as fit into `columns`.
pub(super) fn lay_out(cells: &[Cell], columns: usize) -> String {
    let widths: Vec<usize> = cells.iter().map(|cell| display_width(&cell.plain)).collect();
    let rows = fewest_rows(&widths, columns);
    let mut text = String::new();
    for row in 0..rows {
        let mut pad = 0;
        for (column, at) in (row..cells.len()).step_by(rows).enumerate() {
            text.extend(std::iter::repeat_n(' ', pad));
            text.push_str(&cells[at].painted);
            let column_width = widths.iter().skip(column * rows).take(rows).max().copied().unwrap_or(0);
            pad = column_width + GAP - widths[at];
        }
        text.push('\n');
    }
    text
}

/// Joins items, each line indented, and begins a new line where the next item does not fit. Without a width it makes one
/// line.
pub(super) fn wrap_items<'a>(
    items: impl IntoIterator<Item = &'a str>,
    gap: &str,
    indent: usize,
    columns: Option<usize>,
) -> String {
    let columns = columns.unwrap_or(usize::MAX);
    let (mut text, mut at) = (String::new(), 0);
    for item in items {
        let needs = display_width(item);
        if at > indent && at + gap.len() + needs > columns {
            text.push('\n');
            at = 0;
        }
        let before = if at == 0 { &" ".repeat(indent) } else { gap };
        text.push_str(before);
        text.push_str(item);
        at += before.len() + needs;
    }
    text.push('\n');
    text
}

fn fewest_rows(widths: &[usize], columns: usize) -> usize {
    let narrowest = widths.iter().min().copied().unwrap_or(0) + GAP;
    // More columns than this cannot fit, so the search starts there. It is linear for a page of any names.
    let most_columns = (columns + GAP) / narrowest.max(1);
    let first = widths.len().div_ceil(most_columns.max(1));
    (first..widths.len()).find(|rows| fits(widths, *rows, columns)).unwrap_or(widths.len())
}

fn fits(widths: &[usize], rows: usize, columns: usize) -> bool {
    let total: usize = widths.chunks(rows).map(|column| column.iter().max().copied().unwrap_or(0) + GAP).sum();
    total <= columns + GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lay(names: &[&str], columns: usize) -> String {
        let cell = |name: &&str| Cell { plain: (*name).into(), painted: (*name).into() };
        lay_out(&names.iter().map(cell).collect::<Vec<_>>(), columns)
    }

    #[test]
    fn names_run_down_the_columns() {
        assert_eq!(lay(&["a", "b", "c", "d", "e"], 7), "a  c  e\nb  d\n");
    }

    #[test]
    fn everything_on_one_line_when_it_fits_exactly() {
        assert_eq!(lay(&["aa", "bb"], 6), "aa  bb\n");
        assert_eq!(lay(&["aa", "bb"], 5), "aa\nbb\n");
    }

    #[test]
    fn a_name_wider_than_the_terminal_gets_its_own_line() {
        assert_eq!(lay(&["short", "much-too-long-name"], 10), "short\nmuch-too-long-name\n");
    }

    #[test]
    fn items_flow_until_the_line_is_full() {
        let flow = |columns| wrap_items(["aaa", "bb", "much-too-long", "c"], "  ", 1, columns);
        assert_eq!(flow(Some(8)), " aaa  bb\n much-too-long\n c\n");
        assert_eq!(flow(Some(7)), " aaa\n bb\n much-too-long\n c\n");
        assert_eq!(flow(None), " aaa  bb  much-too-long  c\n");
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(lay(&[], 80), "");
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let cell = |plain: &str| Cell { plain: plain.into(), painted: format!("<{plain}>") };
        assert_eq!(lay_out(&[cell("a"), cell("bb"), cell("c")], 5), "<a>   <c>\n<bb>\n");
    }
}
