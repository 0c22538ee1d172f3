//! What is known of a program before it runs: nothing, unless it is a replay that was asked to tell.

/// For each storage, in the order they are made, the ops that use it, by number from one.
#[derive(Clone, Debug, Default)]
pub struct Foresight(pub Vec<Vec<u64>>);

impl Foresight {
    /// Ops from op `now` until the storage is next used; the most there can be if it is not.
    pub fn next_use_ops(&self, storage: u64, now: u64) -> u64 {
        let uses = self.0.get(storage as usize).map_or(&[][..], Vec::as_slice);
        uses.get(uses.partition_point(|&at| at <= now)).map_or(u64::MAX, |at| at - now)
    }
}
