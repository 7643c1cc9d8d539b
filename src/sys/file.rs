//! Whole files that the operator or the user of a command line named, read and written. Never used for a client's paths:
//! it follows links and knows no jail.

use std::{fs::File, io, io::Read, path::Path};

/// At most `max_bytes`; a larger file is an error, not a silent head.
pub fn read_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_bounded(File::open(path)?, max_bytes)
}

/// The same for a stream whose length nobody knows, such as standard input.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_at_the_limit_is_read_and_one_byte_more_is_refused() {
        assert_eq!(read_bounded(&b"abc"[..], 3).unwrap(), b"abc");
        assert_eq!(read_bounded(&b"abcd"[..], 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
