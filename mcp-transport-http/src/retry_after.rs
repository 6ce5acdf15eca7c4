//! `Retry-After`: seconds, or a date (C112).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How long a server asks to wait. A date in the past is no wait.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c112_both_forms_are_read() {
        let now = httpdate::parse_http_date("Tue, 01 Dec 2026 10:00:00 GMT").unwrap();
        let cases = [
            ("2", Some(2)),
            (" 120 ", Some(120)),
            ("0", Some(0)),
            ("Tue, 01 Dec 2026 10:00:30 GMT", Some(30)),
            ("Tue, 01 Dec 2026 09:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("1.5", None),
            ("99999999999999999999999", None),
        ];
        for (text, seconds) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(
                retry_after(&headers, now),
                seconds.map(Duration::from_secs),
                "{text}"
            );
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
