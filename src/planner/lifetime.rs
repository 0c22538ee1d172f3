//! When memory is in use, in an iteration that repeats.

/// A block of memory that is in use for part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    pub bytes: usize,
    /// When it begins, less than the period.
    pub from: u32,
    /// When it has ended. It is at most a period after `from`, which means all the time.
    pub until: u32,
}

/// The most bytes in use at once. No placement has a smaller footprint.
pub fn peak_bytes(blocks: &[Lifetime], period: u32) -> usize {
    let mut change_bytes = vec![0isize; period as usize + 1];
    for block in blocks {
        let bytes = block.bytes as isize;
        change_bytes[block.from as usize] += bytes;
        change_bytes[block.until.min(period) as usize] -= bytes;
        if block.until > period {
            change_bytes[0] += bytes;
            change_bytes[(block.until - period) as usize] -= bytes;
        }
    }
    let mut used_bytes = 0;
    let used = change_bytes.into_iter().map(|change| {
        used_bytes += change;
        used_bytes as usize
    });
    used.max().unwrap_or(0)
}
