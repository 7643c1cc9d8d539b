//! `stockade check`: runs `stockaded --check`, which reports what this kernel enforces and how its attempts to escape ended, and
//! adds the attempt of a client to change protected names.
//!
//! This program confines nothing and cannot judge the escapes; it shows the document and passes the verdict on.

use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use super::{
    super::endpoint::{Unreachable, find_supervisor},
    CommandResult,
    args::CheckArgs,
    check_protected,
    columns::wrap_items,
    failure::{CliFailure, EXIT_NO_JAIL, unexpected_result},
    info::{escaped_string, render_layers},
    output::{Output, OutputStyle, Paint},
};
use crate::{
    terms::{EnforcedConfinement, Root},
    wire::confinement::describe_confinement,
};

pub(super) fn run(args: &CheckArgs, out: &mut Output<'_>) -> CommandResult {
    let (program, arguments) = (find_supervisor()?, args.supervisor.to_arguments());
    let child = Command::new(&program)
        .arg("--check")
        .args(&arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Unreachable {
            message: format!("cannot execute {}: {error}", program.display()),
            hint: "check the installation of stockaded",
        })?;
    let code = child.status.code().and_then(|code| u8::try_from(code).ok());
    match serde_json::from_slice::<Value>(&child.stdout) {
        Ok(mut report) => {
            add_layers(&mut report).map_err(unexpected_result)?;
            add_attempt(&mut report, check_protected::attempt_changes(&program, arguments));
            show(&report, code, out)
        }
        // There is no report: standard error gives the reason, such as wrong usage, an unreadable policy, or a kernel that
        // lacks a layer.
        Err(_) if code.is_some_and(|code| code != 0) => Err(CliFailure::AlreadyReported(code.unwrap_or(EXIT_NO_JAIL))),
        Err(_) => Err(CliFailure::NoJail("stockaded --check ended without a report".into())),
    }
}

/// Replaces the roots of the report with the layers that protect them and with what stays open.
fn add_layers(report: &mut Value) -> serde_json::Result<()> {
    let enforced = EnforcedConfinement::deserialize(&*report)?;
    let roots: Vec<Root> = serde_json::from_value(report["roots"].take())?;
    let told = describe_confinement(&enforced, &roots);
    if let Value::Object(fields) = report {
        fields.remove("roots");
        fields.insert("layers".into(), serde_json::to_value(told.layers)?);
        fields.insert("limitations".into(), serde_json::to_value(told.limitations)?);
    }
    Ok(())
}

/// Adds the attempt of a client to those of the workers.
fn add_attempt(report: &mut Value, attempt: Result<Value, String>) {
    match attempt {
        Ok(attempt) => {
            report["holds"] = (report["holds"] == true && attempt["held"] == true).into();
            if let Some(attempts) = report["attempts"].as_array_mut() {
                attempts.push(attempt);
            }
        }
        Err(reason) => report["protected_names"] = format!("not attempted: {reason}").into(),
    }
}

fn show(report: &Value, code: Option<u8>, out: &mut Output<'_>) -> CommandResult {
    let holds = report["holds"] == true && code == Some(0);
    match out.json {
        true => out.write_json_line(&report.to_string())?,
        false => out.write_text(&render(report, holds, out.style))?,
    }
    Ok(if holds { 0 } else { EXIT_NO_JAIL })
}

fn render(report: &Value, holds: bool, style: OutputStyle) -> String {
    let word = |key: &str| match &report[key] {
        Value::Null => "none".to_owned(),
        value => escaped_string(value).unwrap_or_else(|| value.to_string()),
    };
    let first = format!(
        "stockade {} on kernel {}: {} confinement, Landlock ABI {} (needs {}), resolver {}",
        word("version"),
        word("kernel"),
        word("level"),
        word("landlock_abi"),
        word("min_landlock_abi"),
        word("resolver"),
    );
    let mut text = wrap_items(first.split(' '), " ", 0, style.columns);
    text.push_str(&format!("\n{}\n{}", style.paint(Paint::Bold, "Layers"), render_layers(report, style)));
    let attempts = report["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    text.push_str(&format!("\n{}\n{}", style.paint(Paint::Bold, "Attempts"), render_attempts(attempts, style)));
    if let Some(reason) = escaped_string(&report["protected_names"]) {
        text.push_str(&format!("  - change protected names as a client: {reason}\n"));
    }
    text.push_str(&format!("\n{}\n", summary(report, attempts, holds, style)));
    text
}

/// Columns are as wide as their widest cell. The expected result is shown only where the actual one differs.
fn render_attempts(attempts: &[Value], style: OutputStyle) -> String {
    let cell = |attempt: &Value, key: &str| escaped_string(&attempt[key]).unwrap_or_else(|| "?".into());
    let widest = |key: &str| attempts.iter().map(|attempt| cell(attempt, key).chars().count()).max().unwrap_or(0);
    let (attempt_width, layer_width) = (widest("attempt"), widest("layer"));
    let line = |attempt: &Value| {
        let held = attempt["held"] == true;
        let (expected, got) = (cell(attempt, "expected"), cell(attempt, "got"));
        let outcome = match held {
            true => got,
            false => style.paint(Paint::Bad, &format!("{got} (expected {expected})")),
        };
        let (mark, what, layer) = (style.check_mark(held), cell(attempt, "attempt"), cell(attempt, "layer"));
        format!("  {mark} {what:attempt_width$}  {layer:layer_width$}  {outcome}\n")
    };
    attempts.iter().map(line).collect()
}

fn summary(report: &Value, attempts: &[Value], holds: bool, style: OutputStyle) -> String {
    let held = attempts.iter().filter(|attempt| attempt["held"] == true).count();
    let by = match report["profiles"].as_u64() {
        Some(profiles @ 2..) => format!(" by workers of {profiles} profiles"),
        _ => String::new(),
    };
    let count = format!("{held} of {} attempts{by} were stopped", attempts.len());
    match holds {
        true => format!("{} The jail holds: {count}.", style.check_mark(true)),
        false => format!("{} The jail does NOT hold: {count}.", style.check_mark(false)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(second_held: bool) -> Value {
        json!({
            "version": "0.1.0", "level": "kernel", "kernel": "6.18.5", "landlock_abi": 7, "min_landlock_abi": 3,
            "resolver": "openat2",
            "layers": [{"closes": "TCP", "by": ["seccomp", "landlock"]}, {"closes": "privileges", "by": ["capabilities"]}],
            "limitations": ["names outside can be seen"],
            "attempts": [
                {"name": "open", "attempt": "open /etc/passwd", "layer": "landlock", "expected": "EACCES",
                 "got": "EACCES", "held": true},
                {"name": "exec", "attempt": "execve", "layer": "seccomp", "expected": "EPERM",
                 "got": if second_held { "EPERM" } else { "ok\u{1b}" }, "held": second_held},
            ],
            "holds": second_held,
        })
    }

    #[test]
    fn a_jail_that_holds_is_a_table_of_refusals() {
        let expected = "\
stockade 0.1.0 on kernel 6.18.5: kernel confinement, Landlock ABI 7 (needs 3), resolver openat2

Layers
  TCP         seccomp, landlock
  privileges  capabilities
  x names outside can be seen

Attempts
  + open /etc/passwd  landlock  EACCES
  + execve            seccomp   EPERM

+ The jail holds: 2 of 2 attempts were stopped.
";
        assert_eq!(render(&report(true), true, OutputStyle::PLAIN), expected);
    }

    #[test]
    fn an_escape_is_named_with_what_should_have_happened() {
        let text = render(&report(false), false, OutputStyle::PLAIN);
        assert!(text.contains("  x execve            seccomp   ok\\u001b (expected EPERM)\n"), "{text}");
        assert!(text.ends_with("x The jail does NOT hold: 1 of 2 attempts were stopped.\n"), "{text}");
    }

    fn exit_of(report: &Value, code: Option<u8>, json: bool) -> (u8, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output {
            stdout: &mut out,
            stderr: &mut err,
            style: OutputStyle::PLAIN,
            error_style: OutputStyle::PLAIN,
            terminal_columns: None,
            json,
            hidden_prefix: None,
        };
        let exit = show(report, code, &mut output).unwrap();
        (exit, String::from_utf8(out).unwrap())
    }

    #[test]
    fn only_a_report_that_holds_from_a_program_that_agrees_exits_with_zero() {
        assert_eq!(exit_of(&report(true), Some(0), false).0, 0);
        assert_eq!(exit_of(&report(false), Some(0), false).0, 4);
        assert_eq!(exit_of(&report(true), Some(4), false).0, 4);
        assert_eq!(exit_of(&report(true), None, false).0, 4);
        assert_eq!(exit_of(&json!({}), Some(0), false).0, 4);
    }

    #[test]
    fn a_client_that_changes_a_protected_name_breaks_the_verdict() {
        let attempt =
            |held: bool| json!({"attempt": "c", "layer": "globs", "expected": "C221", "got": "?", "held": held});
        for (held, holds) in [(true, true), (false, false)] {
            let mut report = report(true);
            add_attempt(&mut report, Ok(attempt(held)));
            assert_eq!((report["holds"] == true, report["attempts"].as_array().unwrap().len()), (holds, 3));
            assert_eq!(exit_of(&report, Some(0), false).0 == 0, holds);
        }
        let mut report = report(true);
        add_attempt(&mut report, Err("no root is writable".into()));
        let text = render(&report, true, OutputStyle::PLAIN);
        assert!(
            text.contains("  - change protected names as a client: not attempted: no root is writable\n"),
            "{text}"
        );
    }

    #[test]
    fn json_passes_the_document_through() {
        let report = report(true);
        assert_eq!(exit_of(&report, Some(0), true), (0, format!("{report}\n")));
    }
}
