//! Times as text in UTC, and run ids made from them.
//!
//! The calendar is the proleptic Gregorian one; days are counted from 1970-01-01 as in Howard Hinnant's
//! "chrono-Compatible Low-Level Date Algorithms". Leap seconds do not exist, as in Unix time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment in UTC, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// Year of our era.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// 0 to 999.
    pub millisecond: u32,
}

impl Utc {
    /// The parts of a moment. Moments before 1970 count as 1970-01-01.
    pub fn from_system_time(time: SystemTime) -> Utc {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = since_epoch.as_secs();
        let (year, month, day) = civil_from_days((seconds / 86_400) as i64);
        let second_of_day = (seconds % 86_400) as u32;
        Utc {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            millisecond: since_epoch.subsec_millis(),
        }
    }
}

/// A moment as RFC 3339 writes it, in UTC with milliseconds: `2026-11-21T04:15:12.250Z`.
pub fn utc_text(time: SystemTime) -> String {
    let Utc { year, month, day, hour, minute, second, millisecond } = Utc::from_system_time(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// An id for a run that started now: `20261121-041512-biebermarks-3f9a`. Ids sort by time, and `suffix` (random)
/// keeps two runs of one second apart. Characters of the experiment's name that are not letters, digits or `_`
/// become `-`, and the name is cut at 60 characters.
pub fn new_run_id(started: SystemTime, experiment: &str, suffix: u16) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::from_system_time(started);
    let mut name: String = experiment
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' => letter,
            _ => '-',
        })
        .take(60)
        .collect();
    if name.is_empty() {
        name.push_str("run");
    }
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{name}-{suffix:04x}")
}

/// Year, month and day of a day counted from 1970-01-01. Years begin in March, so that the leap day comes last.
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    const DAYS_PER_ERA: i64 = 146_097;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month as u32, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn known_moments_are_written_as_the_calendar_says() {
        fn check(seconds: u64, text: &str) {
            assert_eq!(utc_text(at(seconds)), text, "{seconds} s after 1970");
        }
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399, "2000-02-28T23:59:59.000Z");
        check(951_782_400, "2000-02-29T00:00:00.000Z");
        check(951_868_800, "2000-03-01T00:00:00.000Z");
        check(1_000_000_000, "2001-09-09T01:46:40.000Z");
        check(1_709_251_199, "2024-02-29T23:59:59.000Z");
        check(1_795_234_512, "2026-11-21T04:15:12.000Z");
        check(4_107_542_400, "2100-03-01T00:00:00.000Z");
        check(253_402_300_799, "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn every_day_of_400_years_follows_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(civil_from_days(days), (year, month, day), "day {days}");
            let length = match month {
                2 => 28 + u32::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn run_ids_are_safe_as_file_names_and_sort_by_time() {
        fn check(experiment: &str, expected: &str) {
            let id = new_run_id(at(1_795_234_512), experiment, 0x3f9a);
            assert_eq!(id, expected);
            crate::layout::check_run_id(&id).unwrap();
        }
        check("biebermarks", "20261121-041512-biebermarks-3f9a");
        check("../my own (2)", "20261121-041512----my-own--2--3f9a");
        check("", "20261121-041512-run-3f9a");
        check("größe", "20261121-041512-gr--e-3f9a");
        assert!(new_run_id(at(99), "z", 9) < new_run_id(at(100), "a", 1));
    }
}
