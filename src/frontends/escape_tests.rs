use proptest::prelude::*;

use super::*;

/// One of each kind that was found to forge something: line breaks, directions, tags, selectors, fillers, zero width.
const HIDDEN: [char; 26] = [
    '\0',
    '\u{7}',
    '\n',
    '\r',
    '\t',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{9b}',
    '\u{ad}',
    '\u{34f}',
    '\u{61c}',
    '\u{115f}',
    '\u{180e}',
    '\u{200b}',
    '\u{200e}',
    '\u{2028}',
    '\u{202e}',
    '\u{2060}',
    '\u{2069}',
    '\u{3164}',
    '\u{fe0f}',
    '\u{feff}',
    '\u{fff9}',
    '\u{e0041}',
    '\u{e0100}',
];

#[test]
fn ordinary_names_stay_as_they_are() {
    for plain in ["main.rs", "a b", "größe", "日本語", "q'uote\"s", "🙂"] {
        assert_eq!(name(plain.as_bytes()), plain);
    }
}

#[test]
fn hidden_characters_are_shown_everywhere() {
    for c in HIDDEN {
        let held = format!("a{c}b");
        let shown = [name(held.as_bytes()), quote_name(&held).into_owned(), escape_text(&held)];
        for shown in shown {
            assert!(!shown.contains(is_hidden), "{shown:?}");
            assert!(shown.contains("\\"), "{shown}");
        }
    }
    assert_eq!(name(b"\x1b[2Jx\x07\x7f"), "\\u001b[2Jx\\u0007\\u007f");
    assert_eq!(name("\u{9b}31m".as_bytes()), "\\u009b31m");
    assert_eq!(name(b"a\nb\tc\r"), "a\\nb\\tc\\r");
    assert_eq!(name("a\u{202e}txt.exe".as_bytes()), "a\\u202etxt.exe");
    assert_eq!(name("\u{e0041}".as_bytes()), "\\udb40\\udc41");
}

#[test]
fn blanks_that_look_like_a_space_are_shown_in_names() {
    assert_eq!(name("10.30\u{202f}AM\u{a0}\u{3000}\u{2800}".as_bytes()), "10.30\\u202fAM\\u00a0\\u3000\\u2800");
    assert_eq!(line("a\u{a0}b\tc"), "a\u{a0}b\tc");
}

#[test]
fn names_that_are_not_utf8_show_their_bytes() {
    assert_eq!(name(b"caf\xe9.txt"), "caf\\xe9.txt");
}

#[test]
fn a_backslash_in_a_name_cannot_pose_as_an_escape() {
    assert_eq!(name(b"a\\u001b"), "a\\\\u001b");
    assert_eq!(quote_name("a\\u001b"), "\"a\\\\u001b\"");
    assert_eq!(escape_text("a\\d+"), "a\\d+");
}

/// A name that could be read as another line of a reply is quoted.
#[test]
fn names_that_look_like_parts_of_a_reply_are_quoted() {
    for plain in ["src/main.rs", "/srv/a", "größe", "a-2-", "(1)", "{}"] {
        assert_eq!(quote_name(plain), plain);
    }
    for odd in ["", "no matches", "a.rs:2: x", "warning: x", "… more", "5→x", "⋮", "\"a\"", "a\\", " a", "a\u{a0}b"]
    {
        let shown = quote_name(odd);
        assert!(shown.starts_with('"') && shown.ends_with('"') && shown.len() > 1, "{shown}");
    }
}

proptest! {
    /// A model can send a quoted name back as it stands.
    #[test]
    fn a_quoted_name_is_json(held in any::<String>()) {
        let shown = quote_name(&held);
        match shown.starts_with('"') {
            true => prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), held),
            false => prop_assert_eq!(&*shown, &*held),
        }
    }

    /// No two names are shown in the same way.
    #[test]
    fn a_shown_name_can_be_read_back(held in "[a\\\\\"u0\u{1b}\u{202e}\u{e0041}n\n]{0,8}") {
        let shown = name(held.as_bytes());
        prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{}\"", shown.replace('"', "\\\""))).unwrap(), held);
    }

    #[test]
    fn json_with_its_hidden_characters_escaped_means_the_same(held in any::<String>()) {
        let text = serde_json::to_string(&held).unwrap();
        let safe = json(&text);
        prop_assert!(!safe.contains(is_hidden));
        prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), held);
    }

    /// However it is cut.
    #[test]
    fn content_is_shown_alike_in_one_piece_and_in_many(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..40),
        text in any::<String>(),
        size in 1_usize..5,
    ) {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let (mut whole, mut cut) = (ContentEscaper::default(), ContentEscaper::default());
            let expected = whole.push(bytes) + &whole.finish();
            let pieces: String = bytes.chunks(size).map(|piece| cut.push(piece)).collect();
            prop_assert_eq!(pieces + &cut.finish(), expected.clone());
            prop_assert_eq!(cut.is_escaped, whole.is_escaped);
            let acts = |c| is_hidden(c) && !['\n', '\r', '\t', '\u{fe0e}', '\u{fe0f}'].contains(&c);
            prop_assert_eq!(expected.find(acts), None);
        }
    }
}

#[test]
fn plain_content_reaches_a_terminal_as_it_is() {
    let mut content = ContentEscaper::default();
    let text = "one\r\n\ttwo ❤\u{fe0f} é\n";
    assert_eq!(content.push(text.as_bytes()) + &content.finish(), text);
    assert!(!content.is_escaped);
    assert_eq!(content.push(b"\x1b]0;x\x07 \xff a\rb\r"), "\\u001b]0;x\\u0007 \\xff a\\rb");
    assert_eq!(content.finish(), "\\r");
    assert!(content.is_escaped);
}

#[test]
fn wide_characters_take_two_columns_and_marks_none() {
    assert_eq!(display_width("abc"), 3);
    assert_eq!(display_width("日本"), 4);
    assert_eq!(display_width("e\u{301}"), 1);
}
