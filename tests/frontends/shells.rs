//! Completions in the shells they are for, and manual pages through the program that shows them.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

use std::{fs, path::Path, process::Command};

use support::{TestJail, bin_dir, terminal::Terminal};

fn stockade(arguments: &[&str]) -> String {
    let output = Command::new(bin_dir(false).join("stockade")).args(arguments).env_clear().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn completions(dir: &Path, shell: &str, name: &str) -> String {
    let file = dir.join(name);
    fs::write(&file, stockade(&["completions", shell])).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What is typed, and what is offered for its last word. Nothing means: files.
const OFFERS: &[(&str, &[&str])] = &[
    ("stockade ed", &["edit"]),
    ("stockade s", &["schema", "search", "serve", "stat"]),
    ("stockade edit --re", &["--regex", "--remove", "--replace"]),
    ("stockade policy ", &["check", "default", "explain"]),
    ("stockade completions ", &["bash", "fish", "zsh"]),
    ("stockade ls --color ", &["always", "auto", "never"]),
    ("stockade call coder::re", &["coder::read-file", "coder::restore"]),
];

#[test]
fn bash_completes_commands_options_values_and_functions() {
    let dir = TestJail::directory();
    let file = completions(dir.path(), "bash", "stockade.bash");
    // What bash does with the function that `complete` names, for a line that is torn at colons, too.
    let ask = r#"
        source "$1"
        compopt() { :; } # only bash itself may call it, from within a completion
        COMP_LINE=$2 COMP_POINT=${#2}
        read -ra COMP_WORDS <<<"${2//:/ : }"
        [[ $2 == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        function=$(complete -p stockade | sed -E 's/.* -F ([^ ]+) .*/\1/')
        "$function" stockade "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let offered = |line: &str| {
        let output = Command::new("bash").args(["--norc", "-c", ask, "bash", &file, line]).output().unwrap();
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let mut words: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect();
        words.retain(|word| !word.is_empty());
        words.sort();
        words
    };
    for (line, expected) in OFFERS {
        // Bash replaces what is behind the last colon.
        let typed = line.rsplit(' ').next().unwrap();
        let kept = typed.rfind(':').map_or(0, |colon| colon + 1);
        let expected: Vec<&str> = expected.iter().map(|word| &word[kept..]).collect();
        assert_eq!(offered(line), expected, "{line}");
    }
    for line in ["stockade read ", "stockade read READ", "stockade edit f --append ", "stockade ls --root "] {
        assert!(offered(line).iter().all(|word| !word.starts_with('-')), "{line}: {:?}", offered(line));
    }
}

#[test]
fn fish_completes_commands_options_values_and_functions() {
    let dir = TestJail::directory();
    let file = completions(dir.path(), "fish", "stockade.fish");
    for (line, expected) in OFFERS {
        let output = Command::new("fish")
            .args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]", &file, line])
            .env("HOME", dir.path())
            .output()
            .expect("fish is there; scripts/test installs it");
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let offered: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
        for word in *expected {
            assert!(offered.contains(word), "{line}: {offered:?}");
        }
    }
}

/// Typed into a zsh that runs in a terminal, as a person does it.
#[test]
fn zsh_completes_what_is_typed() {
    let dir = TestJail::directory();
    completions(dir.path(), "zsh", "_stockade");
    let path = dir.path().to_str().unwrap();
    let setup = format!("PS1='> '; fpath=({path} $fpath); autoload -U compinit; compinit -u -D; print rea''dy");
    // One offer is taken, several are listed.
    for (typed, shown) in [
        ("stockade ed", &["> stockade edit"][..]),
        ("stockade edit --repl", &["> stockade edit --replace"]),
        ("stockade policy ex", &["> stockade policy explain"]),
        ("stockade ls --color al", &["> stockade ls --color always"]),
        ("stockade call coder::read", &["> stockade call coder::read-file"]),
        ("stockade m", &["mkdir", "man", "mv"]),
    ] {
        let terminal = Terminal::start(100, &["zsh", "-f"], &[("HOME", path), ("TERM", "screen")]);
        terminal.send(&["-l", &setup]);
        terminal.send(&["Enter"]);
        terminal.wait_for(|screen| screen.contains("\nready\n>"));
        terminal.send(&["-l", typed]);
        terminal.send(&["Tab"]);
        terminal.wait_for(|screen| shown.iter().all(|words| screen.contains(words)));
    }
}

#[test]
fn man_shows_every_page_without_a_complaint() {
    let dir = TestJail::directory();
    let said = stockade(&["man", "--to", dir.path().to_str().unwrap()]);
    let mut pages: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    assert_eq!(said, format!("wrote {} pages to {}\n", pages.len(), dir.path().display()));
    assert!(pages.len() > 20, "{pages:?}");
    for page in &pages {
        let output = Command::new("man")
            .args(["--warnings", "-P", "cat", "-l"])
            .arg(page)
            .envs([("MANWIDTH", "80"), ("LC_ALL", "C.UTF-8"), ("MAN_KEEP_FORMATTING", "")])
            .output()
            .expect("man is there; scripts/test installs it");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{page:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let of_a_program: &[&str] = match page.extension().unwrap().to_str().unwrap() {
            "5" => &["KEYS"],
            _ => &["EXIT STATUS", "ENVIRONMENT"],
        };
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"].iter().chain(of_a_program) {
            assert!(shown.lines().any(|line| line == *section), "{section} of {page:?}: {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 90), "{page:?}: {shown}");
    }
    for name in ["stockaded.8", "stockade-policy.5"] {
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), stockade(&["man", name]));
    }
    // Examples are what one can type, whatever roff makes of dashes and quotes elsewhere.
    let edit = fs::read_to_string(dir.path().join("stockade-edit.1")).unwrap();
    assert_eq!(edit, stockade(&["man", "edit"]));
    let shown = Command::new("man")
        .args(["-P", "cat", "-l"])
        .arg(dir.path().join("stockade-edit.1"))
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(r"stockade edit src/*.rs --regex '\bfoo\b' bar --expect 2 --atomic"), "{shown}");
}
