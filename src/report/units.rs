//! Formats numbers for people.

use bytesize::ByteSize;

/// Bytes with their unit, such as `4.6 GiB`.
pub(super) fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).to_string()
}

/// A time with its unit, such as `12.3 ms`.
pub(super) fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0 => return "0 ms".into(),
        1..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {unit}")
}

/// A whole number in groups of three digits.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun, such as `1 op` or `2 ops`.
pub(super) fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

/// A part of a whole, such as `12 %`.
pub(super) fn share(part: f64, whole: f64) -> String {
    let percent = if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    match percent {
        _ if percent > 0.0 && percent < 0.95 || percent > 99.0 && percent < 99.95 => {
            format!("{percent:.1} %")
        }
        _ => format!("{percent:.0} %"),
    }
}

/// A unit for an axis up to `bytes`: its name, and how many bytes it is.
pub(super) fn size_unit(bytes: usize) -> (&'static str, f64) {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    units.into_iter().find(|&(_, unit)| bytes >= unit).map_or(("B", 1.0), |(name, unit)| (name, unit as f64))
}

/// A unit for an axis up to `ns`: its name, and how many nanoseconds it is.
pub(super) fn time_unit(ns: u64) -> (&'static str, f64) {
    let units = [("s", 2_000_000_000, 1e9), ("ms", 2_000_000, 1e6), ("µs", 2_000, 1e3)];
    units.into_iter().find(|&(_, from, _)| ns >= from).map_or(("ns", 1.0), |(name, _, unit)| (name, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_fits() {
        assert_eq!(
            [time(0), time(1_500), time(12_345_678), time(3_000_000_000)],
            ["0 ms", "1.50 µs", "12.3 ms", "3.00 s"]
        );
        assert_eq!([count(7), count(1234), count(1_000_000)], ["7", "1,234", "1,000,000"]);
        assert_eq!([share(1.0, 2.0), share(1.0, 200.0), share(1.0, 0.0)], ["50 %", "0.5 %", "0 %"]);
        assert_eq!(size_unit(3 << 20), ("MiB", 1048576.0));
    }
}
