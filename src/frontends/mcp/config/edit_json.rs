//! Runs in `stockade mcp install`: sets members of a JSON file that a person wrote, comments and trailing commas included. Every other
//! byte stays. Pure. Never trusts its own edit: the edited text has to mean what the old one meant with the members set.

use std::ops::Range;

use serde_json::{Value, ser::PrettyFormatter};

use super::NotEdited;

/// Deeper files are refused. The limit is the same as that of serde_json.
const MAX_DEPTH: usize = 128;

/// Sets the members of `value` in the object at `path`; other members of an existing object stay.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, NotEdited> {
    let before = parse(text)?;
    let mut expected = before.clone();
    let mut edited = text.to_owned();
    let found = path.iter().try_fold(&before, |value, key| value.get(key));
    match (found, value) {
        (Some(Value::Object(_)), Value::Object(members)) => {
            for (key, member) in members {
                let whole: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
                edited = set_one(&edited, &whole, member)?;
                put(&mut expected, &whole, member)?;
            }
        }
        _ => {
            edited = set_one(text, path, value)?;
            put(&mut expected, path, value)?;
        }
    }
    match parse(&edited)? == expected {
        true => Ok(edited),
        false => Err(NotEdited("it cannot be edited without changing another part of it".into())),
    }
}

/// Like `set`, but in the parsed value.
fn put(value: &mut Value, path: &[&str], member: &Value) -> Result<(), NotEdited> {
    let (last, folders) = path.split_last().ok_or_else(|| NotEdited("no member is named".into()))?;
    let mut inner = value;
    for key in folders {
        let object = inner.as_object_mut().ok_or_else(|| not_an_object(key))?;
        inner = object.entry(*key).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    let object = inner.as_object_mut().ok_or_else(|| not_an_object(last))?;
    object.insert((*last).to_owned(), member.clone());
    Ok(())
}

fn not_an_object(key: &str) -> NotEdited {
    NotEdited(format!("what should hold \"{key}\" is not an object"))
}

/// The value of a text that may hold comments and trailing commas.
fn parse(text: &str) -> Result<Value, NotEdited> {
    serde_json::from_str(&plain(text)).map_err(|error| NotEdited(format!("it is not JSON: {error}")))
}

/// Replaces comments and trailing commas with spaces, so that lines and columns of errors stay the same.
fn plain(text: &str) -> String {
    let mut plain: Vec<u8> = text.as_bytes().to_vec();
    let mut comma = None;
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let end = match byte {
            b'"' => string_end(text, at).unwrap_or(text.len()),
            b'/' => match comment_end(text, at) {
                Some(end) => {
                    blank(&mut plain[at..end]);
                    at = end;
                    continue;
                }
                // What an open comment would hold is no JSON either. It ends the scan, which would look for its end at each slash.
                None if text[at..].starts_with("/*") => break,
                None => at + 1,
            },
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b',' => {
                comma = Some(at);
                at += 1;
                continue;
            }
            b'}' | b']' => {
                if let Some(comma) = comma {
                    plain[comma] = b' ';
                }
                at + 1
            }
            _ => at + 1,
        };
        comma = None;
        at = end;
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        blank(&mut plain[..BYTE_ORDER_MARK.len_utf8()]);
    }
    String::from_utf8_lossy(&plain).into_owned()
}

const BYTE_ORDER_MARK: char = '\u{feff}';

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// The position after the closing quote of the string that begins at `from`.
fn string_end(text: &str, from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        match text.as_bytes().get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn comment_end(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    match rest.as_bytes().get(1)? {
        b'/' => Some(rest.find('\n').map_or(text.len(), |end| from + end)),
        b'*' => rest[2..].find("*/").map(|end| from + 2 + end + 2),
        _ => None,
    }
}

struct Member {
    key: String,
    value: Range<usize>,
}

/// One object of the text: where it opens, and its members.
struct Object {
    open: usize,
    members: Vec<Member>,
}

/// Reads a text that `parse` has accepted.
struct Scanner<'a> {
    /// Without comments and trailing commas, as long as the text itself.
    plain: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<u8> {
        let rest = self.plain.as_bytes().get(self.at..)?;
        let spaces = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += spaces;
        rest.get(spaces).copied()
    }

    fn value(&mut self, depth: usize) -> Option<Range<usize>> {
        let first = self.next()?;
        let start = self.at;
        match first {
            _ if depth > MAX_DEPTH => return None,
            b'"' => self.at = string_end(self.plain, start)?,
            b'{' => {
                self.object(depth)?;
            }
            b'[' => {
                self.at += 1;
                while self.next()? != b']' {
                    self.value(depth + 1)?;
                    if self.next()? == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
            }
            _ => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
                let rest = &self.plain.as_bytes()[start..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        Some(start..self.at)
    }

    fn object(&mut self, depth: usize) -> Option<Object> {
        if self.next()? != b'{' {
            return None;
        }
        let open = self.at;
        self.at += 1;
        let mut members = Vec::new();
        while self.next()? != b'}' {
            let key = self.value(depth + 1)?;
            let key = serde_json::from_str(&self.plain[key]).ok()?;
            if self.next()? != b':' {
                return None;
            }
            self.at += 1;
            members.push(Member { key, value: self.value(depth + 1)? });
            if self.next()? == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
        Some(Object { open, members })
    }
}

fn set_one(text: &str, path: &[&str], value: &Value) -> Result<String, NotEdited> {
    let unreadable = || NotEdited("it is not JSON that can be edited".into());
    let plain = plain(text);
    let layout = Layout::of(text);
    let mut at = 0;
    for (depth, key) in path.iter().enumerate() {
        let mut scanner = Scanner { plain: &plain, at };
        let object = scanner.object(0).ok_or_else(|| not_an_object(key))?;
        let mut same = object.members.iter().filter(|member| member.key == *key);
        let (first, second) = (same.next(), same.next());
        if second.is_some() {
            return Err(NotEdited(format!("\"{key}\" is there twice in one object")));
        }
        let is_last = depth + 1 == path.len();
        match first {
            Some(member) if is_last => {
                let mut edited = text.to_owned();
                edited.replace_range(member.value.clone(), &layout.render(value, depth + 1)?);
                return Ok(edited);
            }
            Some(member) => at = member.value.start,
            None => {
                let inner = path[depth + 1..].iter().rev().fold(value.clone(), |inner, key| {
                    Value::Object(serde_json::Map::from_iter([((*key).to_owned(), inner)]))
                });
                let name = Value::from(*key);
                let member = format!("{name}: {}", layout.render(&inner, depth + 1)?);
                return Ok(layout.insert(text, &object, &member, depth));
            }
        }
    }
    Err(unreadable())
}

/// The indentation and the line ends of the text.
struct Layout {
    indent: String,
    newline: &'static str,
}

impl Layout {
    fn of(text: &str) -> Self {
        let spaces = |line: &str| line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned();
        let indent = text.lines().filter(|line| line.trim_start().starts_with('"')).map(spaces);
        Self {
            indent: indent.into_iter().find(|indent| !indent.is_empty()).unwrap_or_else(|| "  ".into()),
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
        }
    }

    /// Renders a value for a member that is `depth` objects deep.
    fn render(&self, value: &Value, depth: usize) -> Result<String, NotEdited> {
        use serde::Serialize;
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        value.serialize(&mut serializer).map_err(|error| NotEdited(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(text.replace('\n', &format!("{}{}", self.newline, self.indent.repeat(depth))))
    }

    /// Inserts the member as the first one, so that neither the last comma nor a comment after it matters.
    fn insert(&self, text: &str, object: &Object, member: &str, depth: usize) -> String {
        let (before, rest) = text.split_at(object.open + 1);
        let line = |depth| format!("{}{}", self.newline, self.indent.repeat(depth));
        let comma = if object.members.is_empty() { "" } else { "," };
        // A following member on the same line moves to the next line.
        let goes_on = !rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        let then = match (goes_on, object.members.is_empty()) {
            (false, _) => String::new(),
            (true, true) => line(depth),
            (true, false) => line(depth + 1),
        };
        let rest = if goes_on { rest.trim_start_matches([' ', '\t']) } else { rest };
        format!("{before}{}{member}{comma}{then}{rest}", line(depth + 1))
    }
}

#[cfg(test)]
#[path = "edit_json_tests.rs"]
mod tests;
