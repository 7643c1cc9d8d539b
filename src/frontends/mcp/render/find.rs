//! `find`: one path per line.

use serde::Deserialize;

use super::Asked;
use crate::frontends::escape::{one_line, quoted_name};

#[derive(Debug, Deserialize)]
pub(super) struct Page {
    files: Vec<Found>,
    truncated_reason: Option<String>,
    next_cursor: Option<String>,
    #[serde(default)]
    missing_paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Found {
    path: String,
    kind: Option<String>,
}

pub(super) fn render(asked: &Asked<'_>, page: &Page) -> String {
    let mut text = String::new();
    for found in &page.files {
        text.push_str(&asked.path(&found.path));
        text.push_str(if found.kind.as_deref() == Some("dir") { "/\n" } else { "\n" });
    }
    if page.files.is_empty() {
        text.push_str("nothing found\n");
    }
    for path in &page.missing_paths {
        text.push_str(&format!("note: {} is not there\n", quoted_name(path)));
    }
    match (&page.next_cursor, page.truncated_reason.as_deref()) {
        (Some(cursor), _) => {
            text.push_str(&format!("… more; next: {}\n", asked.again("cursor", &cursor)));
        }
        (None, Some(reason)) => {
            text.push_str(&format!("… incomplete ({}); name a folder or a narrower glob\n", one_line(reason)))
        }
        (None, None) => {}
    }
    text
}
