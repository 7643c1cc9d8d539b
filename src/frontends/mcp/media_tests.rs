use proptest::prelude::*;

use super::*;

/// The beginnings of real files, as the formats' descriptions have them.
/// The kind of a file, its first bytes, and its width and height.
type FileHead = (ContentKind, Vec<u8>, Option<(u32, u32)>);

fn heads() -> Vec<FileHead> {
    let png =
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &640u32.to_be_bytes(), &480u32.to_be_bytes(), &[8, 6, 0, 0, 0]]
            .concat();
    let gif = [b"GIF89a".as_slice(), &640u16.to_le_bytes(), &480u16.to_le_bytes(), &[0, 0, 0]].concat();
    let app = [b"\xff\xe0\0\x10".as_slice(), &[0; 14]].concat();
    let tables = [b"\xff\xc4\0\x05".as_slice(), &[0; 3]].concat();
    let frame = [b"\xff\xc2\0\x11\x08".as_slice(), &480u16.to_be_bytes(), &640u16.to_be_bytes(), &[3; 10]].concat();
    let jpeg = [b"\xff\xd8".as_slice(), &app, &tables, b"\xff", &frame].concat();
    let riff = |chunk: &[u8], data: &[u8]| [b"RIFF\0\0\0\0WEBP".as_slice(), chunk, b"\0\0\0\0", data].concat();
    let extended = riff(b"VP8X", &[&[0u8; 4][..], &[0x7f, 2, 0], &[0xdf, 1, 0]].concat());
    let lossless = riff(b"VP8L", &[&[0x2f][..], &(639u32 | 479 << 14).to_le_bytes()].concat());
    let lossy = riff(b"VP8 ", &[&[0u8; 3][..], b"\x9d\x01\x2a", &640u16.to_le_bytes(), &480u16.to_le_bytes()].concat());
    let size = Some((640, 480));
    vec![
        (ContentKind::Image(ImageKind::Png), png, size),
        (ContentKind::Image(ImageKind::Gif), gif, size),
        (ContentKind::Image(ImageKind::Jpeg), jpeg, size),
        (ContentKind::Image(ImageKind::WebP), extended, size),
        (ContentKind::Image(ImageKind::WebP), lossless, size),
        (ContentKind::Image(ImageKind::WebP), lossy, size),
    ]
}

#[test]
fn images_are_known_with_their_size() {
    for (kind, head, size) in heads() {
        assert_eq!(ContentKind::of(&head), kind, "{head:?}");
        let ContentKind::Image(image) = kind else { panic!("an image") };
        assert_eq!(image.dimensions(&head), size, "{image:?}");
    }
}

#[test]
fn a_torn_head_has_no_size_and_no_panic() {
    for (_, head, _) in heads() {
        for length in 0..head.len() {
            if let ContentKind::Image(image) = ContentKind::of(&head[..length]) {
                let _ = image.dimensions(&head[..length]);
            }
        }
    }
}

#[test]
fn texts_are_no_binary_files() {
    for text in ["", "plain\n", "BM is a name", "MZ", "ID3 tags", "größe", "\u{feff}mark"] {
        assert_eq!(ContentKind::of(text.as_bytes()), ContentKind::Text, "{text}");
    }
    assert_eq!(ContentKind::of(b"caf\xe9 = 1\n"), ContentKind::Text, "Latin-1");
    assert_eq!(ContentKind::of(b"\xff\xfea\0b\0"), ContentKind::Text, "UTF-16");
    assert_eq!(ContentKind::of(&"é".as_bytes()[..1]), ContentKind::Text, "a character that is cut");
}

#[test]
fn binary_files_are_named_by_their_number() {
    for (head, name) in [
        (&b"\x7fELF\x02\x01\0"[..], "ELF program or library"),
        (b"%PDF-1.7\n\xe2\xe3", "PDF document"),
        (b"a\0b", "binary file"),
        (b"PK\x03\x04\0", "ZIP archive"),
    ] {
        assert!(matches!(ContentKind::of(head), ContentKind::Binary(said, _) if said == name), "{name}");
    }
    let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
    assert!(matches!(ContentKind::of(&tar), ContentKind::Binary("tar archive", "application/x-tar")));
}

#[test]
fn names_suggest_a_type_only_where_there_is_one() {
    for (name, expected) in [
        ("/a/b.PNG", Some("image/png")),
        ("/a.b/readme", None),
        ("/x.md", Some("text/markdown")),
        ("/x.rs", None),
        ("/x.json", Some("application/json")),
    ] {
        assert_eq!(named_mime_type(name), expected, "{name}");
    }
    assert_eq!(text_mime_type("/x.rs"), "text/plain");
}

proptest! {
    #[test]
    fn any_bytes_have_a_kind(number in 0usize..6, tail in prop::collection::vec(any::<u8>(), 0..64)) {
        let (_, mut head, _) = heads().swap_remove(number);
        head.truncate(16);
        head.extend(tail);
        if let ContentKind::Image(image) = ContentKind::of(&head) {
            let _ = image.dimensions(&head);
        }
    }
}
