//! Amounts and rates in settings, as people write them.

use bytesize::ByteSize;

/// The part before the last `@`, and the rate after it if there is one.
pub(super) fn split_rate(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once('@').map_or((text, None), |(before, rate)| (before, Some(rate)))
}

/// A number of bytes, such as `40GiB`.
pub(super) fn bytes(text: &str) -> Option<usize> {
    let size: ByteSize = text.trim().parse().ok()?;
    usize::try_from(size.as_u64()).ok()
}

/// Bytes per second, such as `7GB/s`, and more than none.
pub(super) fn rate(text: &str) -> Option<f64> {
    let rate = bytes(text.trim().strip_suffix("/s")?)?;
    (rate > 0).then_some(rate as f64)
}
