//! Runs in `stockade mcp install`: the YAML files of Goose and Continue. A file of Goose is edited only if it is a plain block mapping
//! at its top level, so that lines can be put in without a parser; every other byte stays. Pure.

use serde_json::Value;

use super::{NAME, NotEdited, StartCommand};

const EXTENSIONS: &str = "extensions:";
const DESCRIPTION: &str = "Files of the allowed folders, through a jail that the kernel enforces";
/// The timeout that Goose itself writes for an extension.
const TIMEOUT_SECONDS: u32 = 300;

/// A JSON string is a YAML string in double quotes.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn flow(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(", "))
}

pub(super) fn goose(start: &StartCommand) -> String {
    format!("{EXTENSIONS}\n{}", extension(start, 2))
}

fn extension(start: &StartCommand, indent: usize) -> String {
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + 2));
    let fields = [
        ("name", NAME.to_owned()),
        ("type", "stdio".into()),
        ("description", string(DESCRIPTION)),
        ("enabled", "true".into()),
        ("cmd", string(&start.command)),
        ("args", flow(&start.arguments)),
        ("timeout", TIMEOUT_SECONDS.to_string()),
    ];
    let fields: String = fields.iter().map(|(key, value)| format!("{inner}{key}: {value}\n")).collect();
    format!("{outer}{NAME}:\n{fields}")
}

pub(super) fn continue_file(start: &StartCommand) -> String {
    format!(
        "name: {NAME}\nversion: {}\nschema: v1\nmcpServers:\n  - name: {NAME}\n    type: stdio\n    command: {}\n    args: {}\n",
        crate::VERSION,
        string(&start.command),
        flow(&start.arguments)
    )
}

/// The extension in a file of Goose.
pub(super) fn set_extension(text: &str, start: &StartCommand) -> Result<String, NotEdited> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (number, line) in lines.iter().enumerate() {
        if !is_plain(line, number == 0) {
            return Err(NotEdited(format!("line {} is YAML that cannot be edited line by line", number + 1)));
        }
    }
    let is_key = |line: &&&str| line.starts_with(EXTENSIONS);
    let Some(at) = lines.iter().position(|line| is_key(&line)) else {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{end}{}", goose(start)));
    };
    let rest = lines[at][EXTENSIONS.len()..].split(" #").next().unwrap_or_default().trim();
    let is_open = rest.is_empty() || rest.starts_with('#');
    if lines.iter().filter(is_key).count() > 1 || !(is_open || rest == "{}") {
        return Err(NotEdited(format!("line {}: its extensions cannot be edited line by line", at + 1)));
    }
    let key = if is_open { lines[at].trim_end_matches(['\r', '\n']) } else { EXTENSIONS };
    let below = &lines[at + 1..];
    let length = below.iter().position(|line| indent(line) == Some(0)).unwrap_or(below.len());
    let children = &below[..length];
    let depth = children.iter().find_map(|line| indent(line)).unwrap_or(2);
    if children.iter().any(|line| indent(line).is_some_and(|found| found < depth)) {
        return Err(NotEdited(format!("its extensions below line {} are not indented evenly", at + 1)));
    }
    let kept = without(children, depth)?;
    Ok([lines[..=at][..at].concat(), format!("{key}\n"), extension(start, depth), kept, below[length..].concat()]
        .concat())
}

/// The lines of all other extensions.
fn without(children: &[&str], depth: usize) -> Result<String, NotEdited> {
    let is_ours = |line: &&&str| {
        let key = line.trim().split(" #").next().unwrap_or_default().trim_end();
        indent(line) == Some(depth)
            && [format!("{NAME}:"), format!("\"{NAME}\":"), format!("'{NAME}':")]
                .iter()
                .any(|name| key.starts_with(name))
    };
    let Some(first) = children.iter().position(|line| is_ours(&line)) else { return Ok(children.concat()) };
    let rest = &children[first + 1..];
    let length = rest.iter().position(|line| indent(line) == Some(depth)).unwrap_or(rest.len());
    // Blank lines and comments in front of the next extension are that extension's.
    let length = length - rest[..length].iter().rev().take_while(|line| indent(line).is_none()).count();
    if children.iter().filter(is_ours).count() > 1 {
        return Err(NotEdited(format!("the extension {NAME} is there twice")));
    }
    Ok([children[..first].concat(), rest[length..].concat()].concat())
}

/// Spaces before the text; nothing for a blank line or a comment.
fn indent(line: &str) -> Option<usize> {
    let text = line.trim_start_matches(' ');
    let is_silent = text.trim().is_empty() || text.starts_with('#');
    (!is_silent).then(|| line.len() - text.len())
}

/// A blank line, a comment, something below a key, or a plain key at the top level.
fn is_plain(line: &str, is_first: bool) -> bool {
    let line = line.trim_end_matches(['\r', '\n']);
    if line.starts_with('\t') || line.trim_start_matches(' ').starts_with('\t') {
        return line.trim().is_empty();
    }
    let is_key = || {
        let (key, rest) = line.split_once(':').unwrap_or((line, "-"));
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !key.is_empty()
            && !key.starts_with('-')
            && key.chars().all(is_word)
            && (rest.is_empty() || rest.starts_with(' '))
    };
    indent(line) != Some(0) || (is_first && line.trim_end() == "---") || is_key()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> StartCommand {
        StartCommand {
            command: "/bin/stockade".into(),
            arguments: vec!["mcp".into(), "--root".into(), "/srv/a: b".into()],
        }
    }

    const OURS: &str = "  stockade:
    name: stockade
    type: stdio
    description: \"Files of the allowed folders, through a jail that the kernel enforces\"
    enabled: true
    cmd: \"/bin/stockade\"
    args: [\"mcp\", \"--root\", \"/srv/a: b\"]
    timeout: 300
";

    #[test]
    fn an_extension_joins_the_others() {
        let text =
            "# mine\nGOOSE_MODE: approve\nextensions: # all\n  # first\n  developer:\n    enabled: true\n\nOTHER: 1\n";
        let edited = set_extension(text, &start()).unwrap();
        assert_eq!(edited, text.replace("extensions: # all\n", &format!("extensions: # all\n{OURS}")));
        assert_eq!(set_extension(&edited, &start()).unwrap(), edited, "a second time changes nothing");
    }

    #[test]
    fn an_old_one_gives_way_and_missing_parts_are_made() {
        let old = "extensions:\n  stockade:\n    cmd: old\n    args:\n      - x\n\n  # of other\n  other:\n    enabled: true\nz: 1\n";
        let edited = set_extension(old, &start()).unwrap();
        assert_eq!(edited, format!("extensions:\n{OURS}\n  # of other\n  other:\n    enabled: true\nz: 1\n"));
        for text in ["A: 1", "A: 1\nextensions: {}\n", "A: 1\nextensions:\n"] {
            assert_eq!(set_extension(text, &start()).unwrap(), format!("A: 1\nextensions:\n{OURS}"), "{text}");
        }
        let wide = set_extension("extensions:\n    a:\n        enabled: true\n", &start()).unwrap();
        assert!(wide.starts_with("extensions:\n    stockade:\n      name: stockade\n"), "{wide}");
    }

    #[test]
    fn what_is_no_plain_mapping_is_refused() {
        for text in [
            "{extensions: {}}",
            "extensions: {a: {enabled: true}}",
            "extensions: &all\n  a: 1\n",
            "extensions:\n  a: 1\nextensions:\n  b: 1\n",
            "a: 1\n---\nextensions:\n",
            "- a\n",
            "\textensions:\n",
            "extensions:\n    a: 1\n  b: 1\n",
            "extensions:\n  stockade: 1\n  stockade: 2\n",
            "? a\n: b\n",
            "just text\n",
        ] {
            assert!(set_extension(text, &start()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_of_continue_names_the_program_and_its_arguments() {
        let file = continue_file(&start());
        assert!(
            file.contains("    command: \"/bin/stockade\"\n    args: [\"mcp\", \"--root\", \"/srv/a: b\"]\n"),
            "{file}"
        );
    }
}
