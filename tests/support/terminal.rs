//! A real terminal: tmux keeps the screen that a user would see, and returns its content.

use std::{
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// A program that has shown nothing by then will not.
const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: &str = "60";
/// Behind what a program printed, with its exit code.
const END: &str = "the end was";

pub struct Terminal {
    dir: tempfile::TempDir,
}

impl Terminal {
    /// A terminal of so many columns in which `program` runs, with this environment and no other.
    pub fn start(columns: u16, program: &[&str], environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("tmux-").tempdir().unwrap();
        let terminal = Self { dir };
        let script = format!("\"$@\"; printf '{END} %d.' $?; exec sleep 600");
        let size = columns.to_string();
        let mut command = terminal.tmux();
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", &size, "-y", ROWS]);
        // Its server inherits our environment, a program in it the server's.
        command.envs(environment.iter().copied());
        command.args(["sh", "-c", &script, "sh"]).args(program);
        check(command.output().expect("tmux is there; scripts/test installs it"));
        terminal
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_clear().env("LC_ALL", "C.UTF-8").env("PATH", "/usr/bin:/bin").env("HOME", self.dir.path());
        command.env("SHELL", "/bin/sh").arg("-u").arg("-S").arg(self.socket());
        command
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Types text, or keys by their names, such as `Tab`.
    pub fn send(&self, keys: &[&str]) {
        check(self.tmux().arg("send-keys").args(keys).output().unwrap());
    }

    /// The lines of the screen and of the scroll-back above it.
    pub fn screen(&self) -> String {
        let output = check(self.tmux().args(["capture-pane", "-p", "-S", "-"]).output().unwrap());
        trimmed(&String::from_utf8(output.stdout).unwrap())
    }

    /// The content of the screen once `wanted` accepts it.
    pub fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "it still shows:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The output of the program up to its end, with its colours as marks, and its exit code.
    pub fn painted(&self) -> (String, i32) {
        self.wait_for(|screen| screen.contains(END) && screen.ends_with(".\n"));
        let output = check(self.tmux().args(["capture-pane", "-p", "-e", "-S", "-"]).output().unwrap());
        let text = marked(&String::from_utf8(output.stdout).unwrap());
        let (printed, end) = text.rsplit_once(END).unwrap();
        (trimmed(printed), end.trim().trim_end_matches('.').parse().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

#[track_caller]
fn check(output: Output) -> Output {
    assert!(output.status.success(), "tmux: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines[..end].iter().map(|line| format!("{line}\n")).collect()
}

/// The style of a cell. Versions of tmux choose different sequences for the same style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Look {
    weight: &'static str,
    line: &'static str,
    colour: &'static str,
}

impl Look {
    fn apply(&mut self, code: &str) {
        match code {
            "" | "0" => *self = Self::default(),
            "1" => self.weight = "bold",
            "2" => self.weight = "dim",
            "22" => self.weight = "",
            "4" => self.line = "underlined",
            "24" => self.line = "",
            "31" => self.colour = "red",
            "32" => self.colour = "green",
            "33" => self.colour = "yellow",
            "34" => self.colour = "blue",
            "35" => self.colour = "magenta",
            "36" => self.colour = "cyan",
            "39" => self.colour = "",
            "49" => {}
            other => panic!("nothing of ours looks like {other}"),
        }
    }

    fn mark(&self) -> String {
        let words: Vec<&str> =
            [self.weight, self.line, self.colour].into_iter().filter(|word| !word.is_empty()).collect();
        if words.is_empty() { "‹›".into() } else { format!("‹{}›", words.join(" ")) }
    }
}

/// Replaces sequences with marks, each where the style changes before the next visible character.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    let (mut look, mut shown) = (Look::default(), Look::default());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\x1b[") {
            let end = sequence.find(|c: char| c.is_ascii_alphabetic()).expect("sequences end");
            assert_eq!(&sequence[end..=end], "m", "only colours are captured");
            sequence[..end].split(';').for_each(|code| look.apply(code));
            rest = &sequence[end + 1..];
            continue;
        }
        if c == '\n' && shown != Look::default() {
            shown = Look::default();
            marked.push_str(&shown.mark());
        } else if c != ' ' && c != '\n' && shown != look {
            shown = look.clone();
            marked.push_str(&shown.mark());
        }
        marked.push(c);
        rest = &rest[c.len_utf8()..];
    }
    marked
}
