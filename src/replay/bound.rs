//! A lower bound on the time of an iteration, for any schedule.

use std::collections::HashMap;

use crate::engine::Props;
use crate::trace::{Event, Program};

/// The most ops at which the bound is estimated, and the most at which it is computed exactly.
const MAX_ESTIMATED: usize = 1024;
const MAX_EXACT: usize = 64;

/// One iteration, op by op.
#[derive(Debug)]
pub struct RelaxedIteration {
    /// Time at which each op begins if nothing is evicted.
    begins_ns: Vec<u64>,
    end_ns: u64,
    /// Live bytes at each op, without those that are only on the host.
    live_bytes: Vec<usize>,
    storages: Vec<Storage>,
    /// Ops that may run again, with their outputs, the cheapest bytes first.
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Storage {
    bytes: usize,
    /// The op before which it arrived on the device.
    made_at: usize,
    /// Ops that read it, in order.
    uses: Vec<usize>,
    /// The op before which it was freed; `None` if it stays.
    freed_at: usize,
    /// Whether it existed before the iteration, so that the host may have it without a copy.
    known_to_host: bool,
}

#[derive(Debug)]
struct Group {
    cost_ns: f64,
    /// Of `storages`.
    members: Vec<usize>,
}

impl Group {
    fn bytes(&self, storages: &[Storage]) -> usize {
        self.members.iter().map(|&member| storages[member].bytes).sum()
    }
}

impl RelaxedIteration {
    pub fn new(program: &Program, props: &Props) -> Self {
        let mut relaxed = RelaxedIteration {
            begins_ns: Vec::new(),
            end_ns: 0,
            live_bytes: Vec::new(),
            storages: Vec::new(),
            groups: Vec::new(),
        };
        let mut places: HashMap<u64, usize> = HashMap::new();
        for event in &program.events {
            let now = relaxed.begins_ns.len();
            let mut freed = Vec::new();
            match event {
                Event::Constant(made) | Event::Write(made) => {
                    places.insert(made.storage, relaxed.storages.len());
                    // Data that the program wrote comes to the device at its first use.
                    let made_at = if matches!(event, Event::Write(_)) { usize::MAX } else { now };
                    relaxed.add(made.bytes, made_at, true);
                }
                Event::Op(op) => {
                    for input in &op.inputs {
                        let storage = &mut relaxed.storages[places[input]];
                        storage.made_at = storage.made_at.min(now);
                        storage.uses.push(now);
                    }
                    let cost_ns = props.launch_ns(&op.work);
                    let first = relaxed.storages.len();
                    for made in &op.outputs {
                        places.insert(made.storage, relaxed.storages.len());
                        relaxed.add(made.bytes, now, false);
                    }
                    let members: Vec<usize> = (first..relaxed.storages.len()).collect();
                    if op.exact && !members.is_empty() {
                        relaxed.groups.push(Group { cost_ns: cost_ns as f64, members });
                    }
                    relaxed.begins_ns.push(relaxed.end_ns);
                    relaxed.end_ns += cost_ns;
                    for &place in &op.consumed {
                        // The output may have taken the input's memory, so the two do not both count as live.
                        let at = if op.in_place.contains(&place) { now } else { now + 1 };
                        relaxed.storages[places[&op.inputs[place]]].freed_at = at;
                    }
                }
                Event::Free(storage) => freed.push(*storage),
                _ => {}
            }
            for storage in freed {
                relaxed.storages[places[&storage]].freed_at = now;
            }
        }
        relaxed.finish();
        relaxed
    }

    fn add(&mut self, bytes: usize, made_at: usize, known_to_host: bool) {
        let (uses, freed_at) = (Vec::new(), usize::MAX);
        self.storages.push(Storage { bytes, made_at, uses, freed_at, known_to_host });
    }

    fn finish(&mut self) {
        let mut change = vec![0i64; self.begins_ns.len() + 1];
        for storage in &self.storages {
            let freed_at = storage.freed_at.min(self.begins_ns.len());
            if storage.made_at < freed_at {
                change[storage.made_at] += storage.bytes as i64;
                change[freed_at] -= storage.bytes as i64;
            }
        }
        let mut live = 0;
        self.live_bytes = (change.iter().take(self.begins_ns.len()))
            .map(|change| {
                live += change;
                live as usize
            })
            .collect();
        let storages = &self.storages;
        let density = |group: &Group| group.cost_ns / group.bytes(storages).max(1) as f64;
        self.groups.sort_by(|a, b| density(a).total_cmp(&density(b)));
    }

    /// The least time that an iteration can take, in nanoseconds; see [`Replay::bound`](super::Replay::bound). `link`: bytes
    /// per nanosecond, if bytes may go to the host.
    pub fn least_ns(&self, budget_bytes: usize, link: Option<f64>, recompute: bool) -> Option<f64> {
        let short_bytes = |op: usize| {
            let hidden_bytes = link.unwrap_or(0.0) * self.around_ns(op);
            self.live_bytes[op] as f64 - budget_bytes as f64 - hidden_bytes
        };
        // Every op gives a bound. Those with the most bytes beyond the budget, or with a high estimate, give the best
        // ones.
        let mut short: Vec<(f64, usize)> = (0..self.live_bytes.len())
            .map(|op| (short_bytes(op), op))
            .filter(|short| short.0 > 0.0)
            .collect();
        short.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut delays: Vec<(f64, usize)> = Vec::new();
        for &(_, op) in short.iter().take(MAX_ESTIMATED) {
            let excess = self.live_bytes[op] - budget_bytes;
            delays.push((self.delay_ns(op, excess, link, recompute, false)?, op));
        }
        delays.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut longest_ns = 0.0f64;
        for &(_, op) in delays.iter().take(MAX_EXACT) {
            let excess = self.live_bytes[op] - budget_bytes;
            longest_ns = longest_ns.max(self.delay_ns(op, excess, link, recompute, true)?);
        }
        Some(self.end_ns as f64 + longest_ns)
    }

    /// See [`Replay::offload_bound_bytes`](super::Replay::offload_bound_bytes).
    pub fn unhidden_bytes(&self, link: f64) -> usize {
        let unhidden = |op: usize| self.live_bytes[op] as f64 - link * self.around_ns(op);
        (0..self.live_bytes.len()).map(unhidden).fold(0.0, f64::max).ceil() as usize
    }

    /// How much longer the iteration must take for `excess` bytes to be absent while `op` runs. Unless `exact`, the
    /// outputs of an op are treated as absent together or not at all.
    fn delay_ns(
        &self,
        op: usize,
        excess: usize,
        link: Option<f64>,
        recompute: bool,
        exact: bool,
    ) -> Option<f64> {
        let away = |storage: &&Storage| self.may_be_away(storage, op);
        // Bytes that are not used again need no copy back, and bytes that the host has need no copy out.
        let free = |storage: &&Storage| {
            link.is_some() && storage.known_to_host
                || !storage.known_to_host && !storage.uses.iter().any(|&at| at > op)
        };
        let gone: usize = self.storages.iter().filter(away).filter(free).map(|storage| storage.bytes).sum();
        let rate = link.unwrap_or(0.0);
        let mut left = excess as f64 - gone as f64 - rate * self.around_ns(op);
        let mut delay_ns = 0.0;
        let groups = self.groups.iter().take(if recompute { usize::MAX } else { 0 }).map(|group| {
            let members = group.members.iter().map(|&member| &self.storages[member]);
            let away = members.filter(away).filter(|storage| !free(storage));
            (group.cost_ns, away.map(|storage| storage.bytes).sum::<usize>() as f64)
        });
        let mut away: Vec<(f64, f64)> = groups.filter(|&(_, bytes)| bytes > 0.0).collect();
        if exact {
            away.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        }
        for (cost_ns, bytes) in away {
            if left <= 0.0 {
                return Some(delay_ns);
            }
            // A fraction of a group is priced at that fraction of the group's cost, which is too low and keeps this a
            // lower bound.
            let whole = bytes + rate * cost_ns;
            let part = (left / whole).min(1.0);
            delay_ns += part * cost_ns;
            left -= part * whole;
        }
        match (left > 0.0, rate > 0.0) {
            (false, _) => Some(delay_ns),
            (true, true) => Some(delay_ns + left / rate),
            (true, false) => None,
        }
    }

    /// The time before or after an op in which the bytes that are absent while it runs may be copied.
    fn around_ns(&self, op: usize) -> f64 {
        self.begins_ns[op].min(self.end_ns - self.begins_ns[op]) as f64
    }

    /// Whether a storage is live while `op` runs, without being touched by it.
    fn may_be_away(&self, storage: &Storage, op: usize) -> bool {
        storage.made_at < op && storage.freed_at > op && storage.uses.binary_search(&op).is_err()
    }
}
