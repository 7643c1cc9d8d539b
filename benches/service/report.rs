//! One table, one JSON file. A row that misses its target says so; none is left out.

use std::fmt::Write as _;

use crate::sample::Spread;

#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Shown because it explains another row.
    None,
}

pub struct Row {
    name: String,
    unit: &'static str,
    measured: Spread,
    target: Target,
    aim: Option<f64>,
    note: String,
}

#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn row(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        measured: Spread,
        target: Target,
    ) -> &mut Row {
        self.rows.push(Row { name: name.into(), unit, measured, target, aim: None, note: String::new() });
        self.rows.last_mut().unwrap()
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        writeln!(
            text,
            "{:<48} {:>6} {:>9} {:>9} {:>9}  {:<10} {:<7} note",
            "measure", "unit", "p10", "p50", "p90", "target", ""
        )
        .unwrap();
        for row in &self.rows {
            let Spread { p10, p50, p90 } = row.measured;
            let line = format!(
                "{:<48} {:>6} {:>9} {:>9} {:>9}  {:<10} {:<7} {}",
                row.name,
                row.unit,
                short(p10),
                short(p50),
                short(p90),
                row.target_text(),
                row.verdict(),
                row.note
            );
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
        text
    }

    pub fn json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(Row::json).collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
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

    fn target_text(&self) -> String {
        let aim = self.aim.map_or(String::new(), |aim| format!(" ({aim})"));
        match self.target {
            Target::AtMost(bound) => format!("≤ {bound}{aim}"),
            Target::AtLeast(bound) => format!("≥ {}{aim}", short(bound)),
            Target::None => String::new(),
        }
    }

    fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(bound) => Some(self.measured.p50 <= bound),
            Target::AtLeast(bound) => Some(self.measured.p50 >= bound),
            Target::None => None,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        }
    }

    fn json(&self) -> String {
        let Spread { p10, p50, p90 } = self.measured;
        let target = match self.target {
            Target::AtMost(bound) => format!("{{\"at_most\":{bound}}}"),
            Target::AtLeast(bound) => format!("{{\"at_least\":{bound}}}"),
            Target::None => "null".into(),
        };
        let met = self.is_met().map_or("null".into(), |met| met.to_string());
        format!(
            "  {{\"measure\":{:?},\"unit\":{:?},\"p10\":{p10:.4},\"p50\":{p50:.4},\"p90\":{p90:.4},\
             \"target\":{target},\"met\":{met},\"note\":{:?}}}",
            self.name, self.unit, self.note
        )
    }
}

/// Three figures that count.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
