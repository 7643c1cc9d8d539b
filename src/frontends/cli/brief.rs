//! `stockade brief`: one document with everything that a writer of calls needs. The functions, their types, the codes and the
//! limits come from the tables that the service itself uses.

mod notation;

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use super::{CommandResult, args::BriefArgs, output::Output};
use crate::{
    policy::Policy,
    wire::{
        Code,
        function::{FUNCTIONS, FunctionClass},
        schema::accepted_schema,
    },
};

const BEGINNING: &str = include_str!("brief/beginning.md");
const CONFIGURATION: &str = crate::policy::DEFAULT_TEXT;

pub(super) fn run(_args: &BriefArgs, out: &mut Output<'_>) -> CommandResult {
    let brief = brief();
    match out.json {
        true => out.write_json_line(&json!({ "brief": brief }).to_string())?,
        false => out.write_text(&brief)?,
    }
    Ok(0)
}

fn brief() -> String {
    let mut text = BEGINNING.replace("VERSION", crate::VERSION);
    let _ =
        write!(text, "\n## Configuration\n\nEvery key of a policy with its default:\n\n```toml\n{CONFIGURATION}```\n");
    text.push_str("\n## Error codes\n\n");
    for (code, means) in notation::enum_constants(accepted_schema::<Code>().as_value()) {
        let _ = writeln!(text, "- {code}: {means}");
    }
    text.push_str("\n## Limits\n\nBy default; `coder::info` shows those in force.\n\n");
    if let Ok(Value::Object(limits)) = serde_json::to_value(Policy::embedded(&[]).limits) {
        let limits: Vec<String> = limits.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(text, "{}", limits.join(", "));
    }
    text.push_str(
        "\n## Functions\n\nA question mark means: may be left out. A type is told once, where it is first used.\n",
    );
    let mut told = BTreeSet::new();
    for function in FUNCTIONS {
        let class = match function.class {
            FunctionClass::Read => "reads",
            FunctionClass::Write => "writes",
        };
        let tool = function.tool.map_or_else(String::new, |tool| format!("; MCP tool `{}`", tool.name));
        let _ = write!(text, "\n### {} ({class}{tool})\n\n{}\n\n```ts\n", function.name, function.description);
        let (request, result) = ((function.request_schema)(), (function.response_schema)());
        text.push_str(&notation::render_types("request", request.as_value(), &mut told));
        text.push_str(&notation::render_types("result", result.as_value(), &mut told));
        text.push_str("```\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_caller_needs_is_missing() {
        let brief = brief();
        for function in FUNCTIONS {
            assert!(brief.contains(&format!("### {} (", function.name)), "{}", function.name);
        }
        for word in [
            "- C211: missing or denied",
            "max_read_bytes 10485760",
            "cargo build --release",
            "[[root]]",
            "### coder::update-file (writes; MCP tool `edit`)",
            "stockade mcp --root",
            "jsonrpc",
        ] {
            assert!(brief.contains(word), "{word}");
        }
        let op =
            "{op: \"str_replace\", new: string, old: string, all?: boolean, expect_matches?: integer, whitespace?: ";
        assert!(brief.contains(op), "{brief}");
        let types = brief.split("```ts\n").skip(1).filter_map(|rest| rest.split("```").next());
        for line in types.flat_map(str::lines) {
            assert!(![": any", "= any", "any["].iter().any(|word| line.contains(word)), "not understood: {line}");
        }
        assert!(brief.len() < 48 << 10, "{} bytes are too many for a prompt", brief.len());
    }
}
