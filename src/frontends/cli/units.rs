//! Sizes, times and ranges between people and numbers. Pure.

use std::time::Duration;

/// Lines counted from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineRange {
    pub(super) from: u64,
    pub(super) to: Option<u64>,
}

/// Bytes counted from 0, the end not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) from: u64,
    pub(super) to: Option<u64>,
}

pub(super) fn parse_line_range(text: &str) -> Result<LineRange, String> {
    let (from, to) = match text.split_once(':') {
        Some((from, to)) => (parse_end(from)?.unwrap_or(1), parse_end(to)?),
        None => {
            let only = parse_end(text)?.ok_or("expected A:B, A:, :B or N")?;
            (only, Some(only))
        }
    };
    match to {
        _ if from == 0 => Err("lines are counted from 1".into()),
        Some(to) if to < from => Err(format!("line {to} comes before line {from}")),
        _ => Ok(LineRange { from, to }),
    }
}

pub(super) fn parse_byte_range(text: &str) -> Result<ByteRange, String> {
    let (from, to) = text.split_once(':').ok_or("expected A:B, A: or :B")?;
    let (from, to) = (parse_end(from)?.unwrap_or(0), parse_end(to)?);
    match to {
        Some(to) if to < from => Err(format!("byte {to} comes before byte {from}")),
        _ => Ok(ByteRange { from, to }),
    }
}

fn parse_end(text: &str) -> Result<Option<u64>, String> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("`{text}` is not a number")),
    }
}

/// `500ms`, `30s`, `2m`; a bare number is seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| "expected a duration such as 500ms, 30s or 2m")?;
    let per_unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" | "min" => 60_000,
        unit => return Err(format!("`{unit}` is not a unit; use ms, s or m")),
    };
    match number.checked_mul(per_unit_ms) {
        Some(0) => Err("a call needs some time".into()),
        // Beyond a day it is a slip of the finger; the service caps it anyway.
        Some(ms) if ms <= 86_400_000 => Ok(Duration::from_millis(ms)),
        _ => Err("longer than a day".into()),
    }
}

/// `1 line`, `2 lines`.
pub(super) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `999`, `1.5K`, `20M`: at most four characters and never more than the truth by rounding up a unit.
pub(super) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let power = (bytes.ilog2() / 10) as usize;
    let unit = 1u64 << (10 * power);
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    match tenths {
        ..100 => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power - 1]),
        _ => format!("{}{}", tenths / 10, UNITS[power - 1]),
    }
}

/// `2026-11-16 02:51`, UTC: the service tells seconds, and the time zone of whoever looks is not its business.
pub(super) fn utc_minute(seconds: i64) -> String {
    let (days, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second_of_day / 3600, second_of_day / 60 % 60)
}

/// The Gregorian date so many days after 1970-01-01, by eras of 400 years that begin in March.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ranges_are_one_based_and_inclusive() {
        assert_eq!(parse_line_range("10:20"), Ok(LineRange { from: 10, to: Some(20) }));
        assert_eq!(parse_line_range("10:"), Ok(LineRange { from: 10, to: None }));
        assert_eq!(parse_line_range(":20"), Ok(LineRange { from: 1, to: Some(20) }));
        assert_eq!(parse_line_range("7"), Ok(LineRange { from: 7, to: Some(7) }));
        for bad in ["0:3", "5:4", "x", "", "1:2:3", "-1:2"] {
            assert!(parse_line_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn byte_ranges_are_zero_based_and_half_open() {
        assert_eq!(parse_byte_range("0:512"), Ok(ByteRange { from: 0, to: Some(512) }));
        assert_eq!(parse_byte_range("8:"), Ok(ByteRange { from: 8, to: None }));
        assert_eq!(parse_byte_range(":8"), Ok(ByteRange { from: 0, to: Some(8) }));
        for bad in ["5", "5:4", "a:b"] {
            assert!(parse_byte_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_carry_a_unit_or_mean_seconds() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("5"), Ok(Duration::from_secs(5)));
        for bad in ["", "s", "0", "1h", "-1s", "99999999999999999999s", "18446744073709551615m"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_stay_short() {
        let shown = [0, 1023, 1024, 1536, 10_240, 10 << 20, u64::MAX].map(human_size);
        assert_eq!(shown, ["0", "1023", "1.0K", "1.5K", "10K", "10M", "15E"]);
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        assert_eq!(utc_minute(0), "1970-01-01 00:00");
        assert_eq!(utc_minute(-1), "1969-12-31 23:59");
        assert_eq!(utc_minute(951_782_399), "2000-02-28 23:59");
        assert_eq!(utc_minute(951_782_400), "2000-02-29 00:00");
        assert_eq!(utc_minute(1_709_251_199), "2024-02-29 23:59");
        assert_eq!(utc_minute(4_107_542_400), "2100-03-01 00:00");
    }
}
