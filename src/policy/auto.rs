//! The default: recency decides which storage goes, the cost model how.

use super::{Candidate, Eviction, Reactive};

/// See the module.
#[derive(Debug)]
pub struct Auto;

impl Reactive for Auto {
    fn weighs_recompute(&self) -> bool {
        true
    }

    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<(usize, Eviction)> {
        let candidate = candidates.next()?;
        let cheaper_to_remake = candidate
            .remake_ns
            .is_some_and(|remake_ns| remake_ns < candidate.move_ns);
        let drop = !candidate.movable || (!candidate.clean && cheaper_to_remake);
        Some((0, if drop { Eviction::Drop } else { Eviction::Offload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(clean: bool, movable: bool, remake_ns: Option<u64>) -> Candidate {
        Candidate {
            size_bytes: 1,
            idle_ops: 1,
            clean,
            movable,
            move_ns: 100,
            remake_ns,
        }
    }

    #[test]
    fn the_cheaper_way_is_taken_and_clean_is_free() {
        let choose = |candidate| Auto.choose(&mut std::iter::once(candidate)).unwrap().1;
        assert_eq!(choose(candidate(false, true, Some(99))), Eviction::Drop);
        assert_eq!(choose(candidate(false, true, Some(100))), Eviction::Offload);
        assert_eq!(choose(candidate(true, true, Some(1))), Eviction::Offload);
        assert_eq!(choose(candidate(false, true, None)), Eviction::Offload);
        assert_eq!(choose(candidate(false, false, Some(1000))), Eviction::Drop);
    }
}
