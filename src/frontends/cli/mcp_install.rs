//! `stockade mcp install`: writes the block into the configuration file of a host. Runs as the user, on a file of the user, so no jail
//! is needed; but a repository may have placed links below its folder, which are refused (`sys::file::replace`).
//! Must never write what the user has not seen and agreed to, and never a file that it does not understand.

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::json;

use super::{
    super::mcp::config::{ConfigHost, NotEdited, StartCommand},
    CommandResult,
    args::McpInstallArgs,
    diff,
    failure::{CliFailure, EXIT_REFUSED},
    output::Output,
    paths::display_path,
};
use crate::{
    sys::file::replace::{Refused, Replacement},
    text::diff::{DIFF_TIME, unified},
};

/// Claude Code also keeps the history of projects in this file.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// A longer diff is shown only in part.
const MAX_DIFF_BYTES: usize = 1 << 20;
/// The most that is read of a typed answer.
const MAX_ANSWER_BYTES: u64 = 1 << 10;

pub(super) fn run(args: &McpInstallArgs, start: &StartCommand, out: &mut Output<'_>) -> CommandResult {
    let (base, below) = file(args)?;
    let path = base.join(&below);
    let found = Replacement::open(&base, &below, MAX_FILE_BYTES).map_err(|refused| refusal(refused, args))?;
    let old = std::str::from_utf8(found.content()).map_err(|_| {
        CliFailure::File(format!("{}: is not UTF-8; nothing was written", display_path(path.as_os_str())))
    })?;
    let new = args.host.edited(old, start).map_err(|NotEdited(why)| not_edited(&path, &why, args.host))?;
    let diff = difference(&path, old, &new);
    if found.exists() && new == old {
        return report(args, &path, Written::Already, &diff, out);
    }
    if !out.json {
        let (is_seen, style) = (out.is_for_person(), out.style);
        out.write_text(&diff::render(&diff, is_seen, style))?;
    }
    if !args.yes && !agrees(&path, out)? {
        out.write_remark("nothing was written")?;
        return Ok(EXIT_REFUSED);
    }
    let backup = found.write(new.as_bytes()).map_err(|refused| refusal(refused, args))?;
    report(args, &path, Written::Now(backup), &diff, out)
}

enum Written {
    Already,
    /// With the name of the file as it was before.
    Now(Option<PathBuf>),
}

fn report(args: &McpInstallArgs, path: &Path, written: Written, diff: &str, out: &mut Output<'_>) -> CommandResult {
    let own_tools = args.host.own_tools(&args.server.tools);
    let backup = match &written {
        Written::Already => None,
        Written::Now(backup) => backup.as_ref().map(|path| path.to_string_lossy().into_owned()),
    };
    if out.json {
        let object = json!({
            "file": path.to_string_lossy(), "changed": !matches!(written, Written::Already), "backup": backup,
            "diff": diff, "own_tools": own_tools,
        });
        return out.write_json_line(&object.to_string()).map(|()| 0);
    }
    let name = display_path(path.as_os_str());
    match (written, backup) {
        (Written::Already, _) => out.write_text(&format!("{name} has it already\n"))?,
        (Written::Now(_), Some(backup)) => {
            out.write_text(&format!("wrote {name}; as it was before: {}\n", display_path(OsStr::new(&backup))))?;
        }
        (Written::Now(_), None) => out.write_text(&format!("wrote {name}, a new file\n"))?,
    }
    out.write_advice(&own_tools)?;
    Ok(0)
}

/// The folder in which links are followed, and the file below it.
fn file(args: &McpInstallArgs) -> Result<(PathBuf, PathBuf), CliFailure> {
    if let Some(file) = &args.file {
        let path = std::path::absolute(file)
            .map_err(|error| CliFailure::Usage(format!("{}: {error}", display_path(file.as_os_str()))))?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(CliFailure::Usage(format!("{}: names no file", display_path(file.as_os_str()))));
        };
        return Ok((folder.to_owned(), name.into()));
    }
    let project = args.host.project_file();
    match (args.host.user_file(), project) {
        (Some(location), _) if !args.project => {
            let variable = |name: &str| env::var_os(name).map(PathBuf::from);
            let named = location.find(variable);
            named.ok_or_else(|| CliFailure::Usage("HOME names no absolute folder; name the file with --file".into()))
        }
        (_, Some(project)) => {
            let here = env::current_dir()
                .map_err(|error| CliFailure::Usage(format!("cannot tell the current folder: {error}")))?;
            Ok((here, project.into()))
        }
        (Some(_), None) => Err(CliFailure::Usage(
            "this host documents no file for one project; leave --project out, or name a file with --file".into(),
        )),
        (None, None) => Err(CliFailure::Usage("this host documents no file; name one with --file".into())),
    }
}

fn difference(path: &Path, old: &str, new: &str) -> String {
    let deadline = Instant::now() + DIFF_TIME;
    let name = path.to_string_lossy();
    let diff = unified(&name, old.as_bytes(), new.as_bytes(), MAX_DIFF_BYTES, deadline);
    match diff.truncated {
        true => diff.text + "(the rest of the difference is too long to show)\n",
        false => diff.text,
    }
}

/// Asks the user at the terminal. Without a terminal, only `--yes` agrees.
fn agrees(path: &Path, out: &mut Output<'_>) -> Result<bool, CliFailure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        out.flush()?;
        return Err(CliFailure::Usage(
            "there is no terminal to ask on; --yes writes the file without a question".into(),
        ));
    }
    out.flush()?;
    // If standard error is closed, the user does not see the question; still only a typed `y` or `yes` agrees.
    let _ = write!(out.stderr, "Write {}? [y/N] ", display_path(path.as_os_str()));
    let _ = out.stderr.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer);
    Ok(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

fn refusal(refused: Refused, args: &McpInstallArgs) -> CliFailure {
    let advice = match (&refused, &args.file) {
        (Refused::Link(_), None) => "; nothing was written. --file names the file itself, if it is meant",
        (Refused::Link(_), Some(_)) => "; nothing was written. Name the file that it leads to",
        (Refused::Changed(_), _) => "; nothing was written. Try again",
        _ => "; nothing was written",
    };
    CliFailure::File(format!("{refused}{advice}"))
}

fn not_edited(path: &Path, why: &str, host: ConfigHost) -> CliFailure {
    use clap::ValueEnum;
    let host = host.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    CliFailure::File(format!(
        "{}: {why}; nothing was written. `stockade mcp --print-config {host}` prints what to put in by hand",
        display_path(path.as_os_str())
    ))
}
