use std::error::Error;
use std::time::Duration;

/// An error with everything that caused it, on one line.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Reads `90s`, `15m`, `2h`, `30d`, or a plain number of seconds, as people write it in a flag.
///
/// # Errors
/// With what would be right, when it is none of them.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err("write a number with s, m, h or d, for example 60s".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_not_a_number| "write a number with s, m, h or d, for example 60s")?;
    Ok(Duration::from_secs(number.saturating_mul(factor)))
}

/// `512 B`, `1.2 GiB`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of a unit, without floating point: 1023.96 KiB would otherwise be shown as 1024.0 KiB.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10_240 {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (1 << 20, "1.0 MiB"),
            (1_288_490_189, "1.2 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(human_bytes(bytes), expected);
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert!(parse_duration("2 weeks").is_err());
        assert!(parse_duration("s").is_err());
    }

    #[test]
    fn a_chain_names_every_cause() {
        let inner = std::io::Error::other("disk gone");
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("can't write")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(error_chain(&Outer(inner)), "can't write: disk gone");
    }
}
