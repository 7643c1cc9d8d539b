//! The programs we are compared with, by the names that package managers know them by. What cannot be installed is a
//! row in the table, not the end of the run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{report::Report, task::Kind};

const REFERENCE_PACKAGE: &str = "@modelcontextprotocol/server-filesystem";
const REFERENCE_VERSION: &str = "2026.8.31";
/// Crates with their versions. Debian's ripgrep is years older and slower.
const RUST_MCP: (&str, &str) = ("rust-mcp-filesystem", "0.4.5");
const RIPGREP: (&str, &str) = ("ripgrep", "15.2.0");

#[derive(Default)]
pub struct Peers {
    pub ripgrep: Option<PathBuf>,
    pub fd: Option<PathBuf>,
    pub reference: Option<PathBuf>,
    pub rust_mcp: Option<PathBuf>,
    /// Why one of them is missing.
    missing: Vec<(&'static str, String)>,
}

impl Peers {
    /// Installs below `work` what is not there yet, except for what only the system's package manager has.
    pub fn install(work: &Path) -> Self {
        let mut peers = Self::default();
        peers.ripgrep = peers.note("ripgrep", cargo(&work.join("peers"), RIPGREP, "rg"));
        peers.fd = peers.note("fd", debian("fd-find", &["fdfind", "fd"]));
        peers.reference = peers.note(Kind::Reference.name(), reference(&work.join("peers/npm")));
        peers.rust_mcp = peers.note(Kind::RustMcp.name(), cargo(&work.join("peers"), RUST_MCP, RUST_MCP.0));
        peers
    }

    fn note(&mut self, name: &'static str, found: Result<PathBuf, String>) -> Option<PathBuf> {
        found.map_err(|why| self.missing.push((name, why))).ok()
    }

    /// One that was installed and does not serve.
    pub fn give_up(&mut self, kind: Kind, why: String) {
        match kind {
            Kind::Reference => self.reference = None,
            Kind::RustMcp => self.rust_mcp = None,
            _ => panic!("{} does not serve: {why}", kind.name()),
        }
        self.missing.push((kind.name(), why));
    }

    pub fn report(&self, report: &mut Report) {
        for (name, path) in [("ripgrep", &self.ripgrep), ("fd", &self.fd)] {
            let said = path.as_ref().and_then(|path| Command::new(path).arg("--version").output().ok());
            let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            if let Some(line) = said.as_ref().and_then(|said| said.lines().next()) {
                report.fact(name, line);
            }
        }
        if self.reference.is_some() {
            report.fact(Kind::Reference.name(), format!("{REFERENCE_PACKAGE} {REFERENCE_VERSION}"));
        }
        if self.rust_mcp.is_some() {
            report.fact(Kind::RustMcp.name(), RUST_MCP.1);
        }
        for (name, why) in &self.missing {
            report.absent(name, format!("cannot be compared: {why}"));
        }
    }
}

fn debian(package: &str, names: &[&str]) -> Result<PathBuf, String> {
    let installed = || names.iter().find_map(|name| in_path(name));
    if installed().is_none() {
        run(Command::new("apt-get").args(["install", "-y", package]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    installed().ok_or_else(|| format!("{package} brought no {}", names[0]))
}

fn reference(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("node_modules/.bin/mcp-server-filesystem");
    if !program.exists() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let package = format!("{REFERENCE_PACKAGE}@{REFERENCE_VERSION}");
        run(Command::new("npm").args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(package))?;
    }
    Ok(program)
}

/// A program from the registry. The name of its folder has the version, so that a new one is built.
fn cargo(folder: &Path, (name, version): (&str, &str), program: &str) -> Result<PathBuf, String> {
    let folder = folder.join(format!("{name}-{version}"));
    let program = folder.join("bin").join(program);
    if !program.exists() {
        // Built as its authors meant it, and with nothing of our own configuration: from outside of the repository.
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--locked", "--version", version, "--root"]).arg(&folder);
        cargo.arg("--target-dir").arg(folder.join("build")).arg(name);
        run(cargo.current_dir(std::env::temp_dir()))?;
    }
    Ok(program)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs something that may take minutes; what it says is shown, because a silent minute looks like a hang.
pub fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("  {command:?}");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", command.get_program().to_string_lossy())),
        Err(error) => Err(format!("{}: {error}", command.get_program().to_string_lossy())),
    }
}
