//! Runs in `stockade mcp`: what kind of file some bytes are the beginning of, and the size of an image. Pure.
//! Does not trust the bytes: every offset is checked, nothing is decoded, and every loop is bounded by the bytes.

/// A kind of image that models can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageKind {
    Png,
    Jpeg,
    Gif,
    WebP,
}

/// The kind of a file, from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Text,
    Image(ImageKind),
    /// A kind that is not shown: its name and its MIME type.
    Binary(&'static str, &'static str),
}

/// Bytes in which a NUL makes a file binary, as in `coder::search`.
const BINARY_CHECK_BYTES: usize = 4096;

/// Offset, bytes, name and MIME type of kinds that are recognised by a number at their beginning.
const MAGIC_NUMBERS: &[(usize, &[u8], &str, &str)] = &[
    (0, b"%PDF-", "PDF document", "application/pdf"),
    (0, b"PK\x03\x04", "ZIP archive", "application/zip"),
    (0, b"PK\x05\x06", "ZIP archive", "application/zip"),
    (0, b"\x1f\x8b", "gzip data", "application/gzip"),
    (0, b"BZh", "bzip2 data", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "xz data", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard data", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive", "application/x-7z-compressed"),
    (257, b"ustar", "tar archive", "application/x-tar"),
    (0, b"\x7fELF", "ELF program or library", "application/x-elf"),
    (0, b"MZ", "Windows program or library", "application/vnd.microsoft.portable-executable"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library", "application/x-mach-binary"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O program", "application/octet-stream"),
    (0, b"\0asm", "WebAssembly module", "application/wasm"),
    (0, b"SQLite format 3\0", "SQLite database", "application/vnd.sqlite3"),
    (0, b"OggS", "Ogg media", "application/ogg"),
    (0, b"fLaC", "FLAC audio", "audio/flac"),
    (0, b"ID3", "MP3 audio", "audio/mpeg"),
    (4, b"ftyp", "MP4 media", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "Matroska or WebM media", "video/x-matroska"),
    (8, b"WAVE", "WAVE audio", "audio/wav"),
    (0, b"BM", "BMP image", "image/bmp"),
    (0, b"II*\0", "TIFF image", "image/tiff"),
    (0, b"MM\0*", "TIFF image", "image/tiff"),
    (0, b"\0\0\x01\0", "icon", "image/vnd.microsoft.icon"),
    (0, b"wOFF", "web font", "font/woff"),
    (0, b"wOF2", "web font", "font/woff2"),
];

/// Byte order marks of texts in which NUL is an ordinary byte.
const WIDE_TEXT_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

impl ImageKind {
    fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if head.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else {
            None
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG image",
            Self::Jpeg => "JPEG image",
            Self::Gif => "GIF image",
            Self::WebP => "WebP image",
        }
    }

    pub(super) fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    /// Width and height. None if the head does not hold them.
    pub(super) fn dimensions(self, head: &[u8]) -> Option<(u32, u32)> {
        match self {
            Self::Png => {
                let is_header = head.get(12..16) == Some(b"IHDR");
                is_header.then(|| Some((big_endian(head, 16, 4)?, big_endian(head, 20, 4)?)))?
            }
            Self::Gif => Some((little_endian(head, 6, 2)?, little_endian(head, 8, 2)?)),
            Self::Jpeg => jpeg_dimensions(head),
            Self::WebP => webp_dimensions(head),
        }
    }
}

impl ContentKind {
    /// `head` is the beginning of the file, at least `BINARY_CHECK_BYTES` of it if it has as many.
    pub(super) fn of(head: &[u8]) -> Self {
        if let Some(image) = ImageKind::of(head) {
            return Self::Image(image);
        }
        if WIDE_TEXT_MARKS.iter().any(|mark| head.starts_with(mark)) {
            return Self::Text;
        }
        let has_nul = head.iter().take(BINARY_CHECK_BYTES).any(|byte| *byte == 0);
        let is_text = !has_nul && std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
        let known =
            MAGIC_NUMBERS.iter().find(|(at, number, ..)| head.get(*at..).is_some_and(|rest| rest.starts_with(number)));
        match known {
            Some((_, _, name, mime_type)) if !is_text => Self::Binary(name, mime_type),
            _ if has_nul => Self::Binary("binary file", "application/octet-stream"),
            _ => Self::Text,
        }
    }

    pub(super) fn mime_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Image(image) => image.mime_type(),
            Self::Binary(_, mime_type) => mime_type,
        }
    }
}

/// The MIME type of a text file by the end of its name, where there is a registered one that is more exact than `text/plain`.
pub(super) fn text_mime_type(name: &str) -> &'static str {
    let extension =
        name.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_ascii_lowercase());
    match extension.as_deref() {
        Some("md" | "markdown") => "text/markdown",
        Some("html" | "htm") => "text/html",
        Some("css") => "text/css",
        Some("csv") => "text/csv",
        Some("js" | "mjs" | "cjs") => "text/javascript",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("svg") => "image/svg+xml",
        Some("toml") => "application/toml",
        Some("yaml" | "yml") => "application/yaml",
        _ => "text/plain",
    }
}

/// The MIME type that the name suggests, for lists of files, which open none of them. `None` if the name suggests none.
pub(super) fn named_mime_type(name: &str) -> Option<&'static str> {
    let extension = name.rsplit('/').next()?.rsplit_once('.')?.1.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "pdf" => Some("application/pdf"),
        "txt" => Some("text/plain"),
        _ => Some(text_mime_type(name)).filter(|mime_type| *mime_type != "text/plain"),
    }
}

fn big_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Walks from segment to segment up to the frame header, which holds the size. Each segment is at least two bytes long.
fn jpeg_dimensions(head: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if head.get(at) != Some(&0xff) {
            return None;
        }
        match *head.get(at + 1)? {
            // Fill bytes.
            0xff => at += 1,
            // Frame headers; C4, C8 and CC are other tables.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big_endian(head, at + 7, 2)?, big_endian(head, at + 5, 2)?));
            }
            // Markers without a segment.
            0x01 | 0xd0..=0xd8 => at += 2,
            _ => at += 2 + (big_endian(head, at + 2, 2)?.max(2) as usize),
        }
    }
}

fn webp_dimensions(head: &[u8]) -> Option<(u32, u32)> {
    match head.get(12..16)? {
        b"VP8X" => Some((little_endian(head, 24, 3)? + 1, little_endian(head, 27, 3)? + 1)),
        b"VP8L" => {
            let bits = little_endian(head, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Some((little_endian(head, 26, 2)? & 0x3fff, little_endian(head, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
