//! The decisions of the policy, and their costs.

use std::collections::HashMap;

use crate::trace::{Event, How};

/// Computing, copies away from device memory, and copies back.
const KINDS: usize = 3;

/// Decisions of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Cost {
    pub count: usize,
    pub bytes: usize,
    /// Their predicted cost.
    pub predicted_ns: u64,
    /// Time that computing, copying away and copying back took for them.
    pub spent_ns: [u64; KINDS],
}

/// Ops of one name that were run again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Repeated {
    pub name: String,
    pub count: usize,
    pub bytes: usize,
    pub spent_ns: u64,
}

/// The costs of all evictions.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Decisions {
    pub offload: Cost,
    pub clean: Cost,
    pub drop: Cost,
    /// Copies that are no evictions: the program's own data and reads.
    pub program: Cost,
    /// Ops that were run again, by the time that they took, the most first.
    pub repeated: Vec<Repeated>,
}

impl Decisions {
    /// The decisions among the events from `first` on. A copy back counts for the last eviction of its storage, even
    /// if that was before.
    pub fn new(events: &[Event], first: usize) -> Self {
        let mut decisions = Decisions::default();
        let mut last: HashMap<u64, How> = HashMap::new();
        let mut repeated: HashMap<&str, Repeated> = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            if let Event::Evict(evicted) = event {
                last.insert(evicted.storage, evicted.how);
            }
            if index < first {
                continue;
            }
            let Some((lane, ran)) = event.ran() else {
                if let Event::Evict(evicted) = event {
                    let cost = decisions.of(Some(evicted.how));
                    cost.count += 1;
                    cost.bytes += evicted.bytes;
                    cost.predicted_ns += evicted.cost_ns;
                }
                continue;
            };
            let spent_ns = ran.end_ns.saturating_sub(ran.begin_ns);
            match event {
                Event::Recompute(recomputed) => {
                    decisions.drop.spent_ns[0] += spent_ns;
                    let name = recomputed.name.as_ref();
                    let new = || Repeated { name: name.into(), count: 0, bytes: 0, spent_ns: 0 };
                    let op = repeated.entry(name).or_insert_with(new);
                    op.count += 1;
                    op.bytes += recomputed.storages.iter().map(|made| made.bytes).sum::<usize>();
                    op.spent_ns += spent_ns;
                }
                Event::Copy(copied) if !copied.within && !copied.lane.is_of_disk() => {
                    let how = match (copied.lane, events.get(index + 1)) {
                        // An eviction with a copy is recorded right after the copy.
                        (lane, Some(Event::Evict(next)))
                            if lane.takes_away() && next.storage == copied.storage =>
                        {
                            Some(next.how)
                        }
                        (lane, _) if lane.brings_back() => last.get(&copied.storage).copied(),
                        _ => None,
                    };
                    let cost = decisions.of(how);
                    cost.spent_ns[if lane.takes_away() { 1 } else { 2 }] += spent_ns;
                    if how.is_none() {
                        cost.count += 1;
                        cost.bytes += copied.bytes;
                    }
                }
                _ => {}
            }
        }
        decisions.repeated = repeated.into_values().collect();
        decisions.repeated.sort_by(|a, b| b.spent_ns.cmp(&a.spent_ns).then_with(|| a.name.cmp(&b.name)));
        decisions
    }

    fn of(&mut self, how: Option<How>) -> &mut Cost {
        match how {
            Some(How::Offload) => &mut self.offload,
            Some(How::Clean) => &mut self.clean,
            Some(How::Drop | How::Encode) => &mut self.drop,
            None => &mut self.program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Lane;
    use crate::trace::{Copied, Evicted, Made, Ran, Recomputed};

    fn evict(storage: u64, how: How, cost_ns: u64) -> Event {
        Event::Evict(Evicted { storage, bytes: 10, made_by: "op".into(), how, cost_ns })
    }

    fn copy(lane: Lane, storage: u64, end_ns: u64) -> Event {
        Event::Copy(Copied {
            lane,
            storage,
            bytes: 10,
            within: false,
            ran: Ran { sequence: 0, begin_ns: 0, end_ns },
        })
    }

    #[test]
    fn copies_count_for_the_eviction_that_they_belong_to() {
        let again = Recomputed {
            name: "op".into(),
            storages: vec![Made { storage: 2, bytes: 10 }],
            ran: Ran { sequence: 0, begin_ns: 1, end_ns: 5 },
        };
        let events = [
            copy(Lane::Offload, 1, 7),
            evict(1, How::Offload, 20),
            copy(Lane::Fetch, 1, 8),
            evict(1, How::Clean, 10),
            evict(2, How::Drop, 3),
            Event::Recompute(again),
            // The same storage is fetched for its last eviction; the others were never evicted.
            copy(Lane::Fetch, 1, 9),
            copy(Lane::Fetch, 3, 1),
            copy(Lane::Offload, 2, 2),
        ];
        let cost = |count, predicted_ns, spent_ns| Cost { count, bytes: 10 * count, predicted_ns, spent_ns };
        let decisions = Decisions::new(&events, 0);
        assert_eq!(decisions.offload, cost(1, 20, [0, 7, 8]));
        assert_eq!(decisions.clean, cost(1, 10, [0, 0, 9]));
        assert_eq!(decisions.drop, cost(1, 3, [4, 0, 0]));
        assert_eq!(decisions.program, cost(2, 0, [0, 2, 1]));
        assert_eq!(decisions.repeated, [Repeated { name: "op".into(), count: 1, bytes: 10, spent_ns: 4 }]);
        // Earlier decisions count only by the copies back that come later.
        let decisions = Decisions::new(&events, 5);
        assert_eq!([decisions.offload, decisions.clean], [Cost::default(), cost(0, 0, [0, 0, 9])]);
    }
}
