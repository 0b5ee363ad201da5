//! How amounts and texts reach people: sizes, counts, standard output. It must not know commands.

use std::io::Write;

/// Prints to standard output; a reader that has had enough is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Bytes as people read them.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A count as people say it: 268 M, 7.2 B.
pub(crate) fn count(number: u64) -> String {
    let value = number as f64;
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1} K", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", value / 1e6),
        _ => format!("{:.2} B", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, size};

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(24 << 30), "24.0 GiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(count(999), "999");
        assert_eq!(count(268_098_176), "268.1 M");
        assert_eq!(count(7_241_732_096), "7.24 B");
    }
}
