//! Reads text and bytes that a user gives a command: as an argument, from a file of the user, or from standard input.

use std::{
    ffi::OsStr,
    io::{self, IsTerminal, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::failure::CliFailure;
use crate::sys::file::{read_bounded, read_file};

/// The largest frame of the wire: longer input could not be sent.
const MAX_BYTES: u64 = 64 << 20;

/// `-` is standard input, `@FILE` a file, and `@@TEXT` the text `@TEXT`. Every other argument is the text itself.
pub(super) fn read_argument(what: &str, argument: &OsStr) -> Result<Vec<u8>, CliFailure> {
    match argument.as_bytes() {
        b"-" => read_file_or_stdin(what, Path::new("-")),
        [b'@', rest @ ..] if rest.starts_with(b"@") => Ok(rest.to_vec()),
        [b'@', file @ ..] => read_file_or_stdin(what, Path::new(OsStr::from_bytes(file))),
        text => Ok(text.to_vec()),
    }
}

/// Reads a file, or standard input for `-`.
pub(super) fn read_file_or_stdin(what: &str, file: &Path) -> Result<Vec<u8>, CliFailure> {
    let is_input = file.as_os_str() == "-";
    let name = if is_input { "standard input".into() } else { file.display().to_string() };
    let bytes = if is_input { read_stdin() } else { read_file(file, MAX_BYTES) };
    bytes.map_err(|error| CliFailure::Usage(format!("cannot read {what} from {name}: {error}")))
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let input = io::stdin();
    if input.is_terminal() {
        // Without this line the command seems to hang. Ignores the error: if standard error is closed, there is no way to
        // report it.
        let _ = writeln!(io::stderr(), "stockade: reading from the terminal; end with Ctrl-D");
    }
    read_bounded(input.lock(), MAX_BYTES)
}

/// Decodes input for a text field of the wire, which must be UTF-8.
pub(super) fn decode_utf8(what: &str, bytes: Vec<u8>) -> Result<String, CliFailure> {
    String::from_utf8(bytes).map_err(|_| CliFailure::Usage(format!("{what} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn read(argument: &str) -> Result<Vec<u8>, CliFailure> {
        super::read_argument("the text", OsStr::new(argument))
    }

    #[test]
    fn at_names_a_file_and_two_of_them_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, b"from \xff a file").unwrap();
        let mut argument = OsString::from("@");
        argument.push(&file);
        assert_eq!(super::read_argument("the text", &argument).unwrap(), b"from \xff a file");
        for (typed, meant) in [("plain", "plain"), ("@@media", "@media"), ("--", "--"), ("", "")] {
            assert_eq!(read(typed).unwrap(), meant.as_bytes(), "{typed}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_usage_error() {
        let missing = read("@/nonexistent/text").unwrap_err();
        assert_eq!(missing.exit_code(), 2);
        assert!(missing.message().unwrap().starts_with("cannot read the text from /nonexistent/text: "));
    }

    #[test]
    fn text_is_utf8() {
        assert_eq!(decode_utf8("the text", b"gr\xc3\xbcn".to_vec()).unwrap(), "grün");
        assert_eq!(decode_utf8("the text", vec![0xff]).unwrap_err().message().unwrap(), "the text is not UTF-8");
    }
}
