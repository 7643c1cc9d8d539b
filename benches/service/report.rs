//! What was measured: rows for one table, and what is drawn. A row that misses its target says so; none is left out.

use std::fmt::Write as _;

use crate::{json::quote, sample::Spread};

#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Shown because it explains another row.
    None,
}

pub struct Row {
    pub section: &'static str,
    pub name: String,
    pub unit: &'static str,
    /// None: it could not be measured, and the note says why.
    pub measured: Option<Spread>,
    pub target: Target,
    pub aim: Option<f64>,
    pub note: String,
}

/// The same work done by several, side by side.
pub struct SideBySide {
    pub title: String,
    pub unit: &'static str,
    pub dots: Vec<(&'static str, Spread)>,
}

/// The same work at growing sizes.
pub struct Chart {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<(&'static str, Vec<(f64, Spread)>)>,
}

impl Chart {
    pub fn new(title: &'static str, x: &'static str, y: &'static str) -> Self {
        Self { title, x, y, lines: vec![] }
    }

    pub fn point(&mut self, line: &'static str, x: f64, y: Spread) {
        match self.lines.iter_mut().find(|(name, _)| *name == line) {
            Some((_, points)) => points.push((x, y)),
            None => self.lines.push((line, vec![(x, y)])),
        }
    }
}

#[derive(Default)]
pub struct Report {
    pub rows: Vec<Row>,
    pub side_by_side: Vec<SideBySide>,
    pub charts: Vec<Chart>,
    /// Where and how this was measured.
    pub facts: Vec<(String, String)>,
    section: &'static str,
}

impl Report {
    /// What follows belongs to this measure.
    pub fn begin(&mut self, section: &'static str) {
        self.section = section;
    }

    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.into(), value.into()));
    }

    pub fn row(&mut self, name: impl Into<String>, unit: &'static str, measured: Spread, target: Target) -> &mut Row {
        self.push(name.into(), unit, Some(measured), target)
    }

    /// Something that has no number, and why.
    pub fn absent(&mut self, name: &str, why: impl Into<String>) {
        let why = why.into();
        eprintln!("  {name}: {why}");
        self.push(name.into(), "", None, Target::None).note(why);
    }

    fn push(&mut self, name: String, unit: &'static str, measured: Option<Spread>, target: Target) -> &mut Row {
        let section = self.section;
        self.rows.push(Row { section, name, unit, measured, target, aim: None, note: String::new() });
        self.rows.last_mut().unwrap()
    }

    pub fn side_by_side(&mut self, them: SideBySide) {
        self.side_by_side.push(them);
    }

    pub fn chart(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            writeln!(text, "{name}: {value}").unwrap();
        }
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut section = "";
        for row in &self.rows {
            if row.section != section {
                section = row.section;
                writeln!(
                    text,
                    "\n{section:<width$} {:>5} {:>9} {:>9} {:>9}  {:<10} {:<7} note",
                    "unit", "p10", "p50", "p90", "target", ""
                )
                .unwrap();
            }
            let [p10, p50, p90] = row.figures();
            let line = format!(
                "{:<width$} {:>5} {p10:>9} {p50:>9} {p90:>9}  {:<10} {:<7} {}",
                row.name,
                row.unit,
                row.target_text(),
                row.verdict(),
                row.note
            );
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
        text
    }

    pub fn json(&self) -> String {
        let facts: Vec<String> =
            self.facts.iter().map(|(name, value)| format!("  {}:{}", quote(name), quote(value))).collect();
        let rows: Vec<String> = self.rows.iter().map(Row::json).collect();
        format!("{{\"facts\":{{\n{}\n}},\"rows\":[\n{}\n]}}\n", facts.join(",\n"), rows.join(",\n"))
    }
}

impl Row {
    pub fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.note = note.into();
        self
    }

    pub fn aim(&mut self, aim: f64) -> &mut Self {
        self.aim = Some(aim);
        self
    }

    /// p10, p50 and p90 as they are shown.
    pub fn figures(&self) -> [String; 3] {
        let shown = |value: fn(&Spread) -> f64| self.measured.as_ref().map_or("–".into(), |m| short(value(m)));
        [shown(|m| m.p10), shown(|m| m.p50), shown(|m| m.p90)]
    }

    pub fn target_text(&self) -> String {
        let aim = self.aim.map_or(String::new(), |aim| format!(" ({aim})"));
        match self.target {
            Target::AtMost(bound) => format!("≤ {}{aim}", short(bound)),
            Target::AtLeast(bound) => format!("≥ {}{aim}", short(bound)),
            Target::None => String::new(),
        }
    }

    pub fn is_met(&self) -> Option<bool> {
        let p50 = self.measured?.p50;
        match self.target {
            Target::AtMost(bound) => Some(p50 <= bound),
            Target::AtLeast(bound) => Some(p50 >= bound),
            Target::None => None,
        }
    }

    pub fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        }
    }

    fn json(&self) -> String {
        let measured = self.measured.map_or("null".into(), |Spread { p10, p50, p90 }| {
            format!("{{\"p10\":{p10:.4},\"p50\":{p50:.4},\"p90\":{p90:.4}}}")
        });
        let target = match self.target {
            Target::AtMost(bound) => format!("{{\"at_most\":{bound}}}"),
            Target::AtLeast(bound) => format!("{{\"at_least\":{bound}}}"),
            Target::None => "null".into(),
        };
        let met = self.is_met().map_or("null".into(), |met| met.to_string());
        format!(
            "  {{\"section\":{},\"measure\":{},\"unit\":{},\"measured\":{measured},\"target\":{target},\"met\":{met},\
             \"note\":{}}}",
            quote(self.section),
            quote(&self.name),
            quote(self.unit),
            quote(&self.note)
        )
    }
}

/// Three figures that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
