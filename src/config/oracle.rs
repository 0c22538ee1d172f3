//! The future of a program. Only a replay knows it, and tells it only on request.

/// For each storage, in the order in which storages are made, the numbers of the ops that use it, counted from one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Oracle(pub Vec<Vec<u64>>);

impl Oracle {
    /// The number of ops from op `now` until the next use of the storage, or the largest number if there is none.
    pub fn next_use_ops(&self, storage: u64, now: u64) -> u64 {
        let uses = self.0.get(storage as usize).map_or(&[][..], Vec::as_slice);
        uses.get(uses.partition_point(|&at| at <= now)).map_or(u64::MAX, |at| at - now)
    }
}
