//! Converts sizes, times and ranges between text and numbers. Pure.

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
        // More than a day is a typing mistake; the service caps the time anyway.
        Some(ms) if ms <= 86_400_000 => Ok(Duration::from_millis(ms)),
        _ => Err("longer than a day".into()),
    }
}

/// `512`, `10k`, `2M`, `1GiB`; powers of 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wrong = || format!("`{text}` is not a size; write 512, 10k, 2M, 1G or 1T");
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

/// A time as [`parse_time_bound`] takes it, or a duration in seconds.
pub(super) fn parse_age(text: &str) -> Result<TimeBound, String> {
    match parse_duration(text) {
        Ok(age) if !text.ends_with(['m', 'n']) => {
            Ok(TimeBound::Ago { ms: i64::try_from(age.as_millis()).unwrap_or(i64::MAX) })
        }
        _ => parse_time_bound(text),
    }
}

/// A time as the user types it: an age, or a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeBound {
    Ago { ms: i64 },
    Absolute { ms: i64 },
}

impl TimeBound {
    pub(super) fn unix_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Ago { ms } => now_ms.saturating_sub(ms),
            Self::Absolute { ms } => ms,
        }
    }
}

pub(super) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// `90s`, `15m`, `1h`, `2d`, `1w`; `2026-11-18`, `2026-11-18T08:15:00Z`, `2026-11-18T09:15:00.5+01:00`.
pub(super) fn parse_time_bound(text: &str) -> Result<TimeBound, String> {
    let wrong = || {
        "expected an age such as 90s, 15m, 1h or 2d, or a date such as 2026-11-18 or 2026-11-18T08:15:00Z".to_owned()
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if let Ok(number) = digits.parse::<i64>() {
        let per_unit_s = match &text[digits.len()..] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return Err(wrong()),
        };
        let ms = number.checked_mul(per_unit_s * 1000).filter(|ms| *ms >= 0).ok_or_else(wrong)?;
        return Ok(TimeBound::Ago { ms });
    }
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
    let days = parse_date(date).ok_or_else(wrong)?;
    let of_day = parse_time(time).ok_or_else(wrong)?;
    Ok(TimeBound::Absolute { ms: days * 86_400_000 + of_day })
}

/// Parses numbers with the given counts of digits, separated by `between`.
fn numbers<const N: usize>(text: &str, widths: [usize; N], between: char) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days since 1970-01-01. None for a day that the calendar does not have.
fn parse_date(text: &str) -> Option<i64> {
    let [year, month, day] = numbers(text, [4, 2, 2], '-')?;
    // The day of the year as `civil_date` counts: from March on.
    let shifted = (month + 9) % 12;
    let march_year = year - i64::from(month <= 2);
    let (era, of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * shifted + 2) / 5 + day - 1 - 719_468;
    (civil_date(days) == (year, month, day)).then_some(days)
}

/// Milliseconds of the day in UTC. RFC 3339; the zone has to be there.
fn parse_time(text: &str) -> Option<i64> {
    let zone = text.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = text.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, [2, 2, 2], ':')?;
    if hour > 23 || minute > 59 || second > 60 || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction_ms: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let east_minutes = match zone {
        "Z" | "z" => 0,
        zone => {
            let [hours, minutes] = numbers(&zone[1..], [2, 2], ':').filter(|[h, m]| *h < 24 && *m < 60)?;
            (hours * 60 + minutes) * if zone.starts_with('-') { -1 } else { 1 }
        }
    };
    Some(((hour * 60 + minute - east_minutes) * 60 + second) * 1000 + fraction_ms)
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

/// `2026-11-16 02:51`, UTC: the service returns seconds and does not know the time zone of the reader.
pub(super) fn utc_minute(seconds: i64) -> String {
    let (days, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second_of_day / 3600, second_of_day / 60 % 60)
}

/// `2026-11-16 02:51:07`, UTC.
pub(super) fn utc_second(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    format!("{}:{:02}", utc_minute(seconds), seconds.rem_euclid(60))
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
    fn typed_sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("10k", 10_240),
            ("10K", 10_240),
            ("2M", 2 << 20),
            ("1GiB", 1 << 30),
            ("3tb", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "k", "-1", "1.5k", "10x", "10kk", "+10k", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_of_files_are_moments_or_plain_seconds() {
        for (text, seconds) in [("30s", 30), ("60m", 3600), ("1h", 3600), ("2d", 172_800), ("1w", 604_800), ("90", 90)]
        {
            assert_eq!(parse_age(text), Ok(TimeBound::Ago { ms: seconds * 1000 }), "{text}");
        }
        assert_eq!(parse_age("500ms"), Ok(TimeBound::Ago { ms: 500 }));
        assert_eq!(parse_age("1970-01-02"), Ok(TimeBound::Absolute { ms: 86_400_000 }));
        assert!(parse_age("1y").is_err() && parse_age("").is_err());
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

    #[test]
    fn moments_are_ages_or_dates() {
        let ago = |seconds: i64| Ok(TimeBound::Ago { ms: seconds * 1000 });
        assert_eq!(parse_time_bound("90s"), ago(90));
        assert_eq!((parse_time_bound("15m"), parse_time_bound("1h")), (ago(900), ago(3600)));
        assert_eq!((parse_time_bound("2d"), parse_time_bound("1w")), (ago(172_800), ago(604_800)));
        let at = |ms: i64| Ok(TimeBound::Absolute { ms });
        assert_eq!(parse_time_bound("1970-01-02"), at(86_400_000));
        assert_eq!(parse_time_bound("2000-02-29T00:00:01Z"), at(951_782_401_000));
        assert_eq!(parse_time_bound("2000-02-29T01:00:01.25+01:00"), at(951_782_401_250));
        assert_eq!(parse_time_bound("2000-02-28 19:00:01-05:00"), at(951_782_401_000));
        for bad in [
            "",
            "1",
            "1y",
            "-1h",
            "2000-02-30",
            "2000-13-01",
            "2001-02-29",
            "2000-1-1",
            "2000-01-01T08:00",
            "2000-01-01T08:00:00",
            "2000-01-01T24:00:00Z",
            "2000-01-01T08:00:00.Z",
            "99999999999999999999h",
            "9223372036854775807w",
            "2000-01-01T08:00:00+1:00",
        ] {
            assert!(parse_time_bound(bad).is_err(), "{bad}");
        }
        assert_eq!((TimeBound::Ago { ms: 5 }.unix_ms(7), TimeBound::Absolute { ms: 5 }.unix_ms(7)), (2, 5));
        assert_eq!(utc_second(951_782_399_999), "2000-02-28 23:59:59");
    }
}
