//! The storages that leave device memory, how, and what having them back costs.

use std::collections::HashMap;

use super::modules::{Modules, of_layers};
use crate::engine::{Lane, Mark, Ran, waits};
use crate::trace::{Event, Evicted, How, Made};

/// Storages of one size that one kind of op made, in one module or in layers that are alike, and that leave device memory in the same way.
/// [`Report`](super::Report) and [`Explanation`](super::Explanation) list them; see the latter for an example.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Leaving {
    /// The op that made them.
    pub made_by: String,
    /// The [module](crate::module) that made them, with `*` in place of the numbers of layers.
    pub module: Option<String>,
    /// The size of one of them.
    pub size_bytes: usize,
    /// How they leave.
    pub how: How,
    /// How often one of them leaves.
    pub count: usize,
    /// How long they are away, added up.
    pub away_ns: u64,
    /// The time of the ops that run again to have them back, or that encode and decode them.
    pub recompute_ns: u64,
    /// How long ops wait for their copies.
    pub wait_ns: u64,
}

impl Leaving {
    /// The time that the program takes longer for them.
    pub fn cost_ns(&self) -> u64 {
        self.recompute_ns + self.wait_ns
    }
}

/// What storages have in common that are counted together.
type Group = (String, Option<String>, usize, How);

/// Follows the evictions of a recording.
#[derive(Default)]
struct Evictions {
    groups: HashMap<Group, Leaving>,
    /// By storage, how it left last, and when if it is still away.
    last: HashMap<u64, (Group, Option<u64>)>,
}

impl Evictions {
    fn group(&mut self, group: &Group) -> &mut Leaving {
        let (made_by, module, size_bytes, how) = group.clone();
        let (count, away_ns, recompute_ns, wait_ns) = (0, 0, 0, 0);
        let none = Leaving { made_by, module, size_bytes, how, count, away_ns, recompute_ns, wait_ns };
        self.groups.entry(group.clone()).or_insert(none)
    }

    /// The group of a storage by its last eviction. A storage that was not evicted is recomputed for another, which is made from it.
    fn group_of(&self, made: &Made, name: &str, modules: &Modules) -> Group {
        let last = self.last.get(&made.storage).map(|(group, _)| group.clone());
        let module = || modules.of_storage(made.storage).map(of_layers);
        last.unwrap_or_else(|| (name.into(), module(), made.bytes, How::Drop))
    }

    fn is_back(&mut self, storage: u64, now_ns: u64) {
        let Some((group, left_ns)) = self.last.get_mut(&storage) else { return };
        if let (Some(left_ns), group) = (left_ns.take(), group.clone()) {
            self.group(&group).away_ns += now_ns.saturating_sub(left_ns);
        }
    }
}

/// The storages that leave among the events from `first` on, those with the largest cost first, and how long ops wait for
/// copies of any kind. `moments` gives the time of each event.
pub(super) fn leaving(events: &[Event], moments: &[u64], first: usize) -> (Vec<Leaving>, u64) {
    let (mut evictions, modules) = (Evictions::default(), Modules::of(events));
    let group_of = |evicted: &Evicted| {
        let module = modules.of_storage(evicted.storage).map(of_layers);
        (evicted.made_by.to_string(), module, evicted.bytes, evicted.how)
    };
    let (mut ran, mut copies) = (Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        if let Event::Evict(evicted) = event {
            let group = group_of(evicted);
            if index >= first {
                evictions.group(&group).count += 1;
            }
            evictions.last.insert(evicted.storage, (group, (index >= first).then_some(moments[index])));
        }
        let Some((lane, piece)) = event.ran().filter(|_| index >= first) else { continue };
        let mark = Mark { lane, sequence: ran.len() as u64 };
        ran.push(Ran { mark, begin_ns: piece.begin_ns, end_ns: piece.end_ns });
        match event {
            Event::Recompute(again) => {
                let spent_ns = piece.end_ns.saturating_sub(piece.begin_ns);
                if let Some(made) = again.storages.first() {
                    let group = evictions.group_of(made, &again.name, &modules);
                    evictions.group(&group).recompute_ns += spent_ns;
                }
                again.storages.iter().for_each(|made| evictions.is_back(made.storage, piece.begin_ns));
            }
            Event::Copy(copied) if !copied.within && !copied.lane.is_of_disk() => {
                // An eviction with a copy is recorded right after the copy.
                let next = events.get(index + 1);
                let group = match next {
                    Some(Event::Evict(next)) if next.storage == copied.storage => Some(group_of(next)),
                    _ => evictions.last.get(&copied.storage).map(|(group, _)| group.clone()),
                };
                copies.extend(group.map(|group| (mark, group)));
                if copied.lane.brings_back() {
                    evictions.is_back(copied.storage, piece.begin_ns);
                }
            }
            _ => {}
        }
    }
    let numbered: Vec<(Mark, usize)> = copies.iter().zip(0..).map(|((mark, _), at)| (*mark, at)).collect();
    for (at, wait_ns) in waits(&ran, &numbered) {
        evictions.group(&copies[at].1).wait_ns += wait_ns;
    }
    let mut leaving: Vec<Leaving> = evictions.groups.into_values().collect();
    let size = |leaving: &Leaving| leaving.size_bytes * leaving.count;
    leaving.sort_by(|a, b| (b.cost_ns(), size(b), &a.made_by).cmp(&(a.cost_ns(), size(a), &b.made_by)));
    (leaving, idle_ns(&ran))
}

/// How long the compute lane is idle between its first piece of work and its last.
fn idle_ns(ran: &[Ran]) -> u64 {
    let mut end_ns: Option<u64> = None;
    let mut idle_ns = 0;
    for piece in ran.iter().filter(|piece| piece.mark.lane == Lane::Compute) {
        idle_ns += end_ns.map_or(0, |end_ns| piece.begin_ns.saturating_sub(end_ns));
        end_ns = Some(piece.end_ns);
    }
    idle_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{self, Copied, OpEvent, Recomputed};

    fn ran(begin_ns: u64, end_ns: u64) -> trace::Ran {
        trace::Ran { sequence: 0, begin_ns, end_ns }
    }

    fn evict(storage: u64, how: How) -> Event {
        Event::Evict(Evicted { storage, bytes: 10, made_by: "exp".into(), how, cost_ns: 0 })
    }

    fn copy(lane: Lane, storage: u64, begin_ns: u64, end_ns: u64) -> Event {
        Event::Copy(Copied { lane, storage, bytes: 10, within: false, ran: ran(begin_ns, end_ns) })
    }

    fn op(begin_ns: u64, end_ns: u64) -> Event {
        let work = crate::op::Work {
            flops: 0,
            read_bytes: 0,
            written_bytes: 0,
            dtype: crate::op::Dtype::F32,
            measured_ns: None,
        };
        Event::Op(OpEvent {
            name: "tanh".into(),
            inputs: Vec::new(),
            consumed: Vec::new(),
            in_place: Vec::new(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            scratch_bytes: 0,
            work,
            exact: true,
            module: None,
            ran: ran(begin_ns, end_ns),
        })
    }

    #[test]
    fn costs_count_for_the_way_in_which_a_storage_left() {
        let again = |storage, begin_ns, end_ns| {
            let storages = vec![Made { storage, bytes: 10 }];
            Event::Recompute(Recomputed { name: "exp".into(), storages, ran: ran(begin_ns, end_ns) })
        };
        let events = [
            op(0, 10),
            copy(Lane::Offload, 1, 10, 12),
            evict(1, How::Offload),
            evict(2, How::Drop),
            op(12, 20),
            again(2, 20, 25),
            copy(Lane::Fetch, 1, 22, 30),
            op(30, 40),
        ];
        let moments = [10, 10, 12, 12, 20, 25, 25, 40];
        let (leaving, idle_ns) = leaving(&events, &moments, 0);
        let expected = |how, away_ns, recompute_ns, wait_ns| Leaving {
            made_by: "exp".into(),
            module: None,
            size_bytes: 10,
            how,
            count: 1,
            away_ns,
            recompute_ns,
            wait_ns,
        };
        // Ops wait from 10 to 12 for the copy out, and from 25 to 30 for the copy back.
        assert_eq!(leaving, [expected(How::Offload, 10, 0, 7), expected(How::Drop, 8, 5, 0)]);
        assert_eq!(idle_ns, 7);
    }
}
