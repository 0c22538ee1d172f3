//! The time of each event: work has its own times, and a decision of the pool gets a time between the ops that it
//! lies between.

use std::collections::HashSet;

use crate::engine::{Lane, Tier};
use crate::trace::Event;

/// A moment for every event, in nanoseconds since the recording began, never less than the one before.
///
/// An op's event gets the time of its end. Decisions that the pool made for the op get the time at which the previous
/// op was done, since freed memory belongs to the next op from then on. A workspace is freed at the op's end.
pub(super) fn moments(events: &[Event]) -> Vec<u64> {
    let mut moments = Vec::with_capacity(events.len());
    let mut clock_ns = 0;
    let mut fresh = HashSet::new();
    // Releases since then are those of the next op's own workspace.
    let mut workspace_from = 0;
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::Allocate { tier: Tier::Device, address, .. } => {
                fresh.insert(*address);
                workspace_from = index + 1;
            }
            Event::Release { tier: Tier::Device, address, .. } if fresh.contains(address) => {}
            _ => match event.ran() {
                Some((Lane::Compute, ran)) => {
                    clock_ns = clock_ns.max(ran.end_ns);
                    moments[workspace_from..].fill(clock_ns);
                    fresh.clear();
                    workspace_from = index + 1;
                }
                _ => workspace_from = index + 1,
            },
        }
        moments.push(clock_ns);
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Ran, Recomputed};

    fn work(begin_ns: u64, end_ns: u64) -> Event {
        let ran = Ran { sequence: 0, begin_ns, end_ns };
        Event::Recompute(Recomputed { name: "op".into(), storages: Vec::new(), ran })
    }

    #[test]
    fn a_workspace_lasts_as_long_as_its_op() {
        let (tier, bytes) = (Tier::Device, 256);
        let events = [
            work(0, 10),
            Event::Release { tier, address: 0, bytes },
            Event::Allocate { tier, address: 256, bytes },
            Event::Allocate { tier, address: 512, bytes },
            Event::Release { tier, address: 512, bytes },
            work(15, 20),
            Event::Free(0),
        ];
        assert_eq!(moments(&events), [10, 10, 10, 10, 20, 20, 20]);
    }
}
