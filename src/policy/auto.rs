//! The default: recency and size decide which storage goes, the cost model how.
//!
//! Plain least-recently-used eviction frees many small storages, scattered over the arena, before a large block fits;
//! each costs a copy each way whatever its size. So storages that are small beside what is needed stay as long as there
//! are others.
//!
//! Where a replay tells what comes, the storage that is used last goes first (Belady, *A study of replacement algorithms
//! for a virtual-storage computer*, IBM Systems Journal 1966).

use super::{Candidate, Eviction, Knowledge, Reactive, Ways, Weighed};

/// A storage of less than this part of what is needed is small.
const SMALL_PART: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub struct Auto {
    /// Costs are weighed too: where nothing can be moved, which storage is dropped matters more than how long that takes to
    /// find out.
    pub weighs: Option<Weighed>,
}

impl Reactive for Auto {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        if let Some(weighed) = self.weighs {
            return weighed.pick(need_bytes, candidates);
        }
        let mut used_last = None;
        for (index, candidate) in candidates.enumerate() {
            match candidate.next_use_ops {
                Some(ops) => used_last = used_last.max(Some((ops, index))),
                None => return Some(index),
            }
        }
        used_last.map(|(_, index)| index)
    }

    fn precedes(&self, one: &Candidate, other: &Candidate) -> bool {
        self.weighs.is_none_or(|weighed| weighed.precedes(one, other))
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn plans(&self) -> bool {
        true
    }

    fn knows(&self) -> Knowledge {
        self.weighs.map_or(Knowledge::Recency, |weighed| weighed.knows())
    }

    fn least_bytes(&self, need_bytes: usize) -> usize {
        if self.weighs.is_some() { 0 } else { need_bytes / SMALL_PART }
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        match (ways.move_ns, ways.remake_ns) {
            (Some(move_ns), Some(remake_ns)) if remake_ns < move_ns => Some(Eviction::Drop),
            (Some(_), _) => Some(Eviction::Offload),
            (None, Some(_)) => Some(Eviction::Drop),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Turn;

    #[test]
    fn the_cheaper_way_is_taken() {
        let how = |move_ns, remake_ns| Auto::default().how(Ways { move_ns, remake_ns });
        assert_eq!(how(Some(100), Some(99)), Some(Eviction::Drop));
        assert_eq!(how(Some(100), Some(100)), Some(Eviction::Offload));
        assert_eq!(how(Some(100), None), Some(Eviction::Offload));
        assert_eq!(how(None, Some(1000)), Some(Eviction::Drop));
        assert_eq!(how(None, None), None);
    }

    #[test]
    fn the_coldest_goes() {
        let candidate = Candidate {
            size_bytes: 256,
            idle_ns: 1,
            cost_ns: 0,
            clean: false,
            next_use_ops: None,
            turn: Turn::Any,
        };
        assert_eq!(Auto::default().pick(4096, &mut [candidate; 3].into_iter()), Some(0));
        assert_eq!(Auto::default().pick(256, &mut std::iter::empty()), None);
    }

    #[test]
    fn what_is_known_to_be_used_last_goes_first() {
        let known = [(256, 90), (4096, 5), (4096, 70), (4096, 30)];
        let candidate = |&(size_bytes, next_use_ops): &(usize, u64)| Candidate {
            size_bytes,
            idle_ns: 1,
            cost_ns: 0,
            clean: false,
            next_use_ops: Some(next_use_ops),
            turn: Turn::Any,
        };
        assert_eq!(Auto::default().pick(8192, &mut known[1..].iter().map(candidate)), Some(1));
    }
}
