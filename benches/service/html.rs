//! The report as one page that needs nothing else: no script, no font, no file beside it.

use std::fmt::Write as _;

use crate::{
    plot::{self, escape},
    report::{Report, Row},
};

const STYLE: &str = include_str!("report.css");

/// What a section is about, in a sentence, by the name of its measure.
pub type Titles<'a> = &'a [(&'static str, &'static str)];

pub fn page(report: &Report, titles: Titles<'_>) -> String {
    let met = report.rows.iter().filter(|row| row.is_met() == Some(true)).count();
    let missed = report.rows.iter().filter(|row| row.is_met() == Some(false)).count();
    let absent = report.rows.iter().filter(|row| row.measured.is_none()).count();
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>stockade: measurements</title><style>{STYLE}</style><main><h1>stockade: measurements</h1>\
         <p class=\"sum\"><b class=\"met\">{met}</b> targets met <b class=\"missed\">{missed}</b> missed \
         <b>{absent}</b> without an answer</p><dl>"
    );
    for (name, value) in &report.facts {
        write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)).unwrap();
    }
    html += "</dl><p>All that is compared was measured in turns, round by round. A dot is the median of the rounds' \
             ratios, its line goes from p10 to p90, the upright mark is the target. Below 1 we are faster. All scales \
             are logarithmic.</p>";
    for (section, title) in titles {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.section == *section).collect();
        let drawn: Vec<&Row> = rows.iter().copied().filter(|row| row.unit == "×" && row.measured.is_some()).collect();
        if !drawn.is_empty() {
            write!(html, "<h2>{}</h2><figure class=\"wide\">{}</figure>", escape(title), plot::ratios(&drawn)).unwrap();
        }
    }
    if !report.charts.is_empty() {
        html += "<h2>How cost grows</h2><div class=\"grid\">";
        for chart in &report.charts {
            write!(
                html,
                "<figure><figcaption>{} <small>{}</small></figcaption>{}<p class=\"legend\">{}</p></figure>",
                escape(chart.title),
                escape(chart.y),
                plot::growth(chart),
                plot::legend(chart)
            )
            .unwrap();
        }
        html += "</div>";
    }
    if !report.side_by_side.is_empty() {
        html += "<h2>The numbers behind the ratios</h2><div class=\"grid\">";
        for dots in &report.side_by_side {
            write!(
                html,
                "<figure><figcaption>{} <small>{}</small></figcaption>{}</figure>",
                escape(&dots.title),
                escape(dots.unit),
                plot::side_by_side(dots)
            )
            .unwrap();
        }
        html += "</div>";
    }
    html += "<h2>Everything</h2>";
    for (section, title) in titles {
        table(&mut html, title, report.rows.iter().filter(|row| row.section == *section));
    }
    html + "</main></html>\n"
}

fn table<'a>(html: &mut String, title: &str, rows: impl Iterator<Item = &'a Row>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    write!(
        html,
        "<table><caption>{}</caption><tr><th>measure<th>unit<th>p10<th>p50<th>p90<th>target<th><th>note</tr>",
        escape(title)
    )
    .unwrap();
    for row in rows {
        let [p10, p50, p90] = row.figures();
        let verdict = row.verdict();
        write!(
            html,
            "<tr class=\"{}\"><td>{}<td>{}<td>{p10}<td>{p50}<td>{p90}<td>{}<td>{verdict}<td>{}</tr>",
            verdict.to_lowercase(),
            escape(&row.name),
            escape(row.unit),
            escape(&row.target_text()),
            escape(&row.note)
        )
        .unwrap();
    }
    *html += "</table>";
}
