//! Whole files that the operator or the user of a command line named, read and written. Never used for a client's paths:
//! it follows links and knows no jail.

pub mod replace;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufReader, Read, Seek},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    Errno,
    host::{HostFileKind, open_to_list},
};

/// Most bytes that one read of a followed file takes.
const FOLLOWED_BYTES: u64 = 16 << 20;
/// A line that is longer than this is returned in parts.
const MAX_FOLLOWED_LINE: usize = 64 << 10;

/// At most `max_bytes`; a larger file is an error, not a silent head.
pub fn read_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_bounded(File::open(path)?, max_bytes)
}

/// The names in a folder in no particular order, each with its kind; `None` if the file system does not report the kind.
pub fn entries(path: &Path) -> Result<impl Iterator<Item = (OsString, Option<HostFileKind>)>, Errno> {
    let known = |kind| (kind != HostFileKind::Unknown).then_some(kind);
    let entry = move |entry: rustix::fs::DirEntry| {
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        (name, known(entry.file_type()))
    };
    Ok(open_to_list(rustix::fs::CWD, path)?.flatten().map(entry).filter(|(name, _)| name != "." && name != ".."))
}

/// Reads a stream of unknown length, such as standard input, to its end.
pub fn read_bounded(from: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {max_bytes} bytes")));
    }
    Ok(bytes)
}

/// Replaces what is there.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// Opens a file to be read line by line.
pub fn open_lines(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}

/// A file that other processes append to and rotate; reads on under the same name.
#[derive(Debug)]
pub struct FollowedFile {
    path: PathBuf,
    file: File,
    /// The beginning of a line whose end has not been written yet.
    partial_line: Vec<u8>,
}

impl FollowedFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), file: File::open(path)?, partial_line: Vec::new() })
    }

    /// The lines that were added since the last call, without their newlines. Switches to the file that has the name now once
    /// the old one has no more lines.
    pub fn read_more(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        if (&self.file).take(FOLLOWED_BYTES).read_to_end(&mut bytes)? == 0 {
            let (now, own) = (std::fs::metadata(&self.path), self.file.metadata()?);
            match now {
                Ok(now) if (now.dev(), now.ino()) != (own.dev(), own.ino()) => *self = Self::open(&self.path)?,
                // Emptied in place.
                Ok(now) if now.len() < self.file.stream_position()? => self.file.rewind()?,
                _ => {}
            }
            (&self.file).take(FOLLOWED_BYTES).read_to_end(&mut bytes)?;
        }
        self.partial_line.append(&mut bytes);
        let end = self.partial_line.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let end = if self.partial_line.len() - end > MAX_FOLLOWED_LINE { self.partial_line.len() } else { end };
        let rest = self.partial_line.split_off(end);
        let whole = std::mem::replace(&mut self.partial_line, rest);
        Ok(whole.split_inclusive(|byte| *byte == b'\n').map(|line| line.trim_ascii_end().to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_at_the_limit_is_read_and_one_byte_more_is_refused() {
        assert_eq!(read_bounded(&b"abc"[..], 3).unwrap(), b"abc");
        assert_eq!(read_bounded(&b"abcd"[..], 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_followed_file_gives_each_line_once_across_a_rename() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.1"));
        let append = |path: &Path, text: &str| {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        };
        append(&path, "1\n2\n3");
        let mut followed = FollowedFile::open(&path).unwrap();
        let mut more = || -> Vec<String> {
            let lines = followed.read_more().unwrap();
            lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
        };
        assert_eq!(more(), ["1", "2"]);
        append(&path, "3\n");
        assert_eq!(more(), ["33"]);
        std::fs::rename(&path, &old).unwrap();
        append(&old, "4\n");
        append(&path, "5\n");
        assert_eq!(more(), ["4"], "what was still written to the old file");
        assert_eq!(more(), ["5"]);
        std::fs::write(&path, "6\n").unwrap();
        append(&path, "");
        assert!(more().is_empty(), "as long as before");
        std::fs::write(&path, "").unwrap();
        assert!(more().is_empty());
        append(&path, "7\n");
        assert_eq!(more(), ["7"], "emptied in place");
    }
}
