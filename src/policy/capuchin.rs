//! Peng et al., *Capuchin: Tensor-based GPU Memory Management for Deep Learning*, ASPLOS 2020, section 4: of what is accessed
//! again after the peak, that with the longest free time (FT) is swapped, as long as the time hides both copies; what is still
//! missing is swapped or recomputed, whichever delays less, and recomputed in order of memory saving per second (MSPS).
//! Swapped values come back at an in-trigger, an access one copy's time before they are needed; recomputation is on
//! demand.
//!
//! In the paper, an in-trigger moves earlier when an access had to wait; here it stays as predicted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::liveness::Dataflow;

use super::published::{Limits, Plan};
use super::tensor_cache::TensorCache;
use super::{Candidate, Eviction, Reactive, Ways};

/// Ops that are counted as one recomputation, at the most.
const MOST_REMADE_OPS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Capuchin;

impl Reactive for Capuchin {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        TensorCache.pick(need_bytes, candidates)
    }

    fn how(&self, ways: Ways) -> Option<Eviction> {
        // Where nothing can be moved, what can be recomputed is dropped.
        TensorCache.how(ways).or(ways.remake_ns.map(|_| Eviction::Drop))
    }

    fn plans(&self) -> bool {
        true
    }

    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        vec![choose(flow, limits)]
    }
}

/// A value that may be evicted in a gap.
#[derive(Debug, Clone, Copy)]
struct Access {
    gap: usize,
    value: usize,
    /// The evicted access and the back access.
    from: usize,
    until: usize,
    /// Time between the end of the copy out and the latest beginning of that in.
    free_ns: i64,
}

fn accesses(flow: &Dataflow) -> Vec<Access> {
    let access = |(gap, entry): (usize, &crate::liveness::Gap)| {
        let until = entry.until.map(|(until, _)| until).filter(|&until| until < flow.ops.len())?;
        let copies_ns = 2 * flow.values[entry.value].copy_ns as i64;
        let free_ns = flow.begin_ns(until) as i64 - flow.begin_ns(entry.from + 1) as i64 - copies_ns;
        (until > entry.from + 1).then_some(Access {
            gap,
            value: entry.value,
            from: entry.from,
            until,
            free_ns,
        })
    };
    flow.gaps.iter().enumerate().filter_map(access).collect()
}

fn choose(flow: &Dataflow, limits: Limits) -> Plan {
    let mut left: Vec<usize> =
        flow.ops.iter().map(|op| op.need_bytes.saturating_sub(limits.budget_bytes)).collect();
    let mut choosing = Choosing { flow, dropped: vec![None; flow.values.len()], plan: Plan::default() };
    let mut accesses = accesses(flow);
    accesses.sort_by_key(|access| (Reverse(access.free_ns), access.gap));
    accesses.retain(|access| {
        let swapped = limits.offload && access.free_ns >= 0 && relieve(flow, &mut left, access);
        if swapped {
            choosing.swap(access);
        }
        !swapped
    });
    // What recomputation saves per second only falls as more is dropped, so that a figure is worked out anew when it is the
    // largest.
    let saved =
        |choosing: &Choosing, at: usize| Some((choosing.saved_per_second(&accesses[at])?, Reverse(at)));
    let places = 0..if limits.recompute { accesses.len() } else { 0 };
    let mut by_saving: BinaryHeap<_> = places.filter_map(|at| saved(&choosing, at)).collect();
    let mut taken = vec![false; accesses.len()];
    let mut next_swap = 0;
    while left.iter().any(|&bytes| bytes > 0) {
        let useful = |at: usize| !taken[at] && helps(&left, &accesses[at]);
        next_swap = (next_swap..accesses.len()).find(|&at| useful(at)).unwrap_or(accesses.len());
        let swap = (limits.offload && next_swap < accesses.len()).then_some(next_swap);
        let mut drop = None;
        while let Some((stale, Reverse(at))) = by_saving.pop() {
            match saved(&choosing, at).filter(|_| useful(at)) {
                Some(fresh) if fresh.0 == stale => drop = Some(fresh),
                Some(fresh) => by_saving.push(fresh),
                None => {}
            }
            if drop.is_some() {
                break;
            }
        }
        let swap_ns = swap.map(|at| accesses[at].free_ns.min(0).unsigned_abs());
        let remake_ns = drop.and_then(|(_, Reverse(at))| choosing.remake_ns(&accesses[at]));
        let swaps = swap_ns.is_some_and(|swap_ns| remake_ns.is_none_or(|remake_ns| swap_ns <= remake_ns));
        let Some(at) = (if swaps { swap } else { drop.map(|(_, Reverse(at))| at) }) else { break };
        relieve(flow, &mut left, &accesses[at]);
        taken[at] = true;
        if swaps {
            choosing.swap(&accesses[at]);
            by_saving.extend(drop);
        } else {
            choosing.drop(&accesses[at]);
        }
    }
    choosing.plan
}

fn helps(left: &[usize], access: &Access) -> bool {
    left[access.from + 1..access.until].iter().any(|&bytes| bytes > 0)
}

/// Takes a value's bytes off what is missing. `false`: that helps nowhere.
fn relieve(flow: &Dataflow, left: &mut [usize], access: &Access) -> bool {
    let needed = helps(left, access);
    if needed {
        let bytes = flow.values[access.value].size_bytes;
        left[access.from + 1..access.until]
            .iter_mut()
            .for_each(|excess| *excess = excess.saturating_sub(bytes));
    }
    needed
}

struct Choosing<'a> {
    flow: &'a Dataflow,
    /// By value: the op after which it is dropped and that before which it is remade.
    dropped: Vec<Option<(usize, usize)>>,
    plan: Plan,
}

impl Choosing<'_> {
    fn swap(&mut self, access: &Access) {
        let need_ns = self.flow.begin_ns(access.until);
        let trigger = self.flow.op_at(need_ns.saturating_sub(self.flow.values[access.value].copy_ns));
        self.plan.swap(self.flow, access.gap, Some(trigger.clamp(access.from + 1, access.until)));
    }

    fn drop(&mut self, access: &Access) {
        self.dropped[access.value] = Some((access.from, access.until));
        self.plan.drop(self.flow, access.gap);
    }

    /// Bytes saved per second of recomputation.
    fn saved_per_second(&self, access: &Access) -> Option<u64> {
        let bytes = self.flow.values[access.value].size_bytes as u64;
        Some(bytes.saturating_mul(1_000_000_000) / self.remake_ns(access)?.max(1))
    }

    /// Predicted time to make a value again when it is accessed: with what it is made from and is not there then. None if
    /// that cannot be.
    fn remake_ns(&self, access: &Access) -> Option<u64> {
        let is_there = |value: usize| {
            let record = &self.flow.values[value];
            let gone = record.freed_after.is_some_and(|op| op < access.until);
            let away =
                self.dropped[value].is_some_and(|(from, until)| (from + 1..until).contains(&access.until));
            !gone && !away
        };
        let (mut total_ns, mut ops) = (0, Vec::new());
        let mut needed = vec![access.value];
        while let Some(value) = needed.pop() {
            let op = self.flow.values[value].made_by?;
            if ops.contains(&op) {
                continue;
            }
            if !self.flow.ops[op].exact || ops.len() == MOST_REMADE_OPS {
                return None;
            }
            ops.push(op);
            total_ns += self.flow.ops[op].launch_ns;
            let inputs = self.flow.ops[op].inputs.iter().copied();
            needed.extend(inputs.filter(|&input| !is_there(input)));
        }
        Some(total_ns)
    }
}
