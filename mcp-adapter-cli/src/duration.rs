//! Lengths of time as people write them: `500ms`, `30s`, `2m`, `1h`. The unit is required, since programs disagree on it
//! (C211).

use std::time::Duration;

/// Longest time accepted; longer ones are typing errors.
const MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reads a length of time.
///
/// # Errors
/// A fragment that says what would be right.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if digits.parse::<f64>().is_ok() => {
            return Err(format!(
                "the unit is missing: write {digits}s or {digits}ms"
            ));
        }
        _ => return Err("expected a number with a unit, such as 500ms, 30s or 2m".to_owned()),
    };
    // Digits and a point only: `parse` would also take a sign, an exponent and words.
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let Some(amount) = digits.parse::<f64>().ok().filter(|_| plain) else {
        return Err("expected a number with a unit, such as 500ms, 30s or 2m".to_owned());
    };
    let seconds = amount * seconds_per_unit;
    if seconds > MAX.as_secs_f64() {
        return Err("longer than 7 days".to_owned());
    }
    if seconds < 0.001 {
        return Err("must be at least 1ms".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `38 ms`, `1.20 s`, `3 min 5 s`: as precise as one wants to read it.
pub(crate) fn shown(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else if time < Duration::from_secs(120) {
        format!("{:.2} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

/// As [`parse_duration`] reads it: `30s`, `500ms`, `2m`.
pub(crate) fn written(time: Duration) -> String {
    let millis = time.as_millis();
    if !millis.is_multiple_of(1000) {
        format!("{millis}ms")
    } else if millis > 0 && millis.is_multiple_of(60_000) {
        format!("{}m", millis / 60_000)
    } else {
        format!("{}s", millis / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c211_units_are_required() {
        let good = [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            (" 5s ", 5000),
        ];
        for (text, millis) in good {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        let bad = [
            ("30", "the unit is missing: write 30s or 30ms"),
            ("0s", "must be at least 1ms"),
            (
                "-5s",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
            (
                "infs",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
            (
                "1e9s",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
            (
                "5 parsecs",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
            (
                "",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
            ("900h", "longer than 7 days"),
            (
                "5µs",
                "expected a number with a unit, such as 500ms, 30s or 2m",
            ),
        ];
        for (text, message) in bad {
            assert_eq!(parse_duration(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn times_are_shown_and_written() {
        let cases = [
            (38, "38 ms", "38ms"),
            (1200, "1.20 s", "1200ms"),
            (30_000, "30.00 s", "30s"),
            (120_000, "2 min 0 s", "2m"),
        ];
        for (millis, as_shown, as_written) in cases {
            let time = Duration::from_millis(millis);
            assert_eq!(
                (shown(time).as_str(), written(time).as_str()),
                (as_shown, as_written)
            );
            assert_eq!(parse_duration(&written(time)), Ok(time));
        }
    }
}
