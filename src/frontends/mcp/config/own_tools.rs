//! How to switch off a host's own file and shell tools, and how to let the host use the tools of stockade without a question.
//! Runs in `stockade mcp --print-config` and `stockade mcp install`. Pure text. Each fact comes from the documentation of the
//! host. If a host documents no such switch, the text states that.

use std::fmt::Write;

use super::{super::tools, hosts::ConfigHost};

/// The tools that this server offers to a host.
struct Tools {
    reading: Vec<&'static str>,
    changing: Vec<&'static str>,
}

pub(super) fn text(host: ConfigHost, selected: &[String]) -> String {
    let tools = Tools::of(selected);
    let mut text = beginning(host);
    text.push_str(&rules(host, &tools));
    text
}

/// Says what the rules below are for, or that there are none.
fn beginning(host: ConfigHost) -> String {
    let title = host.facts().title;
    match host {
        ConfigHost::ClaudeDesktop => "\
# The chat of Claude Desktop has no file or shell tools of its own: remove extensions and other servers that have some.
# Its Code tab obeys the rules of Claude Code (`stockade mcp --print-config claude`); for its Cowork tab no switch is documented.
# Allow the reading tools in the question that each first call brings.
"
        .into(),
        ConfigHost::Cursor => "\
# Only the tools of stockade are jailed. The command line of Cursor can switch its own file and shell tools off; its editor documents
# no such switch, and what the agent there does with its own tools is not jailed.
"
        .into(),
        ConfigHost::Windsurf => "\
# Windsurf documents no switch for its own file and terminal tools: what Cascade does with them is not jailed.
# It documents no rule in a file that allows a tool either.
"
        .into(),
        ConfigHost::Cline => "\
# Cline documents no switch for its own file and terminal tools: what it does with them is not jailed. Leave their auto-approval off.
# In the entry of stockade, this lets the reading tools run without a question:
"
        .into(),
        ConfigHost::Jetbrains => "\
# Junie and AI Assistant document no switch for their own file and terminal tools: what they do with them is not jailed.
# Allow the reading tools in Settings | Tools | Junie | Action Allowlist.
"
        .into(),
        ConfigHost::Json => "\
# Only the tools of stockade are jailed: switch off the file and shell tools that the host itself has.
# These can run without a question:
"
        .into(),
        _ => format!(
            "# Only the tools of stockade are jailed. This switches off the file and shell tools that {title} itself has, and lets the\n\
             # reading tools of stockade run without a question.\n"
        ),
    }
}

fn rules(host: ConfigHost, tools: &Tools) -> String {
    match host {
        ConfigHost::Claude => claude(tools),
        ConfigHost::Codex => codex(tools),
        ConfigHost::Cursor => cursor(tools),
        ConfigHost::Vscode => VSCODE.into(),
        ConfigHost::Copilot => copilot(tools),
        ConfigHost::Zed => zed(tools),
        ConfigHost::Gemini => gemini(tools),
        ConfigHost::Opencode => opencode(tools),
        ConfigHost::Goose => goose(tools),
        ConfigHost::Cline => {
            let reading = tools.reading(quoted);
            format!("\"autoApprove\": [{reading}]\n# all tools: \"autoApprove\": [{}]\n", tools.all(quoted))
        }
        ConfigHost::Continue => CONTINUE.into(),
        ConfigHost::Json => format!("# {}\n", tools.reading(str::to_owned)),
        ConfigHost::ClaudeDesktop | ConfigHost::Windsurf | ConfigHost::Jetbrains => String::new(),
    }
}

fn claude(tools: &Tools) -> String {
    let allow = tools.reading(|name| format!("\"mcp__stockade__{name}\""));
    format!(
        "\
# .claude/settings.json of a project, or ~/.claude/settings.json:
{{
  \"permissions\": {{
    \"deny\": [\"Bash\", \"PowerShell\", \"Monitor\", \"Read\", \"Write\", \"Edit\", \"NotebookEdit\", \"Glob\", \"Grep\", \"LSP\", \"Artifact\"],
    \"allow\": [{allow}]
  }}
}}
# all tools: \"allow\": [\"mcp__stockade\"]
"
    )
}

fn codex(tools: &Tools) -> String {
    let mut text = "\
# ~/.codex/config.toml, sandbox_mode before its first table. apply_patch has no switch: in this sandbox it has to ask, or fails with
# approval_policy = \"never\". view_image has none either, and reads images anywhere.
sandbox_mode = \"read-only\"

[features]
shell_tool = false
"
    .to_owned();
    for name in &tools.reading {
        let _ = write!(text, "\n[mcp_servers.stockade.tools.{name}]\napproval_mode = \"approve\"\n");
    }
    text.push_str("# all tools: default_tools_approval_mode = \"approve\" in [mcp_servers.stockade]\n");
    text
}

fn cursor(tools: &Tools) -> String {
    format!(
        "\
# ~/.cursor/cli-config.json, for the command line:
{{
  \"permissions\": {{
    \"allow\": [{}],
    \"deny\": [\"Shell(*)\", \"Read(**)\", \"Write(**)\"]
  }}
}}
# all tools: \"allow\": [\"Mcp(stockade:*)\"]
# ~/.cursor/permissions.json, for the editor:
{{ \"mcpAllowlist\": [{}] }}
# all tools: \"mcpAllowlist\": [\"stockade:*\"]
",
        tools.reading(|name| format!("\"Mcp(stockade:{name})\"")),
        tools.reading(|name| format!("\"stockade:{name}\"")),
    )
}

const VSCODE: &str = "\
# .github/agents/stockade.agent.md of a project; then choose this agent in the chat:
---
name: stockade
description: Reads and changes files through stockade alone
tools: ['stockade/*']
---
Use the tools of stockade for every file.

# VS Code keeps approvals in no file: choose the reading tools, or all, in the command \"Chat: Manage Tool Approval\".
";

const CONTINUE: &str = "\
# ~/.continue/permissions.yaml, for the command line:
exclude:
  - Read
  - List
  - Search
  - Diff
  - Edit
  - MultiEdit
  - Write
  - Bash
# In the editor, the menu of tools below the chat sets each tool: its own ones to Excluded, the reading tools of stockade to Automatic
# (or all of them).
";

fn copilot(tools: &Tools) -> String {
    let allow = tools.reading_joined(",", |name| format!("stockade({name})"));
    format!(
        "\
# Copilot CLI documents no setting in a file, only these options:
copilot --excluded-tools='bash,read_bash,write_bash,stop_bash,list_bash,view,create,edit,apply_patch,grep,rg,glob,lsp,task' \\
  --allow-tool='{allow}'
# all tools: --allow-tool='stockade'
"
    )
}

fn zed(tools: &Tools) -> String {
    let offered = tools.all(|name| format!("\"{name}\": true"));
    let allow: Vec<String> = tools
        .reading
        .iter()
        .map(|name| format!("        \"mcp:stockade:{name}\": {{ \"default\": \"allow\" }}"))
        .collect();
    format!(
        "\
# settings.json of Zed. External agents obey their own rules:
{{
  \"agent\": {{
    \"default_profile\": \"stockade\",
    \"profiles\": {{
      \"stockade\": {{
        \"name\": \"stockade\",
        \"tools\": {{}},
        \"enable_all_context_servers\": false,
        \"context_servers\": {{ \"stockade\": {{ \"tools\": {{ {offered} }} }} }}
      }}
    }},
    \"tool_permissions\": {{
      \"tools\": {{
{}
      }}
    }}
  }}
}}
# all tools: the same line for {}
",
        allow.join(",\n"),
        tools.changing.join(", "),
    )
}

fn gemini(tools: &Tools) -> String {
    format!(
        "\
# ~/.gemini/policies/stockade.toml:
[[rule]]
toolName = [\"run_shell_command\", \"read_file\", \"read_many_files\", \"write_file\", \"replace\", \"glob\", \"grep_search\", \"list_directory\"]
decision = \"deny\"
priority = 900

[[rule]]
mcpName = \"stockade\"
toolName = [{}]
decision = \"allow\"
priority = 900
# all tools: the second rule without toolName
",
        tools.reading(quoted),
    )
}

fn opencode(tools: &Tools) -> String {
    format!(
        "\
# opencode.json of a project, or ~/.config/opencode/opencode.json; the last rule that matches decides:
{{
  \"permission\": {{
    \"bash\": \"deny\", \"read\": \"deny\", \"edit\": \"deny\", \"glob\": \"deny\", \"grep\": \"deny\", \"lsp\": \"deny\",
    \"stockade_*\": \"ask\",
    {}
  }}
}}
# all tools: \"stockade_*\": \"allow\"
",
        tools.reading(|name| format!("\"stockade_{name}\": \"allow\"")),
    )
}

fn goose(tools: &Tools) -> String {
    format!(
        "\
# ~/.config/goose/config.yaml, in what is there already:
GOOSE_MODE: approve
extensions:
  developer:
    enabled: false
# ~/.config/goose/permission.yaml:
user:
  always_allow: [{}]
  ask_before: [{}]
  never_allow: []
# all tools: those of ask_before in always_allow, too
",
        tools.reading(|name| format!("stockade__{name}")),
        tools.changing.iter().map(|name| format!("stockade__{name}")).collect::<Vec<_>>().join(", "),
    )
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

impl Tools {
    fn of(selected: &[String]) -> Self {
        let (reading, changing) = tools::names_by_class(selected);
        Self { reading, changing }
    }

    fn reading(&self, render: impl Fn(&str) -> String) -> String {
        self.reading_joined(", ", render)
    }

    fn reading_joined(&self, between: &str, render: impl Fn(&str) -> String) -> String {
        self.reading.iter().map(|name| render(name)).collect::<Vec<_>>().join(between)
    }

    fn all(&self, render: impl Fn(&str) -> String) -> String {
        self.reading.iter().chain(&self.changing).map(|name| render(name)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// A rule that lets a tool change files without a question stands in a comment, never in what is pasted.
    #[test]
    fn only_reading_tools_are_allowed_outside_of_comments() {
        for host in ConfigHost::value_variants() {
            let text = text(*host, &[]);
            let pasted: String = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
            let before_asking = pasted.split("ask_before").next().unwrap_or_default();
            for allowed in
                ["mcp__stockade__delete", "stockade(delete)", "stockade:delete)", "stockade__delete", "stockade_delete"]
            {
                assert!(!before_asking.contains(allowed), "{host:?}: {pasted}");
            }
            assert!(!pasted.contains("mcp:stockade:delete"), "{host:?}: {pasted}");
        }
    }

    #[test]
    fn every_host_is_told_what_is_not_jailed() {
        for host in ConfigHost::value_variants() {
            let text = text(*host, &[]);
            let first = text.lines().take(3).collect::<Vec<_>>().join(" ");
            assert!(first.contains("jailed") || first.contains("no file or shell tools"), "{host:?}: {text}");
            assert!(text.ends_with('\n') && !text.contains("\n\n\n"), "{text}");
        }
    }

    #[test]
    fn tools_that_are_not_offered_are_not_named() {
        let selected = ["read".to_owned(), "edit".to_owned()];
        let text = text(ConfigHost::Claude, &selected);
        assert!(text.contains("[\"mcp__stockade__read\"]") && !text.contains("mcp__stockade__search"), "{text}");
    }
}
