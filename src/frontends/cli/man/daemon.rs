//! The page `stockaded(8)`, from the help of that program. Pure.

use super::{ManPage, escape_roff, lines, list, paragraphs, title};

const HELP: &str = include_str!("../../../supervisor/help.txt");
const NAME: &str = "stockaded";

const DESCRIPTION: &str = "\
stockaded listens on a Unix socket and gives each connection a worker of its own, which Linux confines with Landlock, seccomp and \
openat2 to the folders that the policy names. It reads neither requests nor files. Before it listens, a worker of each profile \
tries to escape; if one attempt succeeds, the start fails.

Started as root, it becomes the owner of its first root, or the user that `run_as` names. It takes a socket from systemd if \
there is one, and reports to the service manager when it serves. Its log goes to standard error: lines on a terminal, JSON \
elsewhere. `stockade serve` runs the same program, and `stockade status` shows what a running service does.";

const ENVIRONMENT: [(&str, &str); 4] = [
    ("XDG_RUNTIME_DIR", "Where the socket of an ordinary user, stockade.sock, is made without --socket."),
    ("XDG_STATE_HOME, HOME", "Where --inetd with --root keeps its audit."),
    ("LISTEN_PID, LISTEN_FDS", "The socket that systemd hands over."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "Where systemd is told that the service is ready and alive."),
];

/// The help has no explanation of these two options.
const VERSION_AND_HELP: &str = "Print the version and the build, or a summary of this page.";

const FILES: [(&str, &str); 3] = [
    ("/etc/stockade/policy.toml", "The policy of the system's service in the packages."),
    ("/run/stockade/stockade.sock", "Its socket."),
    ("$XDG_RUNTIME_DIR/stockade.sock", "The socket of a user's own service."),
];

const EXAMPLES: &str = "\
  stockaded --root /srv/project --root /srv/docs:ro
  stockaded --policy /etc/stockade/policy.toml
  stockaded --check --policy /etc/stockade/policy.toml
";

pub(super) fn page() -> ManPage {
    let about = HELP.lines().next().unwrap_or_default();
    let about = about.split_once(": ").map_or(about, |(_, about)| about);
    let mut text = title(NAME, "8");
    text.push_str(&format!(".SH NAME\n{NAME} \\- {}\n", escape_roff(about)));
    let usage = HELP.lines().find_map(|line| line.strip_prefix("usage: ")).unwrap_or_default();
    text.push_str(&format!(".SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{}", escape_roff(usage), paragraphs(DESCRIPTION)));
    text.push_str(".SH OPTIONS\n");
    for (option, means) in options() {
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escape_roff(&option), escape_roff(&means)));
    }
    text.push_str(&format!(".SH SIGNALS\n{}\n", escape_roff(&sentence_of("signals: "))));
    text.push_str(&format!(".SH EXIT STATUS\n{}\n", escape_roff(&sentence_of("exit status: "))));
    text.push_str(&list("ENVIRONMENT", ENVIRONMENT.map(|(name, means)| (name.to_owned(), means))));
    text.push_str(&list("FILES", FILES.map(|(name, means)| (name.to_owned(), means))));
    text.push_str(&format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines(EXAMPLES)));
    text.push_str(".SH SEE ALSO\nstockade(1), stockade\\-policy(5), systemd.socket(5), landlock(7)\n");
    ManPage { name: format!("{NAME}.8"), text }
}

/// Each option of the help with its explanation, whose further lines are indented.
fn options() -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    for line in HELP.lines().filter(|line| line.starts_with("  ")) {
        if line.starts_with("  --") {
            let (option, means) = line.trim_start().split_once("  ").unwrap_or((line.trim(), VERSION_AND_HELP));
            options.push((option.to_owned(), means.trim().to_owned()));
        } else if let Some((_, means)) = options.last_mut() {
            means.push(' ');
            means.push_str(line.trim());
        }
    }
    options
}

fn sentence_of(begin: &str) -> String {
    HELP.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_help_is_there_with_its_explanation() {
        let options = options();
        assert_eq!(options.len(), HELP.matches("\n  --").count());
        let (_, socket) = options.iter().find(|(option, _)| option == "--socket PATH").unwrap();
        assert!(socket.contains("as root /run/stockade/stockade.sock; not together with a socket"), "{socket}");
        let page = page().text;
        for text in ["\\- serves files below allowed directories", "HUP reads the policy again", "4 the jail cannot"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
