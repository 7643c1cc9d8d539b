use proptest::prelude::*;
use serde_json::json;

use super::{super::tests::TestCall, *};

/// All replies to one call, each begun where the one before names it.
fn pages(lines: &[String], max_reply: usize) -> Vec<String> {
    let call = TestCall::new("tree", json!({"path": "a"}), max_reply);
    let mut cursor = TextCursor::default();
    let mut pages = Vec::new();
    loop {
        let context = call.context(&cursor);
        let mut pager = Pager::new(&context, None);
        for line in lines {
            pager.push(line);
        }
        let page = pager.finish(&context);
        let next =
            page.rsplit_once("next: tree ").map(|(_, next)| serde_json::from_str::<serde_json::Value>(next).unwrap());
        pages.push(page);
        assert!(pages.len() < 10_000);
        match next {
            Some(next) => cursor = TextCursor::parse(next["cursor"].as_str().unwrap()).unwrap(),
            None => return pages,
        }
    }
}

fn without_next(page: &str) -> &str {
    match page.rsplit_once("… more; next: ") {
        Some((text, _)) => text,
        None => page.rsplit_once("\n… the line goes on; next: ").map_or(page, |(text, _)| text),
    }
}

proptest! {
    #[test]
    fn pages_fit_and_make_the_whole(
        lines in prop::collection::vec("[a-zäöü→]{0,40}\n", 0..60), long in prop::option::of(0usize..60), max_reply in 1500usize..2500,
    ) {
        let mut lines = lines;
        if let Some(line) = long.and_then(|at| lines.get_mut(at)) {
            *line = format!("{}\n", "lang→".repeat(600));
        }
        let pages = pages(&lines, max_reply);
        for page in &pages {
            prop_assert!(page.len() <= max_reply, "{} bytes", page.len());
        }
        let whole: String = pages.iter().map(|page| without_next(page)).collect();
        prop_assert_eq!(whole, lines.concat());
    }
}

#[test]
fn a_cursor_is_that_of_the_service_and_an_offset() {
    let cursor = |of_service: &str, offset| TextCursor { of_service: of_service.into(), offset };
    assert_eq!(TextCursor::parse("abc_-"), Some(cursor("abc_-", 0)));
    assert_eq!(TextCursor::parse("abc@70"), Some(cursor("abc", 70)));
    assert_eq!(TextCursor::parse("@70"), Some(cursor("", 70)));
    assert_eq!(TextCursor::parse("abc@x"), None);
    assert_eq!(
        TextCursor::parse(&"a".repeat(MAX_CURSOR_BYTES + 1)),
        None,
        "replies name their cursor, so it has a bound"
    );
    assert_eq!(cursor("abc", 0).at(7), "abc@7");
}
