//! The output of a command: standard output with or without colour, and the only place that prints errors.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::client::CallError,
    args::Color,
    escape::{self, escape_text},
    failure::CliFailure,
    pretty::push_pretty_json,
};
use crate::wire::error::NearestLines;

pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// Width if the terminal does not report it.
const DEFAULT_COLUMNS: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Bold,
    Dim,
    Folder,
    Link,
    Good,
    Bad,
    /// The name of a file above its lines.
    Path,
    Line,
    Match,
    /// A removed line of a diff.
    Removed,
}

/// The style of rendered text. Rendering is pure, and this is all that it knows about the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputStyle {
    pub(super) color: bool,
    /// False in a locale that would garble ✓ and ✗.
    pub(super) unicode: bool,
    /// Width of the terminal, if the output is one.
    pub(super) columns: Option<usize>,
}

impl OutputStyle {
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { color: false, unicode: false, columns: None };

    pub(super) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Folder => "1;34",
            Paint::Link => "36",
            Paint::Good => "32",
            Paint::Bad | Paint::Match => "1;31",
            Paint::Path => "35",
            Paint::Line => "32",
            Paint::Removed => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(super) fn check_mark(self, good: bool) -> String {
        match (good, self.unicode) {
            (true, true) => self.paint(Paint::Good, "✓"),
            (true, false) => self.paint(Paint::Good, "+"),
            (false, true) => self.paint(Paint::Bad, "✗"),
            (false, false) => self.paint(Paint::Bad, "x"),
        }
    }
}

pub(super) struct Output<'a> {
    pub(super) stdout: &'a mut dyn Write,
    pub(super) stderr: &'a mut dyn Write,
    pub(super) style: OutputStyle,
    pub(super) error_style: OutputStyle,
    /// Columns if standard output is a terminal.
    pub(super) terminal_columns: Option<usize>,
    pub(super) json: bool,
    /// The shell's folder with a final slash, if error texts of the service name paths below it in full.
    pub(super) hidden_prefix: Option<String>,
}

impl<'a> Output<'a> {
    pub(super) fn for_process(out: &'a mut dyn Write, err: &'a mut dyn Write, color: Color, json: bool) -> Self {
        let unicode = is_utf8_locale(|name| env::var_os(name));
        let style = |is_terminal| wants_color(color, is_terminal, |name| env::var_os(name));
        let stdout = io::stdout();
        let terminal = stdout.is_terminal().then(|| crate::sys::terminal::columns(&stdout).unwrap_or(DEFAULT_COLUMNS));
        let (on_out, on_err) = (style(terminal.is_some()), style(io::stderr().is_terminal()));
        let style = OutputStyle { color: on_out, unicode, columns: terminal };
        let error_style = OutputStyle { color: on_err, ..style };
        Self { stdout: out, stderr: err, style, error_style, terminal_columns: terminal, json, hidden_prefix: None }
    }

    /// True if a person sees the output: on a terminal, or in colours that a pager passes on.
    pub(super) fn is_for_person(&self) -> bool {
        self.terminal_columns.is_some() || self.style.color
    }

    pub(super) fn flush(&mut self) -> Result<(), CliFailure> {
        Ok(self.stdout.flush()?)
    }

    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CliFailure> {
        Ok(self.stdout.write_all(bytes)?)
    }

    pub(super) fn write_text(&mut self, text: &str) -> Result<(), CliFailure> {
        Ok(self.stdout.write_all(text.as_bytes())?)
    }

    /// Prints a result for programs: exactly as received, in one line.
    pub(super) fn write_json_line(&mut self, json: &str) -> Result<(), CliFailure> {
        self.stdout.write_all(json.trim().as_bytes())?;
        Ok(self.stdout.write_all(b"\n")?)
    }

    /// Prints a raw result: indented on a terminal, otherwise or on request exactly as received.
    pub(super) fn write_raw_result(&mut self, result: &RawValue, as_received: bool) -> Result<(), CliFailure> {
        if self.terminal_columns.is_none() || as_received {
            return self.write_json_line(result.get());
        }
        let mut text = String::new();
        push_pretty_json(result.get(), self.style, &mut text);
        text.push('\n');
        self.write_text(&text)
    }

    /// Prints a remark beside the result: one line on standard error, after the output so far.
    pub(super) fn write_remark(&mut self, text: &str) -> Result<(), CliFailure> {
        self.flush()?;
        // Ignores the error: if standard error is closed, there is no way to report it.
        let _ = writeln!(self.stderr, "stockade: {}", escape_text(&self.shorten_paths(text)));
        Ok(())
    }

    /// Several lines beside the result, such as a configuration to paste, on standard error.
    pub(super) fn write_advice(&mut self, text: &str) -> Result<(), CliFailure> {
        self.flush()?;
        // Ignores the error: if standard error is closed, there is no way to report it.
        let _ = self.stderr.write_all(text.as_bytes());
        Ok(())
    }

    /// Prints one line for a failed entry of a batch. `report_hints` prints the next steps once for all.
    pub(super) fn report_entry(&mut self, failure: CliFailure) -> CliFailure {
        let _ = self.stdout.flush();
        let mut text = String::new();
        self.render_message(&failure, &mut text);
        let _ = self.stderr.write_all(text.as_bytes());
        failure
    }

    /// The lines of the file that a text was probably meant to match, numbered like those of `read -n`, on standard error.
    pub(super) fn write_nearest(&mut self, error: &RawValue) {
        #[derive(Deserialize)]
        struct WithNearest {
            nearest: NearestLines,
        }
        let Ok(WithNearest { nearest }) = serde_json::from_str(error.get()) else { return };
        let numbered = (nearest.from_line..).zip(&nearest.lines);
        let text: String = numbered.map(|(number, line)| format!("{number}→{}\n", escape::line(line))).collect();
        let _ = self.stderr.write_all(text.as_bytes());
    }

    /// Prints the next steps for the failed entries, each only once. Returns the exit code.
    pub(super) fn report_hints(&mut self, failed: &[CliFailure]) -> u8 {
        let _ = self.stdout.flush();
        let hints: BTreeSet<&str> = failed.iter().filter_map(CliFailure::hint).collect();
        let text: String = hints.iter().map(|hint| render_hint(hint, self.error_style)).collect();
        let _ = self.stderr.write_all(text.as_bytes());
        failed.iter().map(CliFailure::exit_code).max().unwrap_or(0)
    }

    /// Prints a failure and gives its exit code.
    pub(super) fn report_failure(&mut self, failure: &CliFailure) -> u8 {
        // If this flush fails, that is the failure being reported, or it matters less.
        let _ = self.stdout.flush();
        let mut text = String::new();
        match (failure, self.json) {
            (CliFailure::Call(CallError::Remote(error)), true) => {
                text.push_str(&escape::json(&error.json));
                text.push('\n');
            }
            (failure, true) => {
                if let Some(message) = failure.message() {
                    let object = serde_json::json!({"message": message, "hint": failure.hint()});
                    text.push_str(&escape::json(&object.to_string()));
                    text.push('\n');
                }
            }
            _ => self.render_failure(failure, &mut text),
        }
        let _ = self.stderr.write_all(text.as_bytes());
        failure.exit_code()
    }

    fn render_failure(&self, failure: &CliFailure, text: &mut String) {
        self.render_message(failure, text);
        text.extend(failure.hint().map(|hint| render_hint(hint, self.error_style)));
    }

    fn render_message(&self, failure: &CliFailure, text: &mut String) {
        let Some(message) = failure.message() else { return };
        let name = self.error_style.paint(Paint::Bad, "stockade:");
        text.push_str(&format!("{name} {}\n", escape_text(&self.shorten_paths(&message))));
    }

    /// Replaces full paths in a text of the service with paths as the user typed them.
    fn shorten_paths(&self, text: &str) -> String {
        self.hidden_prefix.as_ref().map_or_else(|| text.to_owned(), |prefix| text.replace(prefix.as_str(), ""))
    }
}

fn render_hint(hint: &str, style: OutputStyle) -> String {
    format!("{} {hint}\n", style.paint(Paint::Dim, "hint:"))
}

fn wants_color(color: Color, terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let set = |name| env(name).is_some_and(|value| !value.is_empty());
            terminal && !set("NO_COLOR") && env("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

fn is_utf8_locale(env: impl Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| env(name).filter(|v| !v.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::client::RemoteError;

    fn env(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn color_needs_a_terminal_and_no_objection() {
        assert!(wants_color(Color::Auto, true, env(&[])));
        assert!(!wants_color(Color::Auto, false, env(&[])));
        assert!(!wants_color(Color::Auto, true, env(&[("NO_COLOR", "1")])));
        assert!(wants_color(Color::Auto, true, env(&[("NO_COLOR", "")])));
        assert!(!wants_color(Color::Auto, true, env(&[("TERM", "dumb")])));
        assert!(wants_color(Color::Always, false, env(&[("NO_COLOR", "1")])));
        assert!(!wants_color(Color::Never, true, env(&[])));
    }

    #[test]
    fn first_locale_variable_that_is_set_decides() {
        assert!(is_utf8_locale(env(&[("LANG", "en_GB.UTF-8")])));
        assert!(is_utf8_locale(env(&[("LC_ALL", "C.utf8"), ("LANG", "C")])));
        assert!(!is_utf8_locale(env(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")])));
        assert!(!is_utf8_locale(env(&[])));
    }

    fn refused() -> CliFailure {
        CliFailure::Call(CallError::Remote(RemoteError {
            code: "C211".into(),
            message: "no\x1b[31mpe\n.txt: not found".into(),
            json: r#"{"code":"C211","message":"nope"}"#.into(),
        }))
    }

    fn plain<'a>(stdout: &'a mut Vec<u8>, stderr: &'a mut Vec<u8>, json: bool) -> Output<'a> {
        let style = OutputStyle::PLAIN;
        Output { stdout, stderr, style, error_style: style, terminal_columns: None, json, hidden_prefix: None }
    }

    #[test]
    fn coded_errors_are_one_escaped_line_and_a_hint() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut text = String::new();
        plain(&mut out, &mut err, false).render_failure(&refused(), &mut text);
        assert_eq!(text, "stockade: C211 no\\u001b[31mpe\\n.txt: not found\nhint: `stockade ls` shows what is there\n");
    }

    #[test]
    fn json_commands_report_the_error_object() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = plain(&mut out, &mut err, true);
        assert_eq!(output.report_failure(&refused()), 1);
        assert_eq!(String::from_utf8(err).unwrap(), "{\"code\":\"C211\",\"message\":\"nope\"}\n");
        assert!(out.is_empty());
    }
}
