//! Drawings: SVG as text, coloured by classes that the page defines. All scales are logarithmic, because what is
//! compared differs by factors.

use std::fmt::Write as _;

use crate::{
    report::{Chart, Row, SideBySide, Target, short},
    sample::Spread,
};

/// In the order of the page's colours; the same program has the same colour in every drawing.
const COLOURS: [&str; 9] = [
    "socket",
    "stockade mcp",
    "stockade search",
    "official MCP server",
    "rust-mcp-filesystem",
    "ripgrep",
    "rg --files",
    "fd",
    "/bin/true",
];

fn class(name: &str) -> String {
    let known = if name.starts_with("rg") { "ripgrep" } else { name };
    COLOURS.iter().position(|colour| *colour == known).map_or("other".into(), |place| format!("c{place}"))
}

/// From values to places on the page.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Whole powers of ten around all values.
    fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if low.is_finite() {
            Self { low, high: high.max(low + 1.0), from, to }
        } else {
            Self { low: 0.0, high: 1.0, from, to }
        }
    }

    fn at(&self, value: f64) -> f64 {
        let log = value.max(f64::MIN_POSITIVE).log10().clamp(self.low, self.high);
        self.from + (log - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power))
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// 1000 → 1k, 1000000 → 1M.
fn tick(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{}G", v / 1e9),
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}

/// A whisker from p10 to p90 and a dot at p50 for each ratio; left of 1 we are faster.
pub fn ratios(rows: &[&Row]) -> String {
    const LABELS: f64 = 430.0;
    const RIGHT: f64 = 940.0;
    const STEP: f64 = 22.0;
    let measured = |row: &Row| row.measured.expect("only rows with a number are drawn");
    let bound = |row: &Row| match row.target {
        Target::AtMost(bound) | Target::AtLeast(bound) => Some(bound),
        Target::None => None,
    };
    let values = rows.iter().flat_map(|row| {
        let Spread { p10, p90, .. } = measured(row);
        [p10, p90].into_iter().chain(bound(row))
    });
    let scale = Scale::around(values.chain([1.0]), LABELS + 10.0, RIGHT);
    let height = rows.len() as f64 * STEP + 30.0;
    let mut svg = format!("<svg viewBox=\"0 0 1010 {height}\" role=\"img\">");
    axis_x(&mut svg, &scale, 4.0, height - 24.0, "×");
    let one = scale.at(1.0);
    write!(svg, "<line class=\"one\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"4\" y2=\"{}\"/>", height - 24.0).unwrap();
    for (place, row) in rows.iter().enumerate() {
        let y = place as f64 * STEP + 16.0;
        let Spread { p10, p50, p90 } = measured(row);
        let verdict = match row.is_met() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "plain",
        };
        write!(
            svg,
            "<text class=\"label\" x=\"{LABELS}\" y=\"{:.1}\">{}</text>\
             <g class=\"{verdict}\"><line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/>\
             <circle cx=\"{:.1}\" cy=\"{y}\" r=\"4.5\"><title>{} ({}–{}) {}</title></circle></g>\
             <text class=\"value\" x=\"{}\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            escape(&row.name),
            scale.at(p10),
            scale.at(p90),
            scale.at(p50),
            short(p50),
            short(p10),
            short(p90),
            escape(&row.note),
            RIGHT + 12.0,
            y + 4.0,
            short(p50)
        )
        .unwrap();
        if let Some(bound) = bound(row) {
            let x = scale.at(bound);
            write!(svg, "<line class=\"target\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>", y - 8.0, y + 8.0)
                .unwrap();
        }
    }
    svg + "</svg>"
}

/// A dot for each of those that did the same, with a whisker from p10 to p90. No bars: a logarithmic scale has no zero
/// to begin them at.
pub fn side_by_side(dots: &SideBySide) -> String {
    const LABELS: f64 = 150.0;
    const RIGHT: f64 = 390.0;
    const STEP: f64 = 26.0;
    let values = dots.dots.iter().flat_map(|(_, spread)| [spread.p10, spread.p90]);
    let scale = Scale::around(values, LABELS + 8.0, RIGHT);
    let height = dots.dots.len() as f64 * STEP + 26.0;
    let mut svg = format!("<svg viewBox=\"0 0 460 {height}\" role=\"img\">");
    axis_x(&mut svg, &scale, 2.0, height - 22.0, "");
    for (place, (name, spread)) in dots.dots.iter().enumerate() {
        let y = place as f64 * STEP + 4.0;
        let middle = y + 9.0;
        if !spread.p50.is_finite() {
            write!(svg, "<text class=\"label\" x=\"{LABELS}\" y=\"{:.1}\">{name} –</text>", middle + 4.0).unwrap();
            continue;
        }
        let colour = class(name);
        write!(
            svg,
            "<text class=\"label\" x=\"{LABELS}\" y=\"{:.1}\">{}</text>\
             <line class=\"whisker {colour}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>\
             <circle class=\"{colour}\" cx=\"{:.1}\" cy=\"{middle}\" r=\"6\"/>\
             <text class=\"value\" x=\"{}\" y=\"{:.1}\">{}</text>",
            middle + 4.0,
            escape(name),
            scale.at(spread.p10),
            scale.at(spread.p90),
            scale.at(spread.p50),
            RIGHT + 8.0,
            middle + 4.0,
            short(spread.p50)
        )
        .unwrap();
    }
    svg + "</svg>"
}

/// Cost over size, both logarithmic: a straight line that rises by one square a square is cost per piece.
pub fn growth(chart: &Chart) -> String {
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 440.0;
    const BOTTOM: f64 = 250.0;
    let points = || chart.lines.iter().flat_map(|(_, points)| points);
    let x = Scale::around(points().map(|(x, _)| *x), LEFT, RIGHT);
    let y = Scale::around(points().flat_map(|(_, spread)| [spread.p10, spread.p90]), BOTTOM, 14.0);
    let mut svg = "<svg viewBox=\"0 0 460 290\" role=\"img\">".to_owned();
    axis_x(&mut svg, &x, 14.0, BOTTOM, "");
    for value in y.decades() {
        let place = y.at(value);
        write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>\
             <text class=\"label\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            place + 4.0,
            tick(value)
        )
        .unwrap();
    }
    write!(svg, "<text class=\"axis\" x=\"{RIGHT}\" y=\"286\">{}</text>", escape(chart.x)).unwrap();
    for (name, points) in &chart.lines {
        let class = class(name);
        let path: Vec<String> =
            points.iter().map(|(size, spread)| format!("{:.1},{:.1}", x.at(*size), y.at(spread.p50))).collect();
        write!(svg, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" ")).unwrap();
        for (size, Spread { p10, p50, p90 }) in points {
            let at = x.at(*size);
            write!(
                svg,
                "<line class=\"line {class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {} {} ({}–{}) at {}</title></circle>",
                y.at(*p10),
                y.at(*p90),
                y.at(*p50),
                escape(name),
                short(*p50),
                escape(chart.y),
                short(*p10),
                short(*p90),
                tick(*size)
            )
            .unwrap();
        }
    }
    svg + "</svg>"
}

/// The names of a chart's lines with their colours.
pub fn legend(chart: &Chart) -> String {
    let entry = |(name, _): &(&str, _)| format!("<span class=\"key {}\">{}</span>", class(name), escape(name));
    chart.lines.iter().map(entry).collect()
}

fn axis_x(svg: &mut String, scale: &Scale, top: f64, bottom: f64, unit: &str) {
    for value in scale.decades() {
        let place = scale.at(value);
        write!(
            svg,
            "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{place:.1}\" y=\"{}\">{}{unit}</text>",
            bottom + 16.0,
            tick(value)
        )
        .unwrap();
    }
}
