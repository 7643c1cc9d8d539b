//! Modes as text.

use crate::{
    text::quote::quote,
    wire::{Error, Result},
};

/// Parses 1 to 4 octal digits up to 0777. No request can set setuid, setgid or sticky.
pub(super) fn parse(field: &str, text: &str) -> Result<u32> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or_else(|| {
        Error::bad_input(format!(
            "{field}: {} is no mode; expected 1 to 4 octal digits up to \"0777\", for example \"0644\"",
            quote(text, 20)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    #[test]
    fn one_to_four_octal_digits_up_to_0777_are_a_mode() {
        for (text, mode) in [("0", 0), ("000", 0), ("7", 7), ("644", 0o644), ("0644", 0o644), ("0777", 0o777)] {
            assert_eq!(parse("mode", text), Ok(mode), "{text}");
        }
        for text in ["", "9z9", "1777", "4755", "07777", "00644", "8", "-1", "+7", "0o644", " 644", "644 "] {
            let error = parse("mode", text).unwrap_err();
            assert!(error.code == Code::BadInput && error.message.contains("octal"), "{text}: {error}");
        }
    }
}
