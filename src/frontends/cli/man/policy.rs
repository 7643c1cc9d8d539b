//! The page `stockade-policy(5)`: every key of a policy with its default and its reason, from `policy/default.toml`. Pure.

use super::{ManPage, escape_roff, lines, list, paragraphs, title};

const DEFAULT: &str = include_str!("../../../../policy/default.toml");
const NAME: &str = "stockade-policy";

const DESCRIPTION: &str = "\
A policy says which folders a service offers, to whom, and how. It is a TOML file. stockaded(8) reads it at the start, and again \
at SIGHUP. Every key is optional except the path of a root. A key that is not known, a value out of range or a root that cannot \
be confined stops the start.

`stockade policy default` prints the file of which this page is made. `stockade policy check FILE` reports every mistake in a \
policy, and `stockade policy explain FILE PATH` says which rule decides about a path.";

/// The keys of `[[peer]]`, of which the default policy has none.
const PEER: [(&str, &str); 6] = [
    ("uid = N", "The user with this number. A peer has exactly one of uid, user, gid and group."),
    ("user = \"NAME\"", "The user with this name in /etc/passwd."),
    ("gid = N", "Every user whose primary or supplementary groups hold this one."),
    ("group = \"NAME\"", "The same by the name in /etc/group."),
    ("roots = [\"PATH\", …]", "Only these roots, in the order of the policy. Without the key all of them."),
    ("mode = \"ro\"", "Narrows the mode of the roots for this peer; it never widens it."),
];
const PEER_NOTE: &str = "A kind of client that is served; repeat for more. The first one that fits a client decides. Without a [[peer]] only the user \
     who runs the service is served.";
const GROUP: (&str, &str) =
    ("group = \"NAME\"", "The group that may connect. The policy then needs a [[peer]] that serves it.");

const EXAMPLE: &str = "\
[[root]]
path = \"/srv/project\"

[[root]]
path = \"/srv/docs\"
mode = \"ro\"

[deny]
non_accessible_globs = [\"**/.env\", \"**/secrets/**\"]

[[peer]]
user = \"reviewer\"
mode = \"ro\"
";

pub(super) fn page() -> ManPage {
    let mut text = title(NAME, "5");
    text.push_str(".SH NAME\nstockade\\-policy \\- what a stockade service offers, and to whom\n");
    text.push_str(".SH SYNOPSIS\n/etc/stockade/policy.toml\n.br\n\\fBstockaded \\-\\-policy\\fR \\fIFILE\\fR\n");
    text.push_str(".SH DESCRIPTION");
    text.push('\n');
    text.push_str(&paragraphs(DESCRIPTION));
    text.push_str(".SH KEYS\n");
    text.push_str(&keys());
    text.push_str(&format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines(EXAMPLE)));
    text.push_str(&list(
        "FILES",
        [("/etc/stockade/policy.toml".to_owned(), "The policy of the system's service in the packages.")],
    ));
    text.push_str(".SH SEE ALSO\nstockaded(8), stockade\\-policy\\-check(1), stockade\\-policy\\-explain(1)\n");
    ManPage { name: format!("{NAME}.5"), text }
}

/// One line of the default policy, split into the setting and the comment after it.
fn parts(line: &str) -> (&str, &str) {
    // No value contains this sequence; a test compares the page with the file.
    let (value, comment) = line.split_once(" # ").unwrap_or((line, ""));
    (value.trim(), comment.trim())
}

fn keys() -> String {
    let mut text = String::new();
    // Explained in the description, and at the end.
    for line in DEFAULT.lines().filter(|line| !line.starts_with('#')) {
        let (value, comment) = parts(line);
        let reason = sentence(comment);
        if value.is_empty() {
            continue;
        }
        if value.starts_with('[') && !value.starts_with("[\"") {
            text.push_str(&format!(".SS \"{}\"\n{}\n", escape_roff(value), escape_roff(&reason)));
        } else if let Some(key) = value.strip_suffix(" = [") {
            text.push_str(&item(key, &format!("{reason} Default:")));
            text.push_str(".RS\n");
        } else if value == "]" {
            text.push_str(&format!(".RE\n.IP\n{}\n", escape_roff(&reason)));
        } else if value.starts_with('"') {
            text.push_str(&item(value.trim_end_matches(','), &reason));
        } else {
            text.push_str(&item(value, &reason));
        }
        if value == "[socket]" {
            text.push_str(&item(GROUP.0, GROUP.1));
        }
    }
    text.push_str(&format!(".SS \"[[peer]]\"\n{}\n", escape_roff(PEER_NOTE)));
    text.extend(PEER.map(|(key, means)| item(key, means)));
    text
}

fn item(key: &str, means: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escape_roff(key), escape_roff(means))
}

/// The comments of the file begin in lower case and end without a stop.
fn sentence(comment: &str) -> String {
    let mut letters = comment.chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if comment.ends_with(['.', ')', ':']) { "" } else { "." };
    first.to_uppercase().chain(letters).collect::<String>() + stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_there_with_its_default_and_its_reason() {
        let page = page().text;
        for (key, reason) in [
            ("max_frame_bytes = 67108864", "Longest line of the wire."),
            ("symlinks = \"refuse\"", "Links inside are never followed; \"beneath\" follows those"),
            ("\"**/.env\"", "Settings with passwords."),
            ("group = \"NAME\"", "The group that may connect."),
        ] {
            let item = format!("\\fB{}\\fR\n{}", escape_roff(key), escape_roff(reason));
            assert!(page.contains(&item), "{item}: {page}");
        }
        // The table of keys is the parser's; its names are read as text, because only the parser needs them.
        let table = include_str!("../../../policy/keys.rs");
        let names: Vec<&str> = table
            .split("(\"")
            .skip(1)
            .filter_map(|rest| rest.split_once("\", "))
            .filter(|(name, rest)| {
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                    && rest.starts_with(|letter: char| letter.is_ascii_uppercase())
            })
            .map(|(name, _)| name)
            .collect();
        assert!(names.len() > 50, "{names:?}");
        for name in names {
            let is_there = [format!("\\fB{name}"), format!("\"[{name}]\""), format!("\"[[{name}]]\"")];
            assert!(is_there.iter().any(|text| page.contains(text)), "{name}");
        }
    }
}
