//! `stockade man`: manual pages from the definitions of the arguments.

mod daemon;
mod policy;

use clap::Command;
use clap_mangen::Man;
use serde_json::json;

use super::{
    CommandResult,
    args::{ManArgs, command},
    failure::{CliFailure, EXIT_CODES},
    output::Output,
};
use crate::sys::file::write_file;

const SECTION: &str = "1";

const ENVIRONMENT: [(&str, &str); 3] = [
    ("STOCKADE_SOCKET", "The socket of the service, where no --socket is given."),
    ("XDG_RUNTIME_DIR", "Where the socket of a user's own service, stockade.sock, is looked for before the system's."),
    ("NO_COLOR", "If set and not empty: no colour, unless --color always asks for it."),
];

/// One page under the name of its file.
struct ManPage {
    name: String,
    text: String,
}

pub(super) fn run(args: &ManArgs, out: &mut Output<'_>) -> CommandResult {
    let mut pages = pages();
    if let Some(folder) = &args.to {
        for page in &pages {
            let file = folder.join(&page.name);
            write_file(&file, page.text.as_bytes())
                .map_err(|error| CliFailure::OutputFailed(format!("cannot write {}: {error}", file.display())))?;
        }
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        return match out.json {
            true => out.write_json_line(&json!({ "written": names }).to_string()),
            false => out.write_text(&format!("wrote {} pages to {}\n", names.len(), folder.display())),
        }
        .map(|()| 0);
    }
    let wanted = match &args.command {
        Some(command) => format!("stockade-{command}.{SECTION}"),
        None => format!("stockade.{SECTION}"),
    };
    let is_wanted = |page: &ManPage| {
        let (stem, _) = page.name.rsplit_once('.').unwrap_or_default();
        page.name == wanted || args.command.as_ref().is_some_and(|name| page.name == *name || stem == name)
    };
    let Some(at) = pages.iter().position(is_wanted) else {
        let command = args.command.as_deref().unwrap_or_default();
        return Err(CliFailure::Usage(format!("no command `{command}`; `stockade help` lists them")));
    };
    let page = pages.swap_remove(at);
    match out.json {
        true => out.write_json_line(&json!({"name": page.name, "text": page.text}).to_string())?,
        false => out.write_text(&page.text)?,
    }
    Ok(0)
}

/// The pages of the programs, of every command including those below `policy`, and of the policy file.
fn pages() -> Vec<ManPage> {
    let mut whole = command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    let mut open = vec![&whole];
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands());
        pages.push(page(command));
    }
    pages.extend([daemon::page(), policy::page()]);
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    pages
}

fn page(command: &Command) -> ManPage {
    let is_whole = command.get_display_name().unwrap_or_else(|| command.get_name()) == "stockade";
    let (notes, examples) = split_help(command);
    let man = Man::new(command.clone())
        .section(SECTION)
        // No date, which would change with every build. The version identifies the page.
        .date("")
        .source(format!("stockade {}", crate::VERSION))
        .manual("stockade");
    let mut bytes = Vec::new();
    let mut write = || -> std::io::Result<()> {
        man.render_title(&mut bytes)?;
        man.render_name_section(&mut bytes)?;
        man.render_synopsis_section(&mut bytes)?;
        man.render_description_section(&mut bytes)?;
        bytes.extend(paragraphs(&notes).into_bytes());
        if command.has_subcommands() {
            man.render_subcommands_section(&mut bytes)?;
        }
        man.render_options_section(&mut bytes)
    };
    write().expect("writing to a Vec does not fail");
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.push_str(&list("EXIT STATUS", EXIT_CODES.map(|(code, means)| (code.to_string(), means))));
    text.push_str(&list("ENVIRONMENT", ENVIRONMENT.map(|(name, means)| (name.to_owned(), means))));
    text.push_str(&format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines(&examples)));
    let others = if is_whole {
        "stockaded(8), stockade\\-policy(5), stockade\\-edit(1), stockade\\-search(1), systemd.socket(5)"
    } else {
        "stockade(1)"
    };
    text.push_str(&format!(".SH SEE ALSO\n{others}\n"));
    ManPage { name: man.get_filename(), text }
}

/// Splits the help text after the options into the explanation and the lines of the examples.
fn split_help(command: &Command) -> (String, String) {
    let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = end.split_once("Examples:\n").unwrap_or((&end, ""));
    // The exit codes have a section of their own.
    let notes = notes.split("Exit codes:\n").next().unwrap_or_default();
    (notes.to_owned(), examples.to_owned())
}

/// The head of a page that is not made from the definitions of arguments.
fn title(name: &str, section: &str) -> String {
    format!(".TH {name} {section} \"\" \"stockade {}\" \"stockade\"\n", crate::VERSION)
}

fn paragraphs(notes: &str) -> String {
    let filled = notes.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    filled.map(|paragraph| format!(".PP\n{}", lines(paragraph))).collect()
}

fn list<const N: usize>(title: &str, items: [(String, &str); N]) -> String {
    let item = |(name, means): (String, &str)| format!(".TP\n\\fB{}\\fR\n{}", escape_roff(&name), lines(means));
    format!(".SH {title}\n{}", items.map(item).concat())
}

fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape_roff(line))).collect()
}

/// Escapes what roff would read as a command or turn into another character.
fn escape_roff(line: &str) -> String {
    let line = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('~', "\\(ti");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_everything_a_page_has() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        for name in ["stockade.1", "stockade-edit.1", "stockade-policy-check.1", "stockaded.8", "stockade-policy.5"] {
            assert!(names.contains(&name), "{names:?}");
        }
        for page in pages.iter().filter(|page| page.name.ends_with(".1")) {
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"] {
                assert!(
                    page.text.contains(&format!(".SH \"{section}\"\n"))
                        || page.text.contains(&format!(".SH {section}\n")),
                    "{section} of {}: {}",
                    page.name,
                    page.text
                );
            }
            // Its arguments are another program's.
            assert!(page.name == "stockade-serve.1" || page.text.contains(".nf\n  "), "{}", page.text);
        }
    }

    #[test]
    fn what_roff_would_take_for_its_own_is_escaped() {
        assert_eq!(escape_roff(".PP"), "\\&.PP");
        assert_eq!(escape_roff("'\\bfoo' --x"), "\\(aq\\ebfoo\\(aq \\-\\-x");
    }
}
