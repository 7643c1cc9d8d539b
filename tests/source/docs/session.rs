//! README.md as its reader meets it: its commands are typed from top to bottom into one shell, in an empty home folder and
//! without a service. What needs root and systemd is typed by `tests/service/systemd/package.rs`.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{examples, read};
use crate::support::bin_dir;

/// The home folder that the README shows.
const HOME: &str = "/home/you";
/// Follows the output of a command, together with its exit code.
const END: char = '\u{1e}';
/// A command that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The blocks of kind `sh` that `package.rs` types: the section, and the number of the block in it.
const NEED_SYSTEMD: [(&str, usize); 3] = [("Install", 0), ("Install", 1), ("As a service", 0)];
/// Compiling takes minutes; `scripts/test` has a stage for it. Here the programs are in PATH already.
const BUILD: &str = "cargo() { [ \"$*\" = 'install --locked --path .' ]; }";

/// A shell that keeps its folder and its variables from one command to the next.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
    home: tempfile::TempDir,
}

impl Shell {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", bin_dir(false).display()))
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&home)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut shell = Self { child, stdin, lines, home };
        shell.run("exec 2>&1");
        shell.run(BUILD);
        shell
    }

    /// What the command printed, and its exit code. The command comes from a file, because its standard input is empty.
    fn run(&mut self, command: &str) -> (String, i32) {
        let file = self.home.path().join(".command");
        std::fs::write(&file, format!("{command}\n")).unwrap();
        let file = file.display();
        writeln!(self.stdin, "source {file} </dev/null; printf '{END}%s\\n' $?").unwrap();
        let mut printed = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("README.md: {command} does not end\n{printed}"));
            let Some((last, code)) = line.split_once(END) else {
                printed += &format!("{line}\n");
                continue;
            };
            let home = self.home.path().to_str().unwrap();
            return ((printed + last).replace(home, HOME), code.parse().unwrap());
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The service that the README starts in the background belongs to the group of the shell.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn the_readme_works_when_it_is_typed_from_top_to_bottom() {
    let readme = read("README.md");
    let jail = examples::project();
    let mut shell = Shell::start();
    let mut commands = 0;
    for section in readme.split("\n## ") {
        let title = section.lines().next().unwrap();
        let mut scripts = 0;
        for block in examples::blocks(section) {
            match block.kind.as_str() {
                "sh" => {
                    scripts += 1;
                    if !NEED_SYSTEMD.contains(&(title, scripts - 1)) {
                        let (printed, code) = shell.run(&block.text);
                        assert_eq!(code, 0, "README.md: {}\n{printed}", block.text);
                    }
                }
                "console" => {
                    for (command, expected) in examples::steps(&block.text, "$ ") {
                        let (printed, _) = shell.run(command);
                        examples::check("README.md", command, &expected, &printed);
                        commands += 1;
                    }
                }
                "python" => {
                    let (printed, code) = shell.run(&format!("python3 - <<'END'\n{}END", block.text));
                    assert_eq!(code, 0, "README.md: {}\n{printed}", block.text);
                }
                _ => {
                    examples::run(&jail, "README.md", &block);
                }
            }
        }
    }
    assert!(commands > 20, "only {commands} commands");
    jail.assert_intact();
}
