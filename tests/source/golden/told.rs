//! What a reply tells beside its data: errors, warnings, hints. Everything else (sizes, times, versions) is left out.

use serde_json::Value;

/// One line each, indented, with the place in the reply.
pub fn lines(reply: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    collect(reply, "", &mut lines);
    if lines.is_empty() {
        lines.push("  nothing".into());
    }
    lines
}

fn collect(value: &Value, at: &str, lines: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let (Some(code), Some(message)) = (members.get("code"), members.get("message")) {
                // A call's own error says the same twice: with its code in front, and apart.
                let data = members.get("data").filter(|data| data.is_object());
                let shown = match (code, data) {
                    (Value::Number(number), None) => format!("{number} {}", text(message)),
                    (Value::Number(number), Some(data)) => {
                        format!("{number} {} {}", text(&data["code"]), text(&data["message"]))
                    }
                    _ => format!("{} {}", text(code), text(message)),
                };
                let etag = members.get("etag").map(|etag| format!(" (etag {})", text(etag)));
                lines.push(format!("  {at}{shown}{}", etag.unwrap_or_default()));
                return;
            }
            for (name, member) in members {
                match name.as_str() {
                    // As the older line writes them.
                    "error" if member.is_string() => lines.push(format!("  {at}{}", text(member))),
                    "hint" | "truncated_reason" => lines.push(format!("  {at}{name}: {}", text(member))),
                    "warnings" => {
                        for warning in member.as_array().unwrap() {
                            lines.push(format!("  warning: {}", text(warning)));
                        }
                    }
                    _ => collect(member, at, lines),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{at}[{index}] "), lines);
            }
        }
        _ => {}
    }
}

/// A line break in a text is shown, not made.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', "\\n"),
        other => other.to_string(),
    }
}
